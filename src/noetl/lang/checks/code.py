"""Python code: that it parses, returns something, contains no template, and that every parameter of `main` has a value."""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.expr import FUNCTIONS, EvaluationPoint, has_template, visible_names
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.model.playbook import Step, Task

if TYPE_CHECKING:
    import ast


# What a piece of Python hands back: `main`, `result`, a `return` at its top level, or nothing at all.


_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef")
_OWN_NAMES = (*_FUNCTIONS, "ClassDef", "Lambda")
_ASSIGNMENTS = ("Assign", "AugAssign", "AnnAssign")


class NoReturnValue(NamedTuple):
    """Code that hands back nothing: where that shows, and the only function of it, which nobody calls."""

    line: int
    column: int
    function: str | None
    #: whether it does something all the same, such as printing
    acts: bool


def find_no_return(tree: ast.Module) -> NoReturnValue | None:
    """Why code hands back nothing; None: it hands back something, or says openly that it does nothing."""
    body = tree.body
    # The usual answers first: looking everywhere takes time.
    if not body or any(_answers(one) for one in reversed(body)):
        return None
    nodes = list(_walk(body, _OWN_NAMES))
    if any(_answers(one) for one in nodes) or any("result" in getattr(one, "names", ()) for one in _walk(body)):
        return None  # the second: a function says `global result`
    if all(type(one).__name__ in ("Pass", "Import", "ImportFrom") or _is_text(one) for one in body):
        return None
    functions = [one for one in body if type(one).__name__ in _FUNCTIONS]
    acts = any(_acts(one) for one in nodes)
    lonely: Any = functions[0] if len(functions) == 1 and not acts else None
    if lonely is None:
        return NoReturnValue(body[-1].lineno, body[-1].col_offset, None, acts)
    word = "async def " if type(lonely).__name__ == "AsyncFunctionDef" else "def "
    return NoReturnValue(lonely.lineno, lonely.col_offset + len(word), lonely.name, acts)


def _walk(nodes: Iterable[Any], closed: tuple[str, ...] = ()) -> Iterator[Any]:
    """These nodes and all inside of them, but not what is inside of those sorts; code may be nested deeply."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if type(node).__name__ not in closed:
            waiting.extend(_children(node))


def _children(node: Any) -> Iterator[Any]:
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield from (one for one in value if hasattr(one, "_fields"))
        elif hasattr(value, "_fields"):
            yield value


def _answers(node: Any) -> bool:
    """Whether this is where a value is handed back."""
    sort = type(node).__name__
    if sort in _FUNCTIONS:
        return bool(node.name in ("main", "result"))
    if sort == "Assign":
        return any(getattr(target, "id", None) == "result" for target in node.targets)
    if sort == "Name":
        return bool(node.id == "result" and type(node.ctx).__name__ == "Store")
    if sort == "alias":
        return (node.asname or node.name) in ("result", "*")
    if sort == "Call":  # whoever writes names by other means knows what they do
        return getattr(node.func, "id", None) in ("exec", "globals", "locals", "vars", "setattr")
    return sort == "Return"


def _acts(node: Any) -> bool:
    """Whether this does something that can be seen elsewhere, or ends the task."""
    sort = type(node).__name__
    if sort == "Expr":
        return type(node.value).__name__ in ("Call", "Await", "Yield")
    if sort in _ASSIGNMENTS:
        targets = node.targets if sort == "Assign" else [node.target]
        return any(type(target).__name__ in ("Attribute", "Subscript") for target in targets)
    return sort in ("Raise", "Assert", "Delete")


def _is_text(node: Any) -> bool:
    return type(node).__name__ == "Expr" and isinstance(getattr(node.value, "value", None), str)


# Templates of this language in Python code, where nothing renders them: they stay the text that they are.


_SCOPES = (visible_names(EvaluationPoint.TASK_INPUT, in_loop=True) - FUNCTIONS) | {"args"}
_TEMPLATE = re.compile(
    r"\{\{-?[ \t]*(?P<path>(?:%s)\b(?:\.\w+)*)[^{}\n]*\}\}" % "|".join(sorted(_SCOPES))  # noqa: UP031  braces are many
)
#: how many are looked at in one piece of code
_MOST = 100
#: libraries with the same braces: what stands in code that speaks of them is theirs
_RENDERED_THERE = re.compile(r"jinja|mustache|pystache|chevron|liquid", re.IGNORECASE)
#: methods of text that know what to do with such braces: of the first the text itself, of the second what they are given
_OF_BRACES, _LOOKING_FOR = ("format", "format_map"), ("replace", "sub", "split", "partition", "find", "startswith")
_FORMATTED = ("JoinedStr", "TemplateStr")
#: the longest template that is written out once more
_SHOWN = 60
#: a place as Python counts: the line from 1, bytes from 0
_Point = tuple[int, int]


class UnrenderedTemplate(NamedTuple):
    """A template that stays text: where it starts, as Python counts, and what it is."""

    line: int
    column: int
    text: str
    path: str

    @property
    def way_out(self) -> str:
        """What to write instead."""
        name = self.path.rpartition(".")[2]
        if not name.isidentifier() or keyword.iskeyword(name):
            name = "value"
        if self.text.strip("{} ") == f"input.{name}":
            return f"write `{name}`: the keys of `input` are names in the code"
        quote = "'" if '"' in self.text else '"'
        certain = len(self.text) <= _SHOWN and quote not in self.text
        given = f"{quote}{self.text}{quote}" if certain else "…"
        return f"write `{name}: {given}` under the task's `input`, and `{name}` in the code"


def find_unrendered(code: str, tree: ast.Module) -> Iterator[UnrenderedTemplate]:
    """The templates among the texts of some code, and those that Python takes for a set in a set."""
    found = list(islice(_TEMPLATE.finditer(code), _MOST)) if "{{" in code else []
    if not found or _RENDERED_THERE.search(code):
        return
    meant, spared = _stretches(tree)
    for match in found:
        before = code[: match.start()]
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].encode())
        if _within((line, column), meant) and not _within((line, column), spared):
            yield UnrenderedTemplate(line, column, match[0], match["path"])


def _stretches(tree: ast.Module) -> tuple[list[tuple[_Point, _Point]], list[tuple[_Point, _Point]]]:
    """Where a template would be meant as one, and the parts of it where it would not."""
    meant, spared = [], []
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        sort = type(node).__name__
        spared += [_stretch(one) for one in _exempt(node, sort)]
        if sort == "Set" or (sort == "Constant" and isinstance(node.value, str)):
            meant.append(_stretch(node))
        for name in node._fields:
            value = getattr(node, name, None)
            waiting += [one for one in (value if isinstance(value, list) else [value]) if hasattr(one, "_fields")]
    return meant, spared


def _exempt(node: Any, sort: str) -> list[Any]:
    """What a node makes another thing of than a text with braces: f-strings, docstrings, `format`, `replace`, `in`."""
    if sort in _FORMATTED:
        return [node]
    if sort == "Expr":
        return [node] if type(node.value).__name__ == "Constant" else []
    if sort == "Compare":
        return [node.left] if type(node.ops[0]).__name__ in ("In", "NotIn") else []
    if sort == "Call" and type(node.func).__name__ == "Attribute":
        if node.func.attr in _OF_BRACES:
            return [node.func.value]
        return list(node.args) if node.func.attr in _LOOKING_FOR else []
    return []


def _stretch(node: Any) -> tuple[_Point, _Point]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _within(point: _Point, stretches: list[tuple[_Point, _Point]]) -> bool:
    return any(start <= point < end for start, end in stretches)


#: `ast.PyCF_ONLY_AST`: `ast` takes long to import, and few playbooks need to know it
_ONLY_PARSE = 0x400
#: how much code is parsed in all: a playbook of megabytes must not take seconds
_MOST_CHARACTERS = 100_000
#: parameters of `main` that are filled without being asked for
_GIVEN = frozenset({"context", "results", "input_data"})
#: where a step speaks of what its last task returned
_BEHIND = frozenset(
    {EvaluationPoint.STEP_OUTPUT, EvaluationPoint.STEP_SET, EvaluationPoint.ARC_WHEN, EvaluationPoint.ARC_SET}
)


def check(subject: Subject) -> None:
    """Report code that cannot be read, and arguments that are missing."""
    coded = [(step, task) for step, task in all_tasks(subject.playbook) if task.code_at is not None]
    if not coded:
        return
    left = _MOST_CHARACTERS
    #: a plan's steps are made as data, and their templates are rendered
    plans = any(step.router.synthesize is not None for step in subject.all_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of an escape is not for stderr
        for step, task in coded:
            code = str(task.config.get("code") or "")
            left -= len(code)
            tree = _parse_code(subject, task, code) if left > 0 else None
            if tree is None:
                continue
            _result(subject, step, task, tree)
            if not plans:
                _templates(subject, task, code, tree)
            if step is not None and not subject.carries_args:
                _arguments(subject, step, task, tree)


def _parse_code(subject: Subject, task: Task, code: str) -> ast.Module | None:
    try:
        parsed: ast.Module = compile(code, "<code>", "exec", _ONLY_PARSE, dont_inherit=True)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        shown = (error.text or "").strip()
        subject.problems.error(
            "python-syntax",
            f"the code is not Python: {error.msg}",
            _place(subject, task, code, line, column, (error.end_offset or 0) - column),
            fix="`code` is never a template: pass the value through `input`"
            if has_template(shown)
            else "correct this line of the code",
        )
    except (ValueError, RecursionError, MemoryError):
        message = "the code is not Python: it is nested too deeply, or holds characters no text may hold"
        subject.problems.error("python-syntax", message, task.code_at, fix="write it in smaller pieces")
    else:
        return parsed
    return None


def _result(subject: Subject, step: Step | None, task: Task, tree: ast.Module) -> None:
    """Report code that computes something and hands back nothing."""
    found = find_no_return(tree)
    if found is None or "module" in task.config or (found.acts and not _is_read(subject, step, task)):
        return
    if any("result" in block for block in (step and step.input, task.input) if isinstance(block, Mapping)):
        return  # a script's variables are the keys of `input`
    name, code = found.function, str(task.config["code"])
    subject.problems.warning(
        "returns-nothing",
        "the code returns nothing: it has no `main`, no `return`, and never assigns `result`",
        _place(subject, task, code, found.line, _column(code, found.line, found.column), len(name or code)),
        fix=f"nothing calls `{name}`; did you mean `main`?" if name else "assign what it yields to `result`",
    )


def _templates(subject: Subject, task: Task, code: str, tree: ast.Module) -> None:
    """Report templates that nothing renders."""
    for one in find_unrendered(code, tree):
        subject.problems.warning(
            "template-in-code",
            "`code` is never a template: this stays the text that it is",
            _place(subject, task, code, one.line, _column(code, one.line, one.column), len(one.text)),
            fix=one.way_out,
        )


def _is_read(subject: Subject, step: Step | None, task: Task) -> bool:
    """Whether a template reads what a task returned."""
    if step is None:
        return False
    last = bool(step.tasks) and step.tasks[-1] is task
    return any(
        read.path[:2] == ("output", "data")
        for site in subject.sites.all
        if site.place.step == step.name and (site.place.task == task.name or (last and site.place.boundary in _BEHIND))
        for read in site.template.reads
    )


def _arguments(subject: Subject, step: Step, task: Task, tree: ast.Module) -> None:
    given = set(_GIVEN) if task.auth is None else {*_GIVEN, "auth"}
    for block in (step.input, task.input):
        if block is not None and not isinstance(block, Mapping):
            return  # a template: nobody knows its keys
        given.update(block or ())
    for name, line, column in _main_parameters(tree):
        if name not in given:
            code = str(task.config["code"])
            subject.problems.warning(
                "missing-argument",
                f"`main` asks for `{name}`, which `input` does not give",
                _place(subject, task, code, line, _column(code, line, column), len(name)),
                fix=f"add `{name}` to the task's `input`, or give the parameter a default",
            )


def _main_parameters(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """The parameters of `main` without a default, each with its line and column."""
    mains = [node for node in tree.body if getattr(node, "name", None) == "main" and hasattr(node, "args")]
    if not mains:
        return
    arguments: ast.arguments = mains[-1].args
    positional = [*arguments.posonlyargs, *arguments.args]
    wanted = positional[: len(positional) - len(arguments.defaults)]
    wanted += [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    for one in wanted:
        yield one.arg, one.lineno, one.col_offset


def _column(code: str, line: int, column: int) -> int:
    """Python counts bytes from 0, people characters from 1."""
    return len(code.split("\n")[line - 1].encode()[:column].decode()) + 1


def _place(subject: Subject, task: Task, code: str, line: int, column: int, length: int) -> tuple[int, int]:
    """Where a place of the code stands in the playbook; the whole code where that cannot be told."""
    source, at = subject.problems.source, task.code_at
    assert at is not None
    whole = source.offset(at.line, at.column), source.offset(at.end_line, at.end_column)
    lines = code.split("\n")
    line = min(line, len(lines))
    wanted = lines[line - 1]
    block = source.text[whole[0]] == "|"
    first = whole[0] if not block else source.offset(at.line, 1)
    there = source.line_text(at.line + line) if block else source.text[slice(*whole)]
    if not wanted or (len(lines) > 1 and not block) or there.count(wanted) != 1:
        return whole
    start = (source.offset(at.line + line, 1) if block else first) + there.index(wanted) + min(column, len(wanted)) - 1
    return start, start + max(1, min(length, len(wanted) - column + 1))
