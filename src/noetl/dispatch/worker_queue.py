"""The worker's side: the assignments that a worker process holds, and what it does with each.

A server gives a pipeline as an assignment, under a fence. The worker queues it, runs it in one of its slots, and reports; when the server
knows the end and the tools are put away, the worker forgets it. Everything here is lost with the process, and nothing is lost by
that: the log knows how far each pipeline was.

    queued ──► running ──► closing ──► gone
                  └──────► reporting ──┘

A *running* pipeline may still be fetching its playbook. It is *closing* when nothing more is to be reported of it, because the server
has its last report, or has taken it away: only its tools are being put away. It is *reporting* while its last report is on its
way, or is sent again: the runner has sent it without waiting, or has ended without one. It takes no slot when its runner has
ended. A heartbeat names it until the report is durable, or the server would take it for lost.

1. **Given again while under way.** A server that misses a pipeline gives it again, under a new fence, possibly to the worker that has it. The latest
   assignment is kept, and begins when the one before it is gone.
2. **Pauses.** What has not begun when its execution is paused goes back: the server gives it out again when the execution is resumed. The rule is `may_begin`, as for a server.
3. **Alone.** A pipeline with which workers died runs alone: what is queued goes back, what runs ends first, and there is no room meanwhile.
   A worker that drains has no room either.
4. **Stops.** A stop names the fence by which the pipeline was held, and concerns no later assignment. A stop without a fence, as
   earlier servers send it, ends whatever is held of the pipeline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from noetl.model.wire import ExecutionBrief, HeldPipeline, Key, Lease, PipelineReport, WorkAssignment

# What a worker holds: assignments, the moves that concern them, and the pace at which they end.


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

    __slots__ = ("ahead", "assignment", "begun", "brief", "fence", "following", "key", "link", "shared", "state")

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
        #: seconds by which the execution's time is ahead of this process's; None: its server does not tell
        self.ahead: float | None = None
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


class WorkerInput(StrEnum):
    """What may happen to a pipeline at its worker."""

    #: a server gives it, or gives it again
    ASSIGNED = "assigned"
    #: there is a slot for it
    STARTED = "slot free"
    #: its last report was sent, and nobody waits until it is durable
    POSTED = "last report sent"
    #: its last report is durable, or none is wanted
    SAID_LAST = "last report durable"
    #: its runner has ended, with its tools put away
    ENDED = "runner ended"
    #: a server has heard the last report that was on its way
    TOLD = "end told"
    #: a server wants it to end
    DROPPED = "dropped"
    #: a report was refused: its fence is stale
    REFUSED = "refused"
    #: it is to go back to its server
    RETURNED = "given back"
    #: it broke in a way that no fact tells
    BROKEN = "broken"


class WorkerQueue:
    """The pipelines of one worker process. Time comes in as an argument; moves go out."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.held: dict[Key, HeldAssignment] = {}
        self.waiting: deque[HeldAssignment] = deque()
        #: slots that are taken
        self.running = 0
        #: the pipeline that has this worker to itself
        self.alone: HeldAssignment | None = None
        self.draining = False
        self.pace = PrefetchEstimator()
        self.moves: WorkerMoves = []
        self.now = 0.0

    def _apply(self, held: HeldAssignment, happened: WorkerInput, about: Any = None) -> None:
        transition = WORKER_TABLE.get((held.state, happened))
        if transition is None:
            return
        held.state = transition.action(self, held, about)
        if held.state is WorkerState.GONE:
            self._remove(held)

    def _remove(self, held: HeldAssignment) -> None:
        """Forget a pipeline, and begin with what was given of it meanwhile."""
        del self.held[held.key]
        if self.alone is held:
            self.alone = None
            if not self.draining:
                self.moves.append(AskAll())
        self.free_slot(held)
        following, held.following = held.following, None
        if following is not None:
            self._assign(following)

    def free_slot(self, held: HeldAssignment) -> None:
        """Take note that a pipeline has no runner any more."""
        if held.begun is not None:
            self.running -= 1
            self.pace.add_duration(self.now - held.begun)
            held.begun = None

    # --- servers -----------------------------------------------------------------------------------------------------

    @property
    def most(self) -> int:
        """How many pipelines to hold at most; short ones are fetched before a slot is free."""
        return 0 if self.draining or self.alone is not None else self.slots + self.pace.ahead(self.slots)

    def room(self, link: Any = None) -> int:
        """For how many more pipelines there is room; of one server: how many it may have given, in all."""
        others = sum(1 for one in self.held.values() if one.link is not link and one.state is not WorkerState.REPORTING)
        return max(0, self.most - others)

    def assign(self, held: HeldAssignment) -> WorkerMoves:
        """A server gives a pipeline."""
        self.moves = []
        self._assign(held)
        return self.moves

    def _assign(self, held: HeldAssignment) -> None:
        before = self.held.get(held.key)
        if before is not None:
            self._apply(before, WorkerInput.ASSIGNED, held)
            return
        self.held[held.key] = held
        self._apply(held, WorkerInput.ASSIGNED)

    def drop(self, key: Key, fence: str | None = None, *, runs: bool, now: float) -> WorkerMoves:
        """A server takes a pipeline away, or has refused a report of it; `runs`: it has a runner.

        With the fence of an assignment, one that came later is kept. Without a fence, everything of the pipeline goes.
        """
        self.moves, self.now = [], now
        held = self.held.get(key)
        if held is None:
            return self.moves
        if fence == held.fence:
            self._apply(held, WorkerInput.REFUSED, runs)
        elif fence is None or (held.following is not None and fence == held.following.fence):
            self._apply(held, WorkerInput.DROPPED, runs)
        return self.moves

    def _awaited(self) -> Iterator[HeldAssignment]:
        """All that servers expect to hear of, with what waits for an earlier assignment to end."""
        for one in list(self.held.values()):
            following = one.following
            if one.open:
                yield one
            if following is not None:
                yield following

    def heartbeat(self) -> list[HeldPipeline]:
        """All that servers expect to hear of. Other threads may ask."""
        return [HeldPipeline(*one.key, one.fence) for one in self._awaited()]

    def leases(self) -> list[Lease]:
        """The leases of what it holds that are not the cluster's. Other threads may ask."""
        return [lease for one in self._awaited() if (lease := one.assignment.lease) is not None]

    def expired(self, silence_s: float, lease_s: float) -> list[Key]:
        """What others have by now if no server has heard of this worker for so long; `lease_s`: the lease of the cluster."""
        return list(dict.fromkeys(one.key for one in self._awaited() if silence_s > _ttl_of(one, lease_s)))

    # --- running -----------------------------------------------------------------------------------------------------

    def next(self, now: float) -> HeldAssignment | None:
        """The next pipeline to begin, if there is a slot for it."""
        while self.waiting and self.running < self.slots:
            held = self.waiting.popleft()
            if self.held.get(held.key) is held and held.state is WorkerState.QUEUED:
                self._apply(held, WorkerInput.STARTED, now)
                return held
        return None

    def start_alone(self, held: HeldAssignment, now: float) -> bool:
        """Begin a pipeline that waited to be alone; whether it is still wanted."""
        if self.held.get(held.key) is not held or held.state is not WorkerState.QUEUED:
            return False
        self._apply(held, WorkerInput.STARTED, now)
        return True

    def on_posted(self, held: HeldAssignment) -> None:
        """The last report of a pipeline was sent; `on_end_reported` follows when it is durable."""
        self._apply(held, WorkerInput.POSTED)

    def on_last_report(self, held: HeldAssignment) -> None:
        """The last report of a pipeline is durable, or none is wanted."""
        self._apply(held, WorkerInput.SAID_LAST)

    def on_runner_end(self, key: Key, now: float) -> WorkerMoves:
        """A runner has ended."""
        self.moves, self.now = [], now
        held = self.held.get(key)
        if held is not None:
            self._apply(held, WorkerInput.ENDED)
        return self.moves

    def on_end_reported(self, held: HeldAssignment, now: float) -> WorkerMoves:
        """A server has heard that a pipeline ended, or nobody wants to."""
        self.moves, self.now = [], now
        if self.held.get(held.key) is held:
            self._apply(held, WorkerInput.TOLD)
        return self.moves

    def break_off(self, held: HeldAssignment, why: str, now: float) -> WorkerMoves:
        """A pipeline broke; its server decides what follows."""
        self.moves, self.now = [], now
        if self.held.get(held.key) is held:
            self._apply(held, WorkerInput.BROKEN, why)
        return self.moves

    # --- giving back -------------------------------------------------------------------------------------------------

    def give_back(self, held: HeldAssignment, now: float) -> WorkerMoves:
        """A pipeline goes back to its server."""
        self.moves, self.now = [], now
        if self.held.get(held.key) is held:
            self._apply(held, WorkerInput.RETURNED)
        else:  # it ended when it was told to; its server still waits for it
            self.moves.append(Send(held, held.report(returned=True)))
        return self.moves

    def drain(self, now: float) -> WorkerMoves:
        """Take nothing more, and give back what has not begun."""
        self.moves, self.now, self.draining = [], now, True
        self.return_waiting()
        if self.alone is not None and self.alone.state is WorkerState.QUEUED:
            self._apply(self.alone, WorkerInput.RETURNED)
        return self.moves

    def return_waiting(self) -> None:
        """Give back what has not begun."""
        waiting, self.waiting = list(self.waiting), deque()
        for held in waiting:
            self._apply(held, WorkerInput.RETURNED)


def _ttl_of(held: HeldAssignment, lease_s: float) -> float:
    lease = held.assignment.lease
    return lease.ttl_s if lease is not None else lease_s


# --- actions -----------------------------------------------------------------------------------------------------------


def _enqueue(queue: WorkerQueue, held: HeldAssignment, _none: None) -> WorkerState:
    if held.assignment.alone and queue.alone is None and not queue.draining:
        queue.alone = held
        queue.return_waiting()
        queue.moves.append(RunAlone(held))
    elif queue.alone is not None or queue.draining:
        return _return(queue, held, None)
    else:
        queue.waiting.append(held)
    return WorkerState.QUEUED


def _supersede(_queue: WorkerQueue, held: HeldAssignment, given: HeldAssignment) -> WorkerState:
    held.following = given
    return held.state


def _start(queue: WorkerQueue, held: HeldAssignment, now: float) -> WorkerState:
    queue.running += 1
    held.begun = now
    return WorkerState.RUNNING


def _close(_queue: WorkerQueue, _held: HeldAssignment, _none: None) -> WorkerState:
    return WorkerState.CLOSING


def _post(_queue: WorkerQueue, _held: HeldAssignment, _none: None) -> WorkerState:
    return WorkerState.REPORTING


def _say_last(queue: WorkerQueue, held: HeldAssignment, _none: None) -> WorkerState:
    queue.moves.append(SayLast(held))
    return _free(queue, held, None)


def _free(queue: WorkerQueue, held: HeldAssignment, _none: None) -> WorkerState:
    queue.free_slot(held)
    return WorkerState.REPORTING


def _conclude(_queue: WorkerQueue, held: HeldAssignment, _none: None) -> WorkerState:
    return WorkerState.GONE if held.begun is None else WorkerState.CLOSING


def _forget(_queue: WorkerQueue, _held: HeldAssignment, _none: None) -> WorkerState:
    return WorkerState.GONE


def _drop(queue: WorkerQueue, held: HeldAssignment, runs: bool) -> WorkerState:  # noqa: FBT001  all actions are called alike
    """A server that takes a pipeline away takes back what it gave of it meanwhile, too."""
    held.following = None
    return _stop(queue, held, runs)


def _stop(queue: WorkerQueue, held: HeldAssignment, runs: bool) -> WorkerState:  # noqa: FBT001
    if held.begun is None or not runs:
        return WorkerState.GONE
    queue.moves.append(StopRun(held.key))
    return WorkerState.CLOSING


def _return(queue: WorkerQueue, held: HeldAssignment, _none: None) -> WorkerState:
    queue.moves.append(Send(held, held.report(returned=True)))
    return WorkerState.GONE


def _break(queue: WorkerQueue, held: HeldAssignment, why: str) -> WorkerState:
    queue.moves.append(Send(held, held.report(broken=why)))
    return WorkerState.GONE


class WorkerTransition(NamedTuple):
    """What an input does to a pipeline at its worker, and the states it may lead to."""

    action: Callable[[WorkerQueue, HeldAssignment, Any], WorkerState]
    to: tuple[WorkerState, ...]


_I = WorkerInput
_NEW, _QUEUED, _RUNNING = WorkerState.NEW, WorkerState.QUEUED, WorkerState.RUNNING
_REPORTING, _CLOSING, _GONE = WorkerState.REPORTING, WorkerState.CLOSING, WorkerState.GONE

WORKER_TABLE: Mapping[tuple[WorkerState, WorkerInput], WorkerTransition] = {
    (_NEW, _I.ASSIGNED): WorkerTransition(_enqueue, (_QUEUED, _GONE)),
    (_QUEUED, _I.ASSIGNED): WorkerTransition(_supersede, (_QUEUED,)),
    (_QUEUED, _I.STARTED): WorkerTransition(_start, (_RUNNING,)),
    (_QUEUED, _I.DROPPED): WorkerTransition(_drop, (_GONE,)),
    (_QUEUED, _I.REFUSED): WorkerTransition(_stop, (_GONE,)),
    (_QUEUED, _I.RETURNED): WorkerTransition(_return, (_GONE,)),
    (_RUNNING, _I.ASSIGNED): WorkerTransition(_supersede, (_RUNNING,)),
    (_RUNNING, _I.POSTED): WorkerTransition(_post, (_REPORTING,)),
    (_RUNNING, _I.SAID_LAST): WorkerTransition(_close, (_CLOSING,)),
    (_RUNNING, _I.ENDED): WorkerTransition(_say_last, (_REPORTING,)),
    (_RUNNING, _I.DROPPED): WorkerTransition(_drop, (_CLOSING, _GONE)),
    (_RUNNING, _I.REFUSED): WorkerTransition(_stop, (_CLOSING, _GONE)),
    (_RUNNING, _I.RETURNED): WorkerTransition(_return, (_GONE,)),
    (_RUNNING, _I.BROKEN): WorkerTransition(_break, (_GONE,)),
    (_REPORTING, _I.ASSIGNED): WorkerTransition(_supersede, (_REPORTING,)),
    (_REPORTING, _I.ENDED): WorkerTransition(_free, (_REPORTING,)),
    (_REPORTING, _I.TOLD): WorkerTransition(_conclude, (_CLOSING, _GONE)),
    (_REPORTING, _I.DROPPED): WorkerTransition(_drop, (_CLOSING, _GONE)),
    (_REPORTING, _I.REFUSED): WorkerTransition(_stop, (_CLOSING, _GONE)),
    (_REPORTING, _I.BROKEN): WorkerTransition(_break, (_GONE,)),
    (_CLOSING, _I.ASSIGNED): WorkerTransition(_supersede, (_CLOSING,)),
    (_CLOSING, _I.ENDED): WorkerTransition(_forget, (_GONE,)),
    (_CLOSING, _I.DROPPED): WorkerTransition(_drop, (_CLOSING, _GONE)),
    (_CLOSING, _I.REFUSED): WorkerTransition(_stop, (_CLOSING, _GONE)),
    (_CLOSING, _I.RETURNED): WorkerTransition(_return, (_GONE,)),
    (_CLOSING, _I.BROKEN): WorkerTransition(_break, (_GONE,)),
}
