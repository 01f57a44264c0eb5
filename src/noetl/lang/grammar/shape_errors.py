"""What is said about a value that does not have its shape: messages, places and ways out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

from noetl.lang.grammar.document_shape import SHAPES, TASK_KEYS
from noetl.lang.grammar.foreign_keys import find_foreign
from noetl.lang.grammar.invariants import span
from noetl.lang.grammar.value_types import describe_node, in_seconds, is_nothing, respell_value, suggest_fix
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, NodeBase, Scalar
from noetl.lang.reading.yaml_mistakes import slip_of
from noetl.model.diagnostics import Diagnostics, Edit
from noetl.model.kinds import ToolKind
from noetl.model.nearest import SpellingHints, guess_word
from noetl.model.shape import OneOf, Record, Shape, ShapeRef

# Keys that stand beside the one they belong under: the usual slip where indentation is syntax.


class StrayEntries(NamedTuple):
    """Entries that follow an empty one and belong under it."""

    home: MapEntry
    entries: list[MapEntry]


def find_strays(home: MapEntry, node: MapNode, shape: Record, kinds: Mapping[str, ToolKind]) -> StrayEntries | None:
    """What was meant to stand under an empty key: keys right behind it that only it knows, and those between them."""
    behind = node.entries[node.entries.index(home) + 1 :]
    inner = _inner(shape.keys[home.name].shape, behind, kinds)
    inside = list(takewhile(lambda one: one.name in inner, behind))
    while inside and inside[-1].name in shape.keys:
        inside.pop()
    return StrayEntries(home, inside) if inside and inside[0].name not in shape.keys else None


def find_home(entry: MapEntry, node: MapNode, shape: Record, kinds: Mapping[str, ToolKind]) -> str | None:
    """The key above an unknown one under which it would be known, and is missing."""
    found = None
    for other in node.entries:
        if other is entry:
            break
        key = shape.keys.get(other.name)
        if key is not None and isinstance(other.value, MapNode) and entry.name not in other.value:
            found = other.name if entry.name in _inner(key.shape, other.value.entries, kinds) else None
    return found


def _inner(shape: Shape, entries: list[MapEntry], kinds: Mapping[str, ToolKind]) -> set[str]:
    """The keys that may stand in a map of this shape."""
    if isinstance(shape, OneOf):
        return set().union(*(_inner(one, entries, kinds) for one in shape.shapes))
    if isinstance(shape, ShapeRef):
        named = SHAPES.get(shape.name)
        return _of_task(entries, kinds) if shape.name == "Task" else _inner(named, entries, kinds) if named else set()
    return set(shape.keys) if isinstance(shape, Record) else set()


def _of_task(entries: list[MapEntry], kinds: Mapping[str, ToolKind]) -> set[str]:
    kind = next((one.value.text for one in entries if one.name == "kind" and isinstance(one.value, Scalar)), None)
    return {"kind", *TASK_KEYS, *(kinds[kind].keys if kind is not None and kind in kinds else ())}


def indent_edits(found: StrayEntries, node: MapNode, text: str) -> list[Edit]:
    """The edits that move entries to where they belong; none where the text is not theirs alone."""
    first, last = found.entries[0], found.entries[-1]
    if node.flow or node.alias or any(one.key.alias or one.key.changed or one.merged for one in found.entries):
        return []
    start = text.rfind("\n", 0, first.key.start) + 1
    if text[start : first.key.start].strip(" "):
        return []
    edits = []
    while 0 <= start < max(last.value.end, last.key.end):
        if text[start : start + 1] not in ("\n", "\r"):
            edits.append(Edit(start, start, "  "))
        start = text.find("\n", start) + 1 or len(text)
    return edits


def label_without_task(entry: MapEntry, node: MapNode) -> bool:
    """Whether this is the name of a task whose keys stand beside it: `- fetch:` and `kind: http` below the `f`."""
    return entry is node.entries[0] and is_nothing(entry.value) and "kind" in node


_MANY = 200


class ShapeReporter:
    """Reports for the check of shapes; each knows the usual slips behind it."""

    def __init__(self, problems: Diagnostics, kinds: Mapping[str, ToolKind], root: Record) -> None:
        self.problems = problems
        self.kinds = kinds
        self.root = root
        self.unknown = 0
        self.hints = SpellingHints()
        #: unknown keys of which it has been told where they belong
        self.strayed: set[int] = set()

    def report_unknown_key(self, entry: MapEntry, node: MapNode, shape: Record) -> str:
        """Report a key that a map does not know; returns the one that was probably meant, or an empty text."""
        if id(entry) in self.strayed or (shape is self.root and entry.name.startswith("x-")):
            return ""
        special = (
            _SPECIAL.get((shape.title, entry.name)) or _ANYWHERE.get(entry.name)
            if "spec" in shape.title
            else (_SPECIAL.get((shape.title, entry.name)))
        )
        if special is not None:
            code, message, fix = special
            self.problems.error(code, message, span(entry.key), fix=fix)
            return ""
        if "policy" in shape.title and self.report_control_words(entry.value):
            return ""
        message = f"{shape.title} has no key `{entry.name}`"
        self.unknown += 1
        if self.unknown >= _MANY:
            # Whoever has hundreds of unknown keys did not misspell them, and looking for each would take long.
            self.problems.error("unknown-key", message, span(entry.key), fix="remove it")
            return ""
        if (slip := slip_of(entry.key, self.problems.source.text)) is not None:
            fix = f"{slip.message}: {slip.fix}"
            self.problems.error("unknown-key", message, (slip.start, slip.end), fix=fix, edits=slip.edits)
            return entry.name.partition(":")[0].strip("\u00a0 -")
        instead = find_foreign(shape.title, entry.name)
        if instead is not None and find_home(entry, node, shape, self.kinds) is None:
            self.problems.error("unknown-key", message, span(entry.key), fix=instead)
            # What stands for another key is one mistake, not also that the other one is missing.
            return next((name for name in _STOOD_FOR if f"`{name}" in instead), "")
        known = [name for name, key in shape.keys.items() if not key.hidden and not key.reserved]
        meant = self.hints.nearest(entry.name, known)
        there = node.entry(meant) if meant else None
        if there is not None:
            line, _ = self.problems.source.place(there.key.place)
            fix = f"did you mean `{meant}`? It is already there on line {line}: keep one of the two"
        else:
            fix = f"did you mean `{meant}`?" if meant else self.suggest_key(entry, node, shape, known)
        edits = self.replacement_edits(entry.key, meant) if there is None else ()
        self.problems.error("unknown-key", message, span(entry.key), fix=fix, edits=edits)
        return meant or guess_word(entry.name, known) or ""

    def suggest_key(self, entry: MapEntry, node: MapNode, shape: Record, known: list[str]) -> str:
        """What to do about a key that is no slip of the finger."""
        home = find_home(entry, node, shape, self.kinds)
        if home is not None:
            return f"it belongs under `{home}`: indent it further"
        if label_without_task(entry, node):
            return f"write `name: {entry.name}`, or indent the lines below `{entry.name}:` further"
        meant = guess_word(entry.name, known)
        if meant is not None:
            return f"did you mean `{meant}`?"
        return f"it takes: {', '.join(known)}" if known else "remove it"

    def report_if_empty(self, entry: MapEntry, node: MapNode, shape: Record) -> bool:
        """Report a key without a value, if what belongs under it stands beside it, or if it needs one."""
        found = find_strays(entry, node, shape, self.kinds)
        if found is not None:
            self.report_misplaced(found, node)
        elif shape.keys[entry.name].required:
            self.report_no_value(entry, shape.title, shape.keys[entry.name].doc)
        else:
            return False
        return True

    def report_misplaced(self, found: StrayEntries, node: MapNode) -> None:
        """Report keys that stand beside an empty one and belong under it."""
        home = found.home.name
        self.strayed.update(map(id, found.entries))
        names = [f"`{one.name}`" for one in found.entries]
        verb, them = ("stands", "it") if len(names) == 1 else ("stand", "them")
        self.problems.error(
            "unknown-key",
            f"{', '.join(names)} {verb} beside `{home}`, which is empty",
            span(found.entries[0].key),
            fix=f"put {them} under `{home}`: indent {them} by two more spaces",
            edits=indent_edits(found, node, self.problems.source.text),
        )

    def report_reserved(self, entry: MapEntry, instead: str) -> None:
        """Report a word that has no meaning here, or what is under it that has one elsewhere."""
        writes = entry.value.entry("set") if isinstance(entry.value, MapNode) and entry.name == "spec" else None
        if writes is not None:
            code, message, fix = _ANYWHERE["set"]
            self.problems.error(code, message, span(writes.key), fix=fix)
        elif not self.report_control_words(entry.value):
            message = f"`{entry.name}` has no meaning here"
            self.problems.error("reserved", message, span(entry.key), fix=instead)

    def report_control_words(self, node: Node) -> bool:
        """Report control words in a policy that is not a task's; true if there was one."""
        found = False
        if isinstance(node, MapNode):
            for entry in node.entries:
                if entry.name == "do":
                    self.report_control_outside_task(entry)
                    found = True
                else:
                    found |= self.report_control_words(entry.value)
        elif isinstance(node, ListNode):
            for item in node.items:
                found |= self.report_control_words(item)
        return found

    def report_control_outside_task(self, entry: MapEntry) -> None:
        self.problems.error(
            "control-outside-task",
            f"`do: {entry.value.text if isinstance(entry.value, Scalar) else '…'}` steers tasks; it has no meaning here",
            span(entry.key),
            fix="move the rule to `spec.policy.rules` of a task",
        )

    def report_no_value(self, entry: MapEntry, title: str, doc: str) -> None:
        """A required key without a value is as good as missing."""
        message = f"{title} needs a value for `{entry.name}`{_hint(doc)}"
        self.problems.error("missing-key", message, span(entry.key), fix=f"write it behind `{entry.name}:`")

    def report_missing(self, node: MapNode, key: str, title: str, doc: str, *, warn: bool = False) -> None:
        quoted = key if key.startswith("`") else f"`{key}`"
        hint = _hint(doc)
        end = node.entries[0].key.end if node.entries else node.start + 1
        at = node.alias or (node.start, max(node.start, end))
        tell = self.problems.warning if warn else self.problems.error
        tell("missing-key", f"{title} needs {quoted}{hint}", at, fix=f"add {quoted}")

    def report_wrong_type(self, node: Node, name: str, wanted: str) -> None:
        what = describe_node(node)
        if wanted == "a whole number" and what == "a number" and isinstance(node, Scalar):
            what = node.text
        message = f"{name} must be {wanted}, not {what}"
        slip = slip_of(node, self.problems.source.text) if wanted != "text" else None
        if slip is not None:
            at, fix = (slip.start, slip.end), f"{slip.message}: {slip.fix}"
            self.problems.error("wrong-type", message, at, fix=fix, edits=slip.edits)
            return
        seconds = in_seconds(node, name, wanted)
        meant = respell_value(node, wanted) or seconds
        edits = [Edit(node.start, node.end, meant)] if meant and not node.alias and not node.changed else ()
        fix = f"write {meant}" if meant else suggest_fix(node, wanted)
        fix = f"write seconds, a number: {seconds}" if seconds else fix
        self.problems.error("wrong-type", message, span(node), fix=fix, edits=edits)

    def replacement_edits(self, node: Scalar | NodeBase, text: str | None) -> Iterable[Edit]:
        """The edit that puts another word in the place of a plain one."""
        if text is None or node.alias or not isinstance(node, Scalar):
            return ()
        return [Edit(node.start, node.end, text)] if node.style == "" and not node.changed else ()

    def report_glued(self, node: MapNode, key: str) -> bool:
        """Report `{kind:python}`, a key without a value; true if it is there."""
        for entry in node.entries:
            slip = slip_of(entry.key, self.problems.source.text) if entry.name.startswith(f"{key}:") else None
            if slip is not None:
                self.problems.error("missing-key", slip.message, (slip.start, slip.end), fix=slip.fix, edits=slip.edits)
                return True
        return False


def _hint(doc: str) -> str:
    return f" ({doc.rstrip('.')[0].lower()}{doc.rstrip('.')[1:]})" if doc else ""


#: keys in whose place others are written
_STOOD_FOR = ("next", "tool", "workflow")
_MOVE_SET = "`set` stands beside `tool`, on a task, in `then` or on an arc"
_ANYWHERE = {"set": ("set-under-spec", "`set` cannot stand under `spec`", _MOVE_SET)}
_SPECIAL = {
    ("an arc", "input"): (
        "arc-payload",
        "an arc carries no `input`",
        "write the values with the arc's `set` into `ctx.*` and read them in the next step's `input`",
    ),
    ("`then`", "do"): (
        "control-outside-task",
        "`do` steers tasks; admission knows only `allow`",
        "move the rule to `spec.policy.rules` of a task",
    ),
}
