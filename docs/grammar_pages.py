"""The reference pages that are read off tables of shapes: the grammar of the document and the tool kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.lang.grammar.document_shape import API_VERSION, NAME_PATTERN, PLAYBOOK, SHAPES, SUGAR_SHAPES, TASK_KEYS
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import (
    Anything,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Shape,
    ShapeRef,
    Text,
    When,
    Word,
)
from noetl.testing.file_grammar import NAMED, TEST_FILE
from noetl.tools.registry import BUILT_IN, ToolKinds

#: the headings of shapes that are referred to by name
_HEADINGS = {
    "Step": "A step",
    "Loop": "A loop",
    "Arc": "An arc",
    "Join": "A join",
    "AdmitRule": "A rule of admission",
    "AdmitThen": "`then` of admission",
    "Rule": "A rule of a task",
    "Then": "`then` of a task",
    "Task": "A task",
    "TaskItem": "A task",
    "Mock": "A mock",
}
#: what their keys are prefixed with in headings
_PATHS = {"AdmitRule": "admit.rules[]", "AdmitThen": "admit.rules[].then", "Rule": "rules[]", "Then": "rules[].then"}
_SET = "map of `ctx.*`, `step.*` or `iter.*` to values"


class Tables:
    """Records to sections with a table each; a record that is met on the way gets a section of its own."""

    def __init__(self, named: Mapping[str, Shape], *, page: str = "") -> None:
        self._named = named
        #: the page on which named shapes are explained, when it is another one
        self._page = page
        self._met: list[tuple[str, str, Record]] = []
        self._known: list[tuple[str, Record]] = []

    def page(self, heading: str, path: str, record: Record) -> str:
        """The record and all that it leads to; `path` is what its keys are prefixed with in further headings."""
        self._add(heading, path, record)
        waiting, sections = self._taken(), []
        while waiting:
            sections.append(self._section(*waiting.pop(0)))
            waiting = self._taken() + waiting
        return "\n".join(sections)

    def _taken(self) -> list[tuple[str, str, Record]]:
        taken, self._met = self._met, []
        return taken

    def _add(self, heading: str, path: str, record: Record) -> str:
        same = next((name for name, known in self._known if known == record), None)
        if same is None:
            self._known.append((heading, record))
            self._met.append((heading, path, record))
        return same or heading

    def _section(self, heading: str, path: str, record: Record) -> str:
        lines = [f"## {heading}", ""]
        lines += [record.doc, ""] if record.doc else []
        return "\n".join([*lines, *self._table(path, record.keys), ""])

    def _table(self, path: str, keys: Mapping[str, Key]) -> Iterable[str]:
        yield "| key | holds | meaning |"
        yield "|---|---|---|"
        for name, key in keys.items():
            if not key.hidden:
                holds = "reserved" if key.reserved else self._holds(key.shape, f"{path}.{name}".lstrip("."))
                more = "; required" * key.required or (f"; default `{_plain(key.default)}`" * (key.default is not None))
                yield f"| `{name}` | {_cell(holds + more)} | {_cell(key.doc)} |"

    def _holds(self, shape: Shape, path: str) -> str:
        match shape:
            case Record():
                return link(self._add(f"`{path}`", path, shape))
            case ShapeRef(name="Set"):
                return _SET
            case ShapeRef():
                return self._named_link(shape.name)
            case ListOf():
                return f"list: {self._holds(shape.item, f'{path}[]')}"
            case MapOf():
                return f"map by name: {self._holds(shape.value, f'{path}.*')}"
            case OneOf():
                return " *or* ".join(dict.fromkeys(self._holds(one, path) for one in shape.shapes))
            case _:
                return simple(shape)

    def _named_link(self, name: str) -> str:
        heading, found = _HEADINGS[name], self._named.get(name)
        if isinstance(found, OneOf):  # a list of the same, or the map that is explained
            found = next((one for one in found.shapes if isinstance(one, Record)), found)
        if self._page or not isinstance(found, Record):
            return link(heading, self._page)
        return link(self._add(heading, _PATHS.get(name, name.lower()), found))


def simple(shape: Shape) -> str:
    """A shape without parts, in words."""
    match shape:
        case Text():
            return "name" if shape.name else "text, may be a template" if shape.templated else "text"
        case Number():
            least = f" ≥ {shape.minimum:g}" if shape.minimum is not None else ""
            return f"{'whole ' * shape.integer}number{least}{', or a template' * shape.templated}"
        case Flag():
            return f"true or false{', or a template' * shape.templated}"
        case Word():
            return "one of " * (len(shape.words) > 1) + _words(shape.words) + ", or a template" * shape.templated
        case When():
            return "one `{{ … }}`, or true or false"
        case Anything():
            return "anything, no templates" if shape.literal else "anything"
        case _:
            raise TypeError(shape)


def link(heading: str, page: str = "") -> str:
    """A link to a heading, as it is anchored by the usual renderers."""
    anchor = "".join(one for one in heading.lower().replace(" ", "-") if one.isalnum() or one in "-_")
    return f"[{heading}]({page}#{anchor})"


def _plain(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def grammar_page() -> str:
    """docs/reference/grammar.md"""
    tables = Tables({**SHAPES, "Task": Record(title="a task", keys=TASK_KEYS, doc=_TASK_DOC), "TaskItem": _ITEM})
    parts = [_GRAMMAR_INTRO, tables.page("A playbook", "", PLAYBOOK), "## Sugar\n", _SUGAR]
    for word, shape in SUGAR_SHAPES.items():
        inner = shape.item if isinstance(shape, ListOf) else shape
        assert isinstance(inner, Record)
        heading = f"A branch of `{word}`" if isinstance(shape, ListOf) else f"`{word}`"
        parts.append(tables.page(heading, word, inner))
    return "\n".join(parts)


def tests_page() -> str:
    """docs/reference/tests.md"""
    return "\n".join([_TESTS_INTRO, Tables(NAMED).page("A test file", "", TEST_FILE)])


def tools_page() -> str:
    """docs/reference/tools.md"""
    kinds = ToolKinds()
    return "\n".join([_TOOLS_INTRO, *(_tool(kinds[name]) for name in BUILT_IN)])


def _tool(kind: ToolKind) -> str:
    facts = [kind.doc, "", f"* `output.data`: {kind.output}", f"* `input`: {_INPUT[kind.input]}"]
    facts += [f"* exactly one of {_words(group)}" for group in kind.one_of if len(group) > 1]
    facts += [f"* `{group[0]}` is required" for group in kind.one_of if len(group) == 1]
    facts += [f"* at most one of {_words(group)}" for group in kind.at_most_one]
    facts += [f"* never a template: {_words(sorted(kind.literal))}"] * bool(kind.literal)
    facts += [f"* templates are bound as parameters: {_words(sorted(kind.sql))}"] * bool(kind.sql)
    facts += [f"* templates are quoted as single words: {_words(sorted(kind.shell))}"] * bool(kind.shell)
    facts += [f"* in the single-task shape `name` stands for `{kind.name_means}`"] * bool(kind.name_means)
    facts += [f"* also called {_words(kind.aliases)}"] * bool(kind.aliases)
    intro = "\n".join(facts)
    if not kind.keys:
        return f"## `{kind.name}`\n\n{intro}\n"
    return Tables({}, page="grammar.md").page(f"`{kind.name}`", kind.name, Record(title="", keys=kind.keys, doc=intro))


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


_INPUT = {
    InputRole.CONFIGURES: "its keys configure the tool, as the same keys beside `kind` do",
    InputRole.ARGUMENTS: "its keys are the arguments of the call",
}
_TASK_DOC = (
    "The body of a step is one task or an ordered list of tasks. Beside these keys a task has those of its kind: see "
    "[tools](tools.md). In a list, the shape `- fetch: {kind: http}` is the same as `- {name: fetch, kind: http}`."
)
_ITEM = Record(title="a task", keys=TASK_KEYS, doc=_TASK_DOC)
_SUGAR = (
    "In a list of tasks, `choose`, `while` and `until` are short for tasks with jumps; `noetl explain` shows them.\n"
)
_GRAMMAR_INTRO = f"""# The grammar

Every key a playbook may have. `apiVersion` is `{API_VERSION}`; names have the form `{NAME_PATTERN}`. Root keys that
begin with `x-` are ignored, a place for YAML anchors. Any other key is an error, and so is a
reserved one, which has no meaning yet: the table says what to write instead. The same in a form that editors read: `noetl schema`.
"""
_TESTS_INTRO = """# Tests of playbooks

Every key that a test file, `*.test.yaml`, may have; how they are used is in [test a playbook](../howto/test-a-playbook.md).
The same in a form that editors read: `noetl schema --tests`.
"""
_TOOLS_INTRO = f"""# Tool kinds

Every task has a `kind` and the keys of that kind. All kinds also take {", ".join(f"`{name}`" for name in TASK_KEYS)}:
see [a task](grammar.md#a-task). Kinds of installed plugins come through the entry point group `noetl.tools`.
"""
