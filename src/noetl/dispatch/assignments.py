"""What a worker holds: assignments, the moves that concern them, and the pace at which they end."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.model.wire import ExecutionBrief, Key, PipelineReport, WorkAssignment

#: seconds of work that are fetched ahead, and pipelines at most
_AHEAD_S, _AHEAD = 0.05, 200


class WorkerState(StrEnum):
    """Where a pipeline stands at its worker."""

    NEW = "new"
    #: it has not begun
    QUEUED = "queued"
    #: it takes a slot
    RUNNING = "running"
    #: its last report is on its way, or is sent again
    REPORTING = "reporting"
    #: the server expects nothing more of it; its tools are being put away
    CLOSING = "closing"
    #: the worker has forgotten it
    GONE = "gone"


#: the states in which a server expects to hear of a pipeline
_OPEN = frozenset({WorkerState.QUEUED, WorkerState.RUNNING, WorkerState.REPORTING})


class HeldAssignment:
    """A pipeline that this worker holds."""

    __slots__ = ("assignment", "begun", "brief", "fence", "following", "key", "link", "shared", "state")

    def __init__(
        self, link: Any, assignment: WorkAssignment, brief: ExecutionBrief | None, shared: dict[str, Any]
    ) -> None:
        #: the connection to the server that gave it, or that has its execution now
        self.link = link
        self.assignment = assignment
        #: the pipeline's key, and the fence by which it is held
        self.key, self.fence = assignment.key, assignment.fence
        #: None: the worker knows its execution
        self.brief = brief
        #: the scopes that all assignments of the execution share
        self.shared = shared
        self.state = WorkerState.NEW
        self.begun: float | None = None
        #: the same pipeline, given again before this one was gone
        self.following: HeldAssignment | None = None

    @property
    def open(self) -> bool:
        """Whether its server expects to hear of it."""
        return self.state in _OPEN

    def report(self, **more: Any) -> PipelineReport:
        """A report of it."""
        return PipelineReport(*self.key, self.fence, **more)


class Send(msgspec.Struct, frozen=True):
    """Send a report to its server; nobody waits for the answer."""

    held: HeldAssignment
    report: PipelineReport


class SayLast(msgspec.Struct, frozen=True):
    """Report that nothing follows, until a server has heard it; then `WorkerQueue.on_end_reported`."""

    held: HeldAssignment


class StopRun(msgspec.Struct, frozen=True):
    """End a runner; `WorkerQueue.on_runner_end` is called when its tools are put away."""

    key: Key


class RunAlone(msgspec.Struct, frozen=True):
    """Start a pipeline by `WorkerQueue.start_alone` when nothing else runs."""

    held: HeldAssignment


class AskAll(msgspec.Struct, frozen=True):
    """Ask every server for work: they were told that there is no room."""


WorkerMove = Send | SayLast | StopRun | RunAlone | AskAll
WorkerMoves = list[WorkerMove]


class PrefetchEstimator:
    """How long pipelines take here, and so how many are fetched before a slot is free."""

    def __init__(self) -> None:
        self._usual = 1.0

    def add_duration(self, seconds: float) -> None:
        """Take the duration of a pipeline into account."""
        self._usual += 0.1 * (seconds - self._usual)

    def ahead(self, slots: int) -> int:
        """How many pipelines to hold beyond the slots."""
        return min(_AHEAD, int(_AHEAD_S / max(self._usual, 1e-6)) * slots)
