"""Subject: what the checks look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from noetl.lang.node import MapNode
from noetl.lang.sites import Site, Sites
from noetl.model.diagnostics import Diagnostics
from noetl.model.kinds import ToolKind
from noetl.model.playbook import Assignment, Loop, Playbook, Step, Task


@dataclass(frozen=True, slots=True)
class Subject:
    """A document in its three forms, and where problems go."""

    root: MapNode
    playbook: Playbook
    sites: Sites
    kinds: Mapping[str, ToolKind]
    problems: Diagnostics

    @property
    def step_names(self) -> dict[str, Step]:
        """Steps by name; the first of several of one name."""
        found: dict[str, Step] = {}
        for step in self.playbook.steps:
            found.setdefault(step.name, step)
        return found

    def where(self, site: Site, offset: int = 0, length: int = 0) -> tuple[int, int]:
        """The stretch of source of something inside a template, as well as it can be told."""
        node = site.node
        if node.alias:
            return node.alias
        text = self.problems.source.text[node.start : node.end]
        needle = site.template.source[offset : offset + length] if length else ""
        # Quotes, escapes and folding move offsets; looking for the words themselves does not mind.
        near = text.find(needle, max(0, offset - 2)) if needle else -1
        if near < 0 and needle:
            near = text.find(needle)
        if near < 0:
            return node.start, node.end
        return node.start + near, node.start + near + len(needle)


def all_tasks(playbook: Playbook) -> Iterator[tuple[Step | None, Task]]:
    """Every task with its step; those of the workbook have none."""
    for step in playbook.steps:
        for task in step.tasks:
            yield step, task
    for tasks in playbook.workbook.values():
        for task in tasks:
            yield None, task


def task_assignments(task: Task) -> Iterator[Assignment]:
    """What a task writes: its own `set` and those of its rules."""
    yield from task.set
    if task.policy is not None:
        for rule in task.policy.rules:
            yield from rule.then.set


def loops(loop: Loop | None) -> Iterator[Loop]:
    """A loop and those inside of it, from the outside in."""
    while loop is not None:
        yield loop
        loop = loop.inner
