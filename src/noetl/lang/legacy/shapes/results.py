"""StepResults of steps and tasks: the kind that gave them, the keys that their own code shows, and their older view."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from noetl.lang.legacy.lowered_document import Lowering, task_items
from noetl.lang.legacy.shapes.code_reads import CodeShape, read_code
from noetl.lang.legacy.shapes.code_values import NOTHING, UNKNOWN, CodeValue
from noetl.lang.legacy.shapes.older_views import (
    HTTP_VIEW,
    LOOP_VIEW,
    OWN_FACTS,
    PAYLOAD,
    PLAYBOOK_VIEW,
    WRAPPERS,
    View,
    pipeline_view,
    query_view,
)
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, entry, map_of, text_of

SQL = ("postgres", "duckdb")
#: verbs of statements that give rows; others change some, and their number is all there is
_READS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "FROM", "DESCRIBE", "SUMMARIZE", "EXPLAIN", "PRAGMA", "PIVOT", "CALL"})  # fmt: skip
_RETURNING = re.compile(r"\breturning\b", re.IGNORECASE)
#: names that a step's `set` can read as the task could
_OF_THE_EXECUTION = re.compile(r"\b(?:iter|_prev|_task|_attempt|input|output|keychain|step|args)\b|\{%")


@dataclass(eq=False)
class Result:
    """What a task, a pipeline or a loop gives."""

    kind: str
    #: what its own code or `output` shows
    own: CodeValue = UNKNOWN
    #: of a loop: what one iteration gives
    element: Result | None = None
    #: of a pipeline: its tasks, by name
    tasks: Mapping[str, Result] = field(default_factory=dict)
    task: MapNode | None = None
    #: where tasks of a pipeline publish what later ones read
    scope: str = "step"
    #: by task of a pipeline, the expression for its payload, where that is not simply published by its name
    task_names: dict[str, str] = field(default_factory=dict)

    @property
    def is_rows(self) -> bool:
        """Whether the payload is a list, whose keys older readers can only have meant for its wrapping."""
        return self.kind == "loop" or self.last.kind in SQL

    @cached_property
    def view(self) -> View:
        """What older engines published."""
        if self.kind in SQL and self.task is not None:
            return _view_query(self.task, self.kind)
        views = {"http": HTTP_VIEW, "loop": LOOP_VIEW, "playbook": PLAYBOOK_VIEW}
        if self.kind == "pipeline":
            return {**pipeline_view(list(self.tasks)), **self.last.view}
        return views.get(self.kind, {})

    @property
    def last(self) -> Result:
        """Of a pipeline, the result of its last task; else the result itself."""
        return list(self.tasks.values())[-1] if self.tasks else self

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Keys of older wrappings that mean the result itself, as far as the result does not have them."""
        kind = self.last.kind
        words = WRAPPERS if kind != "http" else ("result", "output")
        return tuple(word for word in words if word not in self.view and not self.own.shows(word))

    def own_fact(self, fact: str) -> str | None:
        """A fact as the templates of the step that has just ended read it; None where nothing gives it."""
        if fact == "url":
            return self.url
        if fact.startswith("task:"):
            name = fact.removeprefix("task:")
            return self.task_names.get(name, f"{self.scope}.{name}")
        return OWN_FACTS[fact]

    @property
    def url(self) -> str | None:
        """The url that an http task asked, as an expression."""
        task = self.last.task
        url = task.get("url") if task is not None else None
        if not isinstance(url, Scalar) or (task is not None and "params" in task) or _OF_THE_EXECUTION.search(url.text):
            return None
        parts = [part for part in re.split(r"(\{\{.*?\}\})", url.text) if part]
        terms = [_operand(part) for part in parts]
        return terms[0] if len(terms) == 1 else "(" + " ~ ".join(terms) + ")"


def _operand(part: str) -> str:
    """A piece of a text with templates as an operand of `~`, which binds more tightly than other operators."""
    if not part.startswith("{{"):
        return "'" + part.replace("'", "\\'") + "'"
    inner = part[2:-2].strip()
    return inner if re.fullmatch(r"[\w.\[\]]+", inner) else f"({inner})"


def _view_query(task: MapNode, kind: str) -> View:
    text = text_of(task, "query") or text_of(task, "command")
    statements = _split(text)
    last = statements[-1] if statements else text
    verb = re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([A-Za-z]+)", last, re.DOTALL)
    reads = verb is None or verb[1].upper() in _READS or _RETURNING.search(last) is not None
    counts = PAYLOAD if reads else "rowcount" if kind == "postgres" else None
    return query_view(statements=max(1, len(statements)), counts=counts)


def _split(text: str) -> list[str]:
    """The statements of a text; a `;` inside of a literal or a comment ends none."""
    plain = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|\{\{.*?\}\}", " x ", text, flags=re.DOTALL)
    return [part for part in plain.split(";") if part.strip()]


class StepResults:
    """The results of all steps and tasks of a document, each found once."""

    def __init__(self, doc: Lowering) -> None:
        self.doc = doc
        self._tasks: dict[int, Result] = {}
        self._steps: dict[int, Result] = {}
        self._bodies: dict[int, Result] = {}

    def of_task(self, task: MapNode) -> Result:
        """What one task gives."""
        found = self._tasks.get(id(task))
        if found is None:
            found = self._tasks[id(task)] = self._task(task)
        return found

    def of_body(self, step: MapNode) -> Result:
        """What the tasks of a step give, in a loop those of one iteration."""
        found = self._bodies.get(id(step))
        if found is None:
            found = self._bodies[id(step)] = self._body(step)
        return found

    def _body(self, step: MapNode) -> Result:
        # What a sink became hands on what it was given.
        tasks = {
            name: self.of_task(task) for name, task in task_items(step) if text_of(task, "output") != "{{ _prev }}"
        }
        if not tasks:
            return Result("noop", own=NOTHING)
        last = list(tasks.values())[-1]
        if len(tasks) == 1 and not isinstance(step.get("tool"), ListNode):
            return last
        scope = "iter" if map_of(step, "loop") is not None else "step"
        return Result("pipeline", own=last.own, tasks=tasks, task=last.task, scope=scope)

    def of_unshaped(self, step: MapNode) -> Result:
        """What a step would give without an `output` of its own."""
        body = self.of_body(step)
        return Result("loop", element=body) if map_of(step, "loop") is not None else body

    def of_step(self, step: MapNode) -> Result:
        """What a step gives."""
        found = self._steps.get(id(step))
        if found is None:
            shaped = "output" in step
            found = Result("shaped", own=_value_of(step.get("output"))) if shaped else self.of_unshaped(step)
            self._steps[id(step)] = found
        return found

    def _task(self, task: MapNode) -> Result:
        if "output" in task:
            return Result("shaped", own=_value_of(task.get("output")), task=task)
        return self.of_kind(task)

    def of_kind(self, task: MapNode) -> Result:
        """What a task would give without an `output` of its own."""
        kind = text_of(task, "kind")
        if kind == "workbook":
            called = self.workbook(text_of(task, "task") or text_of(task, "name"))
            if called is not None:
                return self.of_body(called)
        if kind == "python":
            return Result(kind, own=self.code(task).returned, task=task)
        return Result(kind, task=task)

    def workbook(self, name: str) -> MapNode | None:
        """A task of the workbook, as if it were a step."""
        found = (map_of(self.doc.root, "workbook") or MapNode([], 0, 0)).entry(name)
        if found is None or isinstance(found.value, Scalar):
            return None
        return MapNode([entry("tool", found.value)], found.value.start, found.value.end)

    def code(self, task: MapNode, inputs: frozenset[str] = frozenset()) -> CodeShape:
        """What the code of a task shows."""
        if text_of(task, "kind") != "python" or "code" not in task:
            return CodeShape()
        return read_code(text_of(task, "code"), inputs | input_names(task))


def input_names(holder: MapNode | None) -> frozenset[str]:
    """The names of a map's `input`."""
    block = map_of(holder, "input")
    return frozenset(one.name for one in block.entries) if block is not None else frozenset()


def _value_of(node: Node | None) -> CodeValue:
    """The keys that an `output` in the document shows."""
    if isinstance(node, MapNode):
        return CodeValue(keys={one.name: _value_of(one.value) for one in node.entries})
    if isinstance(node, ListNode):
        return CodeValue(element=UNKNOWN)
    return UNKNOWN
