"""One decision in the making. Each event that it emits takes effect at once and is recorded with the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from noetl.engine.fold import apply
from noetl.engine.gates import GateWatch
from noetl.engine.net_index import NetIndex
from noetl.model.events import EVENTS, Event, Fact
from noetl.model.orders import Order, StopChild
from noetl.model.state import Execution, StepRun

_STATUS = {
    "step.failed": "error",
    "step.skipped": "skipped",
    "step.cancelled": "skipped",
    "step.closing": "in_progress",
    "step.compensating": "in_progress",
    "step.compensation.failed": "error",
    "loop.iteration.failed": "error",
    "step.scheduled": "in_progress",
    "step.parked": "in_progress",
    "step.started": "in_progress",
    "loop.started": "in_progress",
    "loop.iteration.started": "in_progress",
    "workflow.started": "in_progress",
    "playbook.execution.requested": "in_progress",
}


class Decision(msgspec.Struct, frozen=True):
    """What follows from something that happened: events to append at once, and orders to give behind them."""

    events: tuple[Event, ...]
    orders: tuple[Order, ...]
    #: what is known of the net from now on
    net_index: NetIndex
    #: requests that were refused, by their identity: why
    refusals: Mapping[int, str] = {}


class DecisionBuilder:
    """The state, what is known of its net, the time, and what has been decided so far."""

    def __init__(self, net_index: NetIndex, state: Execution, now: float, new_id: Callable[[], str]) -> None:
        self.net_index = net_index
        self.state = state
        self.now = now
        self.new_id = new_id
        self.events: list[Event] = []
        self.orders: list[Order] = []
        self.refusals: dict[int, str] = {}
        #: the step run whose arcs are being judged
        self.routing = ""
        #: step → how many tokens are on their way to it
        self.arriving: dict[str, int] = {}
        watch = net_index.gate_watch
        self._gates = watch if watch is not None and watch.follows(state) else None
        if self._gates is not None:
            self._gates.arriving = self.arriving
        # The clock may go back, the log never does.
        stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
        self.timestamp = max(stamp, state.timestamp)

    @property
    def decision(self) -> Decision:
        """What was decided."""
        net_index = self.net_index.with_gates(self._gates)
        return Decision(tuple(self.events), tuple(self.orders), net_index, self.refusals)

    @property
    def gates(self) -> GateWatch:
        """What the gates of the execution wait for; worked out when the first of them is asked, and followed from then on."""
        if self._gates is None or self._gates.index is not self.net_index.gate_index:
            self._gates = self.net_index.watch_gates(self.state, self.arriving, self._gates)
        return self._gates

    def expect(self, steps: Iterable[str]) -> None:
        """Tokens are on their way to steps, and are delivered one after the other."""
        for step in steps:
            self._count_arriving(step, 1)

    def on_arrival(self, step: str) -> None:
        """A token is on its way no longer."""
        self._count_arriving(step, -1)

    def _count_arriving(self, step: str, by: int) -> None:
        self.arriving[step] = self.arriving.get(step, 0) + by
        if self._gates is not None:
            self._gates.on_arriving(step, by)

    @property
    def last(self) -> int:
        """The latest event: what comes next follows from it."""
        return self.state.seq

    def emit(
        self,
        name: str,
        entity_id: str,
        payload: dict[str, Any],
        *,
        parent: int | None = None,
        run: str | None = None,
        iteration: int | str | None = None,
        status: str | None = None,
    ) -> Event:
        """Decide something."""
        return self._record("server", name, entity_id, status or _STATUS.get(name, "success"), payload, parent, run,
                            iteration=iteration)  # fmt: skip

    def accept(self, fact: Fact, run: StepRun, parent: int) -> Event:
        """Take over what a worker reported."""
        entity_id = run.step if fact.task is None else f"{run.step}.{fact.task}"
        return self._record("worker", fact.name, entity_id, fact.status, fact.payload, parent, run.id,
                            task_run_id=fact.task_run_id, iteration=fact.iteration, attempt=fact.attempt)  # fmt: skip

    def _record(  # noqa: PLR0913  the envelope has as many parts
        self,
        source: str,
        name: str,
        entity_id: str,
        status: str,
        payload: dict[str, Any],
        parent: int | None,
        run: str | None,
        *,
        task_run_id: str | None = None,
        iteration: int | str | None = None,
        attempt: int | None = None,
    ) -> Event:
        execution_id, seq = self.state.execution_id, self.state.seq + 1
        event = Event(
            f"{execution_id}-{seq}",  # `event_id`, without a call for each event
            execution_id,
            seq,
            self.timestamp,
            source,
            name,
            EVENTS[name].entity_type,
            entity_id,
            status,
            payload,
            f"{execution_id}-{parent}" if parent else None,
            run,
            task_run_id,
            iteration,
            attempt,
        )
        return self._keep(event)

    def _keep(self, event: Event) -> Event:
        stopped = len(self.state.stopped_children)
        self.events.append(event)
        apply(self.state, event)
        added = len(self.state.stopped_children) - stopped
        if added > 0:  # the last of them
            self.orders += [StopChild(child) for child in islice(reversed(self.state.stopped_children), added)][::-1]
        if self._gates is not None:
            self._gates.on_event(event)
        return event
