"""Subject: what the checks look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from noetl.expr import PathRead
from noetl.lang.building.template_sites import Site, Sites
from noetl.lang.reading.node import DOUBLE, SINGLE, MapNode
from noetl.model.diagnostics import Diagnostics, Edit, Span, Where
from noetl.model.kinds import ToolKind
from noetl.model.nearest import SpellingHints
from noetl.model.net import Net
from noetl.model.playbook import Assignment, Loop, Playbook, Step, Task

_QUOTES = (SINGLE, DOUBLE)
#: of fewer letters every name is nearly another
UNLIKE = 3
#: what may stand before and after a part of a path: `.x`, `['x']`, `[ "x" ]`
_SIGNS, _CLOSING = 4, re.compile(r"(?:['\"]?\s*\])?")


@dataclass(frozen=True)
class Subject:
    """A document in its three forms, and where problems go."""

    root: MapNode
    playbook: Playbook
    sites: Sites
    kinds: Mapping[str, ToolKind]
    problems: Diagnostics
    hints: SpellingHints = field(default_factory=SpellingHints)
    #: of a plan: the net that its steps are added to. Nothing is reported about what stands there.
    around: Net | None = None

    @cached_property
    def step_names(self) -> dict[str, Step]:
        """Steps by name; the first of several of one name."""
        found: dict[str, Step] = {}
        for step in self.all_steps:
            found.setdefault(step.name, step)
        return found

    @property
    def workbook(self) -> Mapping[str, tuple[Task, ...]]:
        """The tasks that a `kind: workbook` may name."""
        return self.around.playbook.workbook if self.around is not None else self.playbook.workbook

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """All steps that a token can come to."""
        return (*(self.around.steps.values() if self.around is not None else ()), *self.playbook.steps)

    @cached_property
    def carries_args(self) -> bool:
        """Whether tokens may carry values to their steps (v10)."""
        return any(arc.args is not None for step in self.all_steps for arc in step.router.arcs)

    def where(self, site: Site, offset: int = 0, length: int = 0) -> tuple[int, int]:
        """The stretch of source of something inside a template, as well as it can be told."""
        node = site.node
        if node.alias:
            return node.alias
        text = self.problems.source.text[node.start : node.end]
        needle = site.template.source[offset : offset + length] if length else ""
        # Quotes, escapes and folding move offsets; looking for the words themselves does not mind.
        near = text.find(needle, offset + (node.style in _QUOTES)) if needle else -1
        if near < 0 and needle:
            near = text.find(needle)
        if near < 0:
            return node.start, node.end
        return node.start + near, node.start + near + len(needle)

    def where_path(self, site: Site, read: PathRead, parts: int) -> tuple[int, int]:
        """The stretch of source of the first parts of a path that a template reads."""
        source, at = site.template.source, read.offset + len(read.path[0])
        for part in read.path[1:parts]:
            found = source.find(part, at, at + len(part) + _SIGNS)
            if found < 0:
                break
            at = found + len(part)
            at += len(_CLOSING.match(source, at)[0])  # type: ignore[index]  # it matches nothing too
        return self.where(site, read.offset, at - read.offset)

    def inside(self, at: Where, word: str) -> Where:
        """Where a word stands inside of a stretch of source, if it stands there once; else the stretch."""
        start, end = self._offsets(at)
        text = self.problems.source.text
        if text.count(word, start, end) != 1:
            return at
        found = text.index(word, start, end)
        return found, found + len(word)

    def rename_edits(self, at: Where, old: str, new: str | None) -> list[Edit]:
        """The edit that puts one name in the place of another, if the other stands there once."""
        start, end = self._offsets(at)
        text = self.problems.source.text
        if new is None or text.count(old, start, end) != 1:
            return []
        found = text.index(old, start, end)
        return [Edit(found, found + len(old), new)]

    def _offsets(self, at: Where) -> tuple[int, int]:
        if isinstance(at, Span):
            source = self.problems.source
            return source.offset(at.line, at.column), source.offset(at.end_line, at.end_column)
        return at or (0, 0)


def all_tasks(playbook: Playbook) -> Iterator[tuple[Step | None, Task]]:
    """Every task with its step; those of the workbook have none."""
    for step in playbook.steps:
        for task in step.all_tasks:
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


def transfer_ends(task: Task) -> Iterator[tuple[str, str]]:
    """The source and the targets of a transfer, and their kinds; as much of them as stands there in plain words."""
    given = {**task.config, **(task.input if isinstance(task.input, Mapping) else {})}
    source, targets = (getattr(given.get(key), "tree", given.get(key)) for key in ("source", "targets"))
    listed = targets if isinstance(targets, list | tuple) else ()
    named: list[tuple[str, Any]] = [
        ("the source", source),
        *((f"target {at}", one) for at, one in enumerate(listed, 1)),
    ]
    yield from ((name, str(end.get("kind"))) for name, end in named if isinstance(end, Mapping))
