"""Orders carried out: times to come and child executions. Pipelines are handed to an executor."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from noetl.model.events import Event
from noetl.model.orders import Order, PauseChild, RunPipeline, StartChild, StopChild, StopPipelines, WakeAt
from noetl.server.core.service import LiveExecution

#: so many times of executions that are gone may lie around
_STALE = 1_000


class PipelineExecutor(Protocol):
    """Runs pipelines: in this process, or in others."""

    def run(self, live: LiveExecution, order: RunPipeline) -> None:
        """Run a pipeline, at least once; one that is under way goes on with this when it has stopped."""

    def stop(self, execution_id: str, order: StopPipelines) -> None:
        """End pipelines, and the processes they started."""

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """Events of an execution are durable; orders that follow from them come after this."""

    def on_end(self, live: LiveExecution) -> None:
        """An execution is over, or has been given up: nothing of it may go on here."""


class OrderHost(Protocol):
    """Who minds children and times."""

    def due(self, execution_id: str) -> None:
        """Hear that a time has come."""

    def start_child(self, live: LiveExecution, order: StartChild) -> None:
        """Start a child execution, or go on with it."""

    def stop_child(self, live: LiveExecution, execution_id: str) -> None:
        """Cancel a child execution, and report when it has ended."""

    def hold_child(self, execution_id: str, *, paused: bool) -> None:
        """Pause a child execution, or let it go on."""


class OrderCarrier:
    """An `OrderReceiver` over an executor of pipelines."""

    def __init__(self, executor: PipelineExecutor, host: OrderHost, clock: Callable[[], float]) -> None:
        self._executor, self._host, self._clock = executor, host, clock
        self._times: list[tuple[float, str]] = []
        #: the executions in memory that are to be told, and when; whatever else is in the list is stale
        self._minded: dict[str, tuple[LiveExecution, set[float]]] = {}
        self._stale = 0
        self._alarm: asyncio.TimerHandle | None = None

    def give(self, live: LiveExecution, orders: Iterable[Order]) -> None:
        """Carry out orders."""
        for order in orders:
            if isinstance(order, RunPipeline):
                self._executor.run(live, order)
            elif isinstance(order, StopPipelines):
                self._executor.stop(live.id, order)
            elif isinstance(order, WakeAt):
                self._wake_at(order.at, live)
            elif isinstance(order, StartChild):
                self._host.start_child(live, order)
            elif isinstance(order, StopChild):
                self._host.stop_child(live, order.execution_id)
            elif isinstance(order, PauseChild):
                self._host.hold_child(order.execution_id, paused=order.paused)

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """Events of an execution are durable."""
        self._executor.on_events(live, events)

    def on_end(self, live: LiveExecution) -> None:
        """Let go of what was kept for an execution."""
        self._executor.on_end(live)
        minded = self._minded.get(live.id)
        if minded is None or minded[0] is not live:  # it may have come back already
            return
        del self._minded[live.id]
        self._stale += len(minded[1])
        # It may be far from due, and have the same times again whenever it comes back.
        if self._stale > max(_STALE, len(self._times) // 2):
            self._times = [(at, name) for name, (_, times) in self._minded.items() for at in times]
            heapq.heapify(self._times)
            self._stale = 0

    # --- time --------------------------------------------------------------------------------------------------------

    def _wake_at(self, at: float, live: LiveExecution) -> None:
        """Say that a time has come, when it has."""
        if live.lost:
            return
        before, times = self._minded.get(live.id, (live, set[float]()))
        if before is not live:
            self._stale, times = self._stale + len(times), set()
        self._minded[live.id] = live, times
        if at not in times:
            times.add(at)
            heapq.heappush(self._times, (at, live.id))
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._times:
            delay = max(0.0, self._times[0][0] - self._clock())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        now = self._clock()
        due: set[str] = set()
        while self._times and self._times[0][0] <= now:
            at, execution_id = heapq.heappop(self._times)
            if self._take_time(at, execution_id):
                due.add(execution_id)
        for execution_id in due:
            self._host.due(execution_id)
        self._set_alarm()

    def _take_time(self, at: float, execution_id: str) -> bool:
        _, times = self._minded.get(execution_id, (None, set[float]()))
        if at not in times:
            self._stale -= 1
            return False
        times.remove(at)
        if not times:
            del self._minded[execution_id]
        return True
