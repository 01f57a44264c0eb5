"""Replay of a decision: completes a log that ends in the middle of one, and keeps what is recorded.

A decision is written as a whole, so whoever resumes finds nothing half decided. Who goes on from an earlier event of a
log may cut a decision in two. Then what caused it happens once more: as far as events are recorded they hold, whatever
would be decided today; behind the last of them everything is decided anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from noetl.engine.decision import DecisionBuilder
from noetl.engine.execution_lifecycle import open_execution
from noetl.engine.net_index import NetIndex
from noetl.engine.reaction import apply_input, route_and_end
from noetl.errors import NoetlError
from noetl.model.events import Event, Fact, epoch_seconds
from noetl.model.requests import Cancel, Due, OpenExecution, Pause, Request, Resume, Signal
from noetl.model.state import Execution, find_pipeline, parse_label

FORKED = "execution.forked"
#: what comes from outside and is recorded as it comes; so are the facts of workers
_REQUESTS: dict[str, Callable[[dict[str, Any]], Request]] = {
    "signal.received": lambda said: Signal(
        said["signal"], said["data"], number=said.get("request", 0), by=said.get("by")
    ),
    "execution.cancelled": lambda said: Cancel(said["why"], number=said.get("request", 0)),
    "execution.paused": lambda said: Pause(said.get("request", 0), said.get("by") == "parent"),
    "execution.resumed": lambda said: Resume(said.get("request", 0), said.get("by") == "parent"),
}


#: what the server records in place of a report
_UNREPORTED = frozenset({"step.failed", "step.closing", "step.closed", "step.compensated", "step.compensation.failed"})


class ForkMark(msgspec.Struct, frozen=True):
    """Where a log leaves the one it was copied from."""

    #: what the event says that records it
    payload: dict[str, Any]
    #: the time now, in seconds since the epoch
    now: float


class ReplayDiverged(NoetlError):
    """What is recorded of a decision is not what would be decided: it cannot be gone on with from its middle."""

    def __init__(self, event: Event, cause: int, why: str) -> None:
        super().__init__(why)
        self.event = event
        #: the event from which on it can be decided anew
        self.cause = cause


def is_cause(event: Event) -> bool:
    """Whether an event came from outside, and everything up to the next such event follows from it."""
    return event.source == "worker" or event.name in _REQUESTS or event.name == "playbook.execution.requested"


def replay_decision(
    net_index: NetIndex, state: Execution, recorded: Iterable[Event], parting: ForkMark, new_id: Callable[[], str]
) -> list[Event]:
    """Record events once more and go on to the end of what they began; all of it, the parting in between.

    The first of them must be a cause, and the state that of everything before it.
    """
    builder = _ReplayBuilder(net_index, state, recorded, parting, new_id)
    while builder.script:
        left = len(builder.script)
        event = builder.script[0]
        builder.begin(event)
        _replay_cause(builder, event)
        if len(builder.script) == left:
            raise builder.divergence(event, f"{event.name} of {event.entity_id} does not follow from what is before it")
    if state.paused and not state.over:
        apply_input(builder, Resume())
    return builder.events


def _replay_cause(builder: _ReplayBuilder, event: Event) -> None:
    """Let happen what an event tells of, or what it follows from."""
    state, payload = builder.state, event.payload
    if event.name == "playbook.execution.requested":
        about: dict[str, Any] = {key: payload.get(key) for key in ("entry_step", "return_step", "file", "rerun")}
        about["calls"] = payload.get("calls", {})
        open_execution(builder, OpenExecution(state.execution_id, payload["playbook"], payload["workload"], **about))
        route_and_end(builder)
    elif event.source == "worker":
        apply_input(builder, _fact(state, event))
    elif event.name in _REQUESTS:
        apply_input(builder, _REQUESTS[event.name](payload))
    elif event.name in ("step.failed", "step.closing") and _is_due(state, event):
        apply_input(builder, Due())
    elif event.name in _UNREPORTED:
        # The report that the server could not take as it was is not recorded: what it was taken for is.
        builder.accept_recorded()
        route_and_end(builder)


def _is_due(state: Execution, event: Event) -> bool:
    run = state.runs.get(event.step_run_id or "")
    return run is not None and run.due is not None and run.due <= epoch_seconds(event.timestamp)


def _fact(state: Execution, event: Event) -> Fact:
    """What a worker had reported."""
    pipe = find_pipeline(state, event.step_run_id, parse_label(event.iteration))
    number = pipe.number if pipe is not None else 0
    ends = event.name in ("step.done", "step.failed")
    run = state.runs.get(event.step_run_id or "")
    return Fact(
        event.name,
        event.step_run_id or "",
        {key: value for key, value in event.payload.items() if key == "output"} if ends else event.payload,
        event.status,
        event.entity_id.partition(".")[2] or None,
        event.task_run_id,
        event.iteration,
        event.attempt,
        number + 1 if event.name == "task.started" else number,
        run is not None and run.closing is not None,
    )


class _ReplayBuilder(DecisionBuilder):
    """A turn whose first events are written already."""

    def __init__(
        self,
        net_index: NetIndex,
        state: Execution,
        recorded: Iterable[Event],
        parting: ForkMark,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(net_index, state, parting.now, new_id)
        self.script = deque(recorded)
        self.parting = parting
        self.cause = 0

    def begin(self, event: Event) -> None:
        """A recorded thing happens, at its time."""
        self.now = epoch_seconds(event.timestamp)
        self.cause = event.seq

    def accept_recorded(self) -> None:
        """Let the next recorded event take effect as it stands."""
        self._keep(self.script[0])

    def divergence(self, event: Event, why: str) -> ReplayDiverged:
        """An error about a recorded event."""
        return ReplayDiverged(event, self.cause, why)

    def _keep(self, event: Event) -> Event:
        if not self.script:
            return super()._keep(event)
        recorded = self.script.popleft()
        if recorded is not event and _comparable_parts(recorded) != _comparable_parts(event):
            raise self.divergence(recorded, _describe_difference(recorded, event))
        super()._keep(recorded)
        while self.script and self.script[0].name == FORKED:
            self.now = epoch_seconds(self.script[0].timestamp)
            super()._keep(self.script.popleft())
        if not self.script:
            self._switch_to_now()
        return recorded

    def _switch_to_now(self) -> None:
        """The last recorded event has taken effect: from here on it is now."""
        self.now = self.parting.now
        stamp = datetime.fromtimestamp(self.now, UTC).isoformat(timespec="microseconds")
        self.timestamp = max(stamp, self.state.timestamp)
        self.emit(FORKED, self.state.path, self.parting.payload, parent=self.last)


def _comparable_parts(event: Event) -> tuple[object, ...]:
    """That part of an event by which the engine goes on; the values it wrote are read from the state."""
    payload = event.payload
    said: list[object] = [bool(payload.get("error"))]
    if event.name == "next.evaluated":
        said += [_arc_targets(event), payload.get("cancel"), payload.get("terminate"), payload.get("unrouted")]
    elif event.name in ("step.scheduled", "loop.iteration.started"):
        said += ["input" in payload, "items" in payload, payload.get("take"), payload.get("missing")]
    elif event.name in ("loop.started", "workflow.started"):
        said.append(payload.get("mode") or payload.get("step"))
    return event.name, event.entity_id, event.step_run_id, event.iteration, *said


def _arc_targets(event: Event) -> list[str]:
    return [arc["to"] for arc in event.payload["arcs"] if arc["taken"]]


def _describe_difference(recorded: Event, event: Event) -> str:
    """How what is recorded and what would be decided differ, in words."""
    if recorded.name == event.name == "next.evaluated" and recorded.entity_id == event.entity_id:
        before, now = (", ".join(_arc_targets(one)) or "nowhere" for one in (recorded, event))
        return f"the arcs of {recorded.entity_id} led to {before}, and would lead to {now} now"
    before, now = (f"{one.name} of {one.entity_id}" for one in (recorded, event))
    if before == now:
        return f"{before} would say something else now"
    return f"{before} is recorded where {now} would follow now"
