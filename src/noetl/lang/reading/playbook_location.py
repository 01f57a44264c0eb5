"""Where a step, a task or a template stands in the text of its playbook, for what failed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.lang.reading.node import DOUBLE, LITERAL, ListNode, MapNode, Node, Scalar, list_of, text_of
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source


class PlaybookLocation(NamedTuple):
    """A line of the playbook, and the key that stands there: `set: ctx.total`, `input.url`."""

    line: int
    key: str = ""


def find_location(
    text: str, step: str, task: str | None = None, expression: str | None = None
) -> PlaybookLocation | None:
    """The line of the template; where that cannot be told, of the task or the step."""
    source = Source(text)
    found = _find_step(read_yaml(text, Diagnostics(source)), step)
    if found is None:
        return None
    of_task = _find_task_of_step(found, step, task)
    # What is no task's own stands outside of the tasks, be it that the same text stands in one of them too.
    outside = MapNode([one for one in found.entries if task or one.name != "tool"], found.place, found.end)
    return _locate(source, of_task, found, expression, outside)


def find_workbook_location(text: str, called: str, expression: str | None = None) -> PlaybookLocation | None:
    """The same of a task of the workbook: `clean`, or `clean.parse` where `clean` has several."""
    source = Source(text)
    found, of_task = _find_workbook_task(read_yaml(text, Diagnostics(source)), called)
    return _locate(source, of_task, found, expression) if found is not None else None


def find_code_line(text: str, line: int, step: str, task: str | None, workbook: str | None = None) -> int | None:
    """The line of the playbook that holds a line of a task's code; None where the code is folded or not found."""
    source = Source(text)
    root = read_yaml(text, Diagnostics(source))
    if workbook:
        found, of_task = _find_workbook_task(root, workbook)
        node = of_task or found
    else:
        found = _find_step(root, step)
        node = _find_task_of_step(found, step, task) if found is not None else None
    code = node.get("code") if isinstance(node, MapNode) else None
    if not isinstance(code, Scalar):
        return None
    first = source.place(code.start)[0]
    lines = code.text.split("\n")
    if code.style == LITERAL and line <= len(lines):
        there = first + line
        return there if lines[line - 1] in source.line_text(there) else None
    same_line = source.place(code.end)[0] == first and (code.style != DOUBLE or len(lines) == 1)
    return first if same_line and code.style != LITERAL else None


def _find_step(root: Node | None, step: str) -> MapNode | None:
    steps = list_of(root, "workflow") if isinstance(root, MapNode) else None
    return next((one for one in steps or () if isinstance(one, MapNode) and text_of(one, "step") == step), None)


def _find_task_of_step(found: MapNode, step: str, task: str | None) -> Node | None:
    tool = found.get("tool")
    of_task = next(_find_tasks(tool, task), None) if tool is not None and task is not None else None
    # The one task of a step goes by its name.
    return tool if of_task is None and task == step else of_task


def _find_workbook_task(root: Node | None, called: str) -> tuple[Node | None, Node | None]:
    """An entry of the workbook, and the task of it that is meant where it has several."""
    book = root.get("workbook") if isinstance(root, MapNode) else None
    name, _, task = called.partition(".")
    found = book.get(name) if isinstance(book, MapNode) else None
    return found, next(_find_tasks(found, task), None) if found is not None and task else None


def _locate(
    source: Source, of_task: Node | None, found: Node, expression: str | None, outside: Node | None = None
) -> PlaybookLocation:
    for node in (of_task, outside, found):
        if node is not None and expression is not None:
            for path, scalar in _scalars(node, ()):
                if scalar.value == expression:
                    return PlaybookLocation(source.place(scalar.place)[0], _key(path))
    return PlaybookLocation(source.place((of_task or found).place)[0])


def _find_tasks(node: Node, task: str) -> Iterator[Node]:
    """The maps that are a task of this name, in either of its spellings."""
    if isinstance(node, MapNode):
        if text_of(node, "name") == task:
            yield node
        for entry in node.entries:
            if entry.name == task and isinstance(entry.value, MapNode):
                yield entry.value
            yield from _find_tasks(entry.value, task)
    elif isinstance(node, ListNode):
        for one in node.items:
            yield from _find_tasks(one, task)


def _scalars(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    if isinstance(node, Scalar):
        yield path, node
    elif isinstance(node, MapNode):
        for entry in node.entries:
            yield from _scalars(entry.value, (*path, entry.name))
    else:
        for one in node.items:
            yield from _scalars(one, path)


def _key(path: tuple[str, ...]) -> str:
    """The keys that lead there; of a `set`, what is written is the whole of it."""
    if "set" in path:
        return f"set: {'.'.join(path[path.index('set') + 1 :])}"
    return ".".join(path)
