"""Holdings: what a server has given to which worker, so that nothing is believed of others.

A report counts under a live fence alone; that is dispatch's to say. Here is what is left to judge: whether a fence that is no
longer live was ever given to the worker, and whether lines that tools wrote are of a pipeline that it runs, or ran a moment ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Final

from noetl.dispatch import Give, Worker
from noetl.lru import LruCache
from noetl.model.wire import HeldPipeline, Key, PipelineReport
from noetl.ports import LogLine, WorkerRegistry

#: pipelines that are remembered
_MOST: Final = 20_000
#: seconds for which lines of a pipeline may still come after it has ended
_TAIL_S: Final = 600.0
#: executions of one message that other servers may have given to a worker, and are looked up
_MOST_ELSEWHERE: Final = 10

#: a worker, and of a pipeline that it runs: the execution, the step and the iteration
_Place = tuple[str, str, str, int | str | None]


class Holdings:
    """What one server remembers of it."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry
        self._fences: LruCache[str, Key] = LruCache(_MOST)
        #: until when lines are taken of what a worker was given
        self._places: LruCache[_Place, float] = LruCache(_MOST)

    def add(self, worker: str, given: Iterable[Give]) -> None:
        """A worker is given pipelines."""
        until = monotonic() + _TAIL_S
        for one in given:
            self._fences.put(one.fence, one.key)
            self._places.put((worker, one.key[0], one.order.step, one.key[2]), until)

    def keep(self, worker: Worker, key: Key) -> None:
        """A worker has reported the end of a pipeline that it holds: what its tools wrote may be on its way."""
        entry = worker.held.get(key)
        if entry is not None and entry.order is not None:
            self._places.put((worker.name, key[0], entry.order.step, key[2]), monotonic() + _TAIL_S)

    def was_given(self, report: PipelineReport) -> bool:
        """Return whether a report's pipeline was given out under its fence, live or stale. A worker may have another name by now."""
        return self._fences.get(report.fence) == report.key

    async def select_lines(
        self, worker: Worker, lines: Sequence[tuple[str, LogLine]]
    ) -> tuple[dict[str, list[LogLine]], list[str]]:
        """Return the lines that are a worker's to write, by execution; and the executions of those that are not."""
        now = monotonic()
        held = {
            (worker.name, key[0], entry.order.step, key[2])
            for key, entry in worker.held.items()
            if entry.order is not None
        }
        taken: dict[str, list[LogLine]] = {}
        unknown: dict[str, list[LogLine]] = {}
        for execution_id, line in lines:
            place = worker.name, execution_id, line.step, line.iteration
            is_mine = place in held or (self._places.get(place) or 0.0) > now
            (taken if is_mine else unknown).setdefault(execution_id, []).append(line)
        foreign: list[str] = []
        for at, (execution_id, some) in enumerate(unknown.items()):
            elsewhere = await self._find_elsewhere(worker.name, execution_id) if at < _MOST_ELSEWHERE else set()
            mine = [line for line in some if (line.step, line.iteration) in elsewhere]
            if mine:
                taken.setdefault(execution_id, []).extend(mine)
            if len(mine) < len(some):
                foreign.append(execution_id)
        return taken, foreign

    async def _find_elsewhere(self, worker: str, execution_id: str) -> set[tuple[str, int | str | None]]:
        """What a worker was given of an execution by another server."""
        found: list[HeldPipeline] = await asyncio.to_thread(self._registry.read_held, execution_id)
        return {(one.step_run_id.rpartition("-")[0], one.iteration) for one in found if one.worker == worker}
