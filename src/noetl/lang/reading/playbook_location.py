"""Where a step, a task or a template stands in the text of its playbook, for what failed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, list_of, text_of
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
    root = read_yaml(text, Diagnostics(source))
    if not isinstance(root, MapNode):
        return None
    steps = list_of(root, "workflow")
    found = next((one for one in steps or () if isinstance(one, MapNode) and text_of(one, "step") == step), None)
    if found is None:
        return None
    tool = found.get("tool")
    of_task = next(_find_tasks(tool, task), None) if tool is not None and task is not None else None
    if of_task is None and task == step:  # the one task of a step goes by its name
        of_task = tool
    # What is no task's own stands outside of the tasks, be it that the same text stands in one of them too.
    outside = MapNode([one for one in found.entries if task or one.name != "tool"], found.place, found.end)
    return _locate(source, of_task, found, expression, outside)


def find_workbook_location(text: str, called: str, expression: str | None = None) -> PlaybookLocation | None:
    """The same of a task of the workbook: `clean`, or `clean.parse` where `clean` has several."""
    source = Source(text)
    root = read_yaml(text, Diagnostics(source))
    book = root.get("workbook") if isinstance(root, MapNode) else None
    name, _, task = called.partition(".")
    found = book.get(name) if isinstance(book, MapNode) else None
    if found is None:
        return None
    return _locate(source, next(_find_tasks(found, task), None) if task else None, found, expression)


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
