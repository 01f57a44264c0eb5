"""Where a step, a task or a template stands in the text of its playbook, for what failed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.lang.reading.node import FOLDED, LITERAL, ListNode, MapNode, Node, Scalar, list_of, text_of
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source

#: the words of `lang.building` that stand for several tasks
_SUGAR = ("choose", "while", "until")


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
    """The line of the playbook that holds a line of a task's code; None where that cannot be told."""
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
    if code.style == FOLDED:
        return _find_folded_line(source, code, lines, line)
    return first if source.place(code.end)[0] == first and code.style != LITERAL else None


def _find_folded_line(source: Source, code: Scalar, lines: list[str], line: int) -> int | None:
    """The line on which a line of folded text begins: adjacent lines of the file are one line of the text."""
    first, last = source.place(code.start)[0], source.place(code.end)[0]
    there = first
    for at, text in enumerate(lines[:line], 1):
        wanted, gathered = text.split(), list[str]()
        begin = 0
        while wanted and gathered != wanted:
            there += 1
            if there > last or len(gathered) > len(wanted):
                return None
            words = source.line_text(there).split()
            begin = begin or (there if words else 0)
            gathered += words
        if at == line:
            return begin or None
    return None


def _find_step(root: Node | None, step: str) -> MapNode | None:
    steps = list_of(root, "workflow") if isinstance(root, MapNode) else None
    return next((one for one in steps or () if isinstance(one, MapNode) and text_of(one, "step") == step), None)


def _find_task_of_step(found: MapNode, step: str, task: str | None) -> Node | None:
    tool = found.get("tool")
    of_task = next(_find_tasks(tool, task), None) if tool is not None and task is not None else None
    if of_task is None and isinstance(tool, ListNode):
        of_task = next((body for name, body in _name_tasks(tool) if name == task), None)
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


def _name_tasks(node: Node | None, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """The tasks of a list with the names that building gives to those that have none."""
    for position, item in enumerate(node.items if isinstance(node, ListNode) else (), 1):
        if not isinstance(item, MapNode):
            continue
        sugar = next((one for one in item.entries if one.name in _SUGAR), None)
        if sugar is None or "kind" in item:
            yield text_of(item, "name") or f"{prefix}task_{position}", item
            continue
        label = text_of(item, "name") or f"{prefix}{sugar.name}_{position}"
        if isinstance(sugar.value, ListNode):
            for number, branch in enumerate(sugar.value.items, 1):
                body = (branch.get("then") or branch.get("else")) if isinstance(branch, MapNode) else None
                yield from _name_tasks(body, f"{label}_{number}_")
        elif isinstance(sugar.value, MapNode):
            yield from _name_tasks(sugar.value.get("do"), f"{label}_")


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
