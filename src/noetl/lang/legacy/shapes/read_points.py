"""The templates of a document, each with what it can read: whose output, whose inputs, whose loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from noetl.expr import has_template
from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.legacy.scanner import LITERAL
from noetl.lang.legacy.shapes.results import Result, StepResults
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, map_of, text_of

#: of a task, what is evaluated when it has ended
_AFTER_TASK = ("output", "set", "spec")
_AFTER_STEP = ("output", "set", "next")


@dataclass(frozen=True)
class ReadPoint:
    """Where a template stands."""

    holder: MapEntry
    step: MapNode | None = None
    task: MapNode | None = None
    #: what `output` is here
    output: Result | None = None
    #: what `_prev` is here
    previous: Result | None = None
    #: the task or step has ended
    is_after: bool = False
    #: the template may be evaluated after an error, when there is no payload
    after_error: bool = False


def templates(doc: Lowering, results: StepResults) -> Iterator[tuple[Scalar, ReadPoint]]:
    """Every template of the steps and of the workbook."""
    for step in doc.steps():
        yield from _step(step, results)
    workbook = map_of(doc.root, "workbook")
    for one in workbook.entries if workbook is not None else []:
        body = MapNode([entry("tool", one.value)], one.value.start, one.value.end)
        yield from _tasks(body, one, results)


def _step(step: MapNode, results: StepResults) -> Iterator[tuple[Scalar, ReadPoint]]:
    body = results.of_body(step)
    for one in step.entries:
        if one.name == "tool":
            yield from _tasks(step, one, results)
        elif one.name == "loop":
            # `until` is judged after each iteration, over what that gave.
            yield from _below(one.value, ReadPoint(one, step, output=body, after_error=True))
        elif one.name in _AFTER_STEP:
            # The step's own `output` reshapes what the body gave.
            output = results.of_step(step) if one.name != "output" else results.of_unshaped(step)
            point = ReadPoint(one, step, output=output, is_after=True, after_error=one.name != "output")
            yield from _below(one.value, point)
        elif one.name not in LITERAL:
            yield from _below(one.value, ReadPoint(one, step, output=None))


def _tasks(step: MapNode, holder: MapEntry, results: StepResults) -> Iterator[tuple[Scalar, ReadPoint]]:
    previous: Result | None = None
    for _name, task in task_items(step):
        for one in task.entries:
            if one.name in LITERAL:
                continue
            after = one.name in _AFTER_TASK
            own = results.of_task(task) if one.name != "output" else results.of_kind(task)
            point = ReadPoint(
                one if not task.flow else holder,
                step if "step" in step else None,
                task,
                own if after else previous,
                previous,
                is_after=after,
                after_error=one.name == "spec",
            )
            yield from _below(one.value, point)
        if text_of(task, "output") != "{{ _prev }}":
            previous = results.of_task(task)


def _below(node: Node, point: ReadPoint) -> Iterator[tuple[Scalar, ReadPoint]]:
    if isinstance(node, Scalar):
        if isinstance(node.value, str) and "{" in node.value and has_template(node.value):
            yield node, point
    elif isinstance(node, MapNode):
        for one in node.entries:
            if one.name not in LITERAL or "kind" not in node:
                inner = point if node.flow else _at(point, one)
                yield from _below(one.value, inner)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _below(item, point)


def _at(point: ReadPoint, holder: MapEntry) -> ReadPoint:
    return replace(point, holder=holder)
