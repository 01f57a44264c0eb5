"""Dispatcher: inputs in, moves out. It finds the entries that an input concerns, and lets `table.TABLE` decide about each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from noetl.dispatch.actions import Loss
from noetl.dispatch.entry import GIVEN, READY, STOPPING, WAITING, Entry, ExecutionRecord, State, Worker
from noetl.dispatch.ledger import Ledger
from noetl.dispatch.limit_keys import describe_waits, displacement_failure, refusal_failure
from noetl.dispatch.moves import Dispatched, Displace, Forget, Give, Move, ReleaseSlot
from noetl.dispatch.placement import DEFAULT_POOL
from noetl.dispatch.table import ACTIONS, Action, Input
from noetl.model.events import Event
from noetl.model.orders import RunPipeline, StopPipelines
from noetl.model.output import Failure
from noetl.model.state import parse_label
from noetl.model.wire import PROTOCOL, Answer, Ask, HeldPipeline, Key, PipelineReport

#: events after which a step run or an iteration does not go on
_ENDS = frozenset({"step.done", "step.failed", "step.cancelled", "loop.iteration.done", "loop.iteration.failed"})

# The actions of each input, by state.
_BROKEN = ACTIONS[Input.BROKEN]
_ENDED = ACTIONS[Input.ENDED]
_EXPIRED = ACTIONS[Input.EXPIRED]
_FINISHED = ACTIONS[Input.FINISHED]
_FOUND = ACTIONS[Input.FOUND]
_GRANTED = ACTIONS[Input.GRANTED]
_NOT_ARRIVED = ACTIONS[Input.NOT_ARRIVED]
_ORDERED = ACTIONS[Input.ORDERED]
_OVER = ACTIONS[Input.OVER]
_OVERTAKEN = ACTIONS[Input.OVERTAKEN]
_PAUSED = ACTIONS[Input.PAUSED]
_REFUSED = ACTIONS[Input.REFUSED]
_RELEASED = ACTIONS[Input.RELEASED]
_RETURNED = ACTIONS[Input.RETURNED]
_SLOT_FOUND = ACTIONS[Input.SLOT_FOUND]
_STOPPED = ACTIONS[Input.STOPPED]
_TAKEN = ACTIONS[Input.TAKEN]
_UNWANTED = ACTIONS[Input.UNWANTED]
_WORKER_GONE = ACTIONS[Input.WORKER_GONE]

Moves = Sequence[Move]


class SlotRequest(NamedTuple):
    """A request to the store of slots; its number tells an answer that nobody waits for any more."""

    key: Key
    number: int
    ask: Ask


class Dispatcher(Ledger):
    """The pipelines of one process's executions, and the workers that run them.

    With `local`, there is one worker behind a direct call. It takes every entry as soon as that is ready.
    """

    def _apply(self, entry: Entry, actions: Mapping[State, Action], about: Any = None) -> None:
        """Let an input, by its row of `ACTIONS`, take effect on an entry."""
        action = actions.get(entry.state)
        if action is None:
            return
        entry.state = state = action(self, entry, about)
        if state is READY and self.local is not None and not self.closed:
            entry.state = _TAKEN[READY](self, entry, self.local)

    # --- the engine --------------------------------------------------------------------------------------------------

    def order(self, execution: Dispatched, order: RunPipeline, *, paused: bool, now: float = 0.0) -> Moves:
        """The engine orders a pipeline."""
        self.moves, self.now = [], now
        execution_id = execution.id
        record = self.executions.get(execution_id) or self.record(execution_id)
        record.execution = execution
        if paused is not record.paused:
            self._set_paused(record, paused=paused)
        entry = record.add((execution_id, order.step_run_id, order.iteration))
        self._apply(entry, _ORDERED, order)
        return self.moves

    def stop(self, execution_id: str, order: StopPipelines) -> Moves:
        """The engine orders the pipelines of a step run, or of an iteration, to stop."""
        self.moves = []
        record = self.executions.get(execution_id)
        if record is not None:
            self._stop(record, order.step_run_id, order.iteration, _STOPPED)
        return self.moves

    def observe(self, execution_id: str, events: Iterable[Event], *, paused: bool) -> Moves:
        """Events of an execution are durable: it may be paused now, and step runs may have ended."""
        self.moves = []
        record = self.executions.get(execution_id)
        if record is None:
            return self.moves
        if record.limited:
            for event in events:
                if event.name in _ENDS and event.step_run_id is not None:
                    self._note_end(record, event.step_run_id, event.iteration)
        if paused is not record.paused:
            self._set_paused(record, paused=paused)
        return self.moves

    def _set_paused(self, record: ExecutionRecord, *, paused: bool) -> None:
        record.paused = paused
        if paused:
            for entry in list(record.entries.values()):
                self._apply(entry, _PAUSED)

    def _note_end(self, record: ExecutionRecord, run_id: str, iteration: int | str | None) -> None:
        if iteration is None:
            self._stop(record, run_id, None, _OVER)
        elif (entry := record.entries.get((record.id, run_id, iteration))) is not None:
            self._apply(entry, _OVER)

    def _stop(
        self, record: ExecutionRecord, run_id: str, iteration: int | str | None, why: Mapping[State, Action]
    ) -> None:
        path = parse_label(iteration)
        for entry in record.of_run(run_id):
            if parse_label(entry.key[2])[: len(path)] == path:
                self._apply(entry, why)

    def end(self, execution_id: str, *, released: bool) -> Moves:
        """An execution has ended; or it is `released`: it leaves the memory, and another process may continue it.

        Workers that hold nothing of it need not keep its secrets and processes; the others ignore this.
        """
        self.moves = []
        record = self.executions.get(execution_id)
        if record is None:
            return self.moves
        if released:
            record.execution = None
        for entry in list(record.entries.values()):
            self._apply(entry, _RELEASED if released else _ENDED)
        self.moves += [Forget(name, execution_id) for name in record.workers if name in self.workers]
        record.workers = set()
        record.execution, record.limited = None, False
        if not record.entries:
            self.executions.pop(execution_id, None)
        return self.moves

    # --- taking executions over --------------------------------------------------------------------------------------

    def inherit(self, execution_id: str, kept: Iterable[HeldPipeline]) -> Moves:
        """An execution is about to be taken over: the registry knows who holds its pipelines, and so may this process."""
        self.moves = []
        for key, entry in [(key, one) for key, one in self.orphans.items() if key[0] == execution_id]:
            if entry.worker not in self.workers:
                self._apply(self.orphans[key], _WORKER_GONE)
        for held in kept:
            record = self.record(execution_id)
            self._apply(record.add(held.key), _FOUND, held)
        return self.moves

    def drop_orphans(self, execution_id: str) -> Moves:
        """An execution was taken over, or has ended elsewhere: what workers hold beyond its orders is stopped."""
        self.moves = []
        for entry in [one for key, one in self.orphans.items() if key[0] == execution_id]:
            self._apply(entry, _UNWANTED)
        return self.moves

    def find_slots(self, execution: Dispatched, found: Iterable[Key], alive: Collection[Key], *, paused: bool) -> Moves:
        """The store has slots of an execution that was taken over; those of pipelines that are not alive are returned."""
        self.moves = []
        record = self.record(execution.id)
        record.execution, record.paused = execution, paused
        for key in found:
            entry = record.entries.get(key)
            if key not in alive and (entry is None or entry.state is not STOPPING):
                self.moves.append(ReleaseSlot(key))
                continue
            self._apply(record.add(key), _SLOT_FOUND)
        return self.moves

    # --- slots -------------------------------------------------------------------------------------------------------

    def slot_requests(self) -> list[SlotRequest]:
        """What to ask the store of slots next, in this order."""
        return [
            SlotRequest(entry.key, entry.number, entry.ask) for entry in self.slots.batch() if entry.ask is not None
        ]

    def answer_slot(self, request: SlotRequest, answer: Answer, *, now: float = 0.0) -> Moves:
        """The store has answered. The slots of an execution that left the memory are its next owner's affair."""
        self.moves, self.now = [], now
        entry = self.find(request.key)
        cap = request.ask.cap
        if entry is None or entry.number != request.number:  # it has been withdrawn meanwhile
            if answer.verdict == "granted" and self._is_here(request.key) and not (entry is not None and entry.slot):
                self.moves.append(ReleaseSlot(request.key))
        elif answer.verdict == "wait":
            self.moves += [Displace(victim, displacement_failure(cap)) for victim in answer.victims]
        elif answer.verdict == "granted":
            self._apply(entry, _GRANTED, request.ask)
        else:
            error = refusal_failure(request.ask) if answer.verdict == "refused" else displacement_failure(cap)
            self._apply(entry, _REFUSED, error)
        return self.moves

    def _is_here(self, key: Key) -> bool:
        record = self.executions.get(key[0])
        return record is not None and record.execution is not None

    def refuse_slots(self, error: Failure) -> Moves:
        """No slot can be asked for any more: whatever waits for one fails."""
        self.moves = []
        for entry in list(self.slots):
            self._apply(entry, _REFUSED, error)
        return self.moves

    # --- workers -----------------------------------------------------------------------------------------------------

    def update_worker(self, name: str, pools: Sequence[str], room: int, protocol: int = 0) -> Worker:
        """Note how many pipelines of which pools a worker may hold, as it says whenever it asks or reports."""
        worker = self.worker(name)
        worker.pools, worker.room, worker.protocol = list(pools) or [DEFAULT_POOL], room, min(protocol, PROTOCOL)
        return worker

    def knows(self, worker: Worker) -> bool:
        """Whether a worker has not died since its request came: what it got now would never be missed."""
        return self.workers.get(worker.name) is worker

    def take(self, worker: Worker, *, now: float) -> list[Give]:
        """Give a worker its share of what is ready, the most urgent first.

        What is ready is shared among the workers that could take it, so ranges of a loop become smaller towards its end.
        """
        self.moves, self.now = [], now
        if self.closed or worker.free <= 0 or not self.knows(worker):
            return []
        others = sum(1 for one in self.workers.values() if set(one.pools) & set(worker.pools))
        understood = range(worker.protocol + 1)
        shared = self.ready.length(worker.pools, understood)
        share = -(-shared // max(1, others)) + self.ready.length(worker.pools, understood, worker.name)
        given, most = 0, min(worker.free, max(1, share))
        for pool in worker.pools:
            while given < most and (entry := self.pop(pool, worker)) is not None:
                self._apply(entry, _TAKEN, worker)
                given += 1
        return [one for one in self.moves if isinstance(one, Give)]

    def leave(self, worker: Worker, *, came_for_work: bool, now: float) -> Moves:
        """A worker's request has been answered: if there is more, another worker is called."""
        self.moves, self.now = [], now
        self.call_for_rest(worker, came_for_work=came_for_work)
        return self.moves

    def call_worker(self, pool: str, *, now: float) -> Moves:
        """Let any worker of a pool come."""
        self.moves, self.now = [], now
        self.call(pool)
        return self.moves

    def lose_worker(self, name: str, *, now: float = 0.0) -> Moves:
        """A worker counts as dead: what it held is given to others."""
        self.moves, self.now = [], now
        for entry in [one for one in self.orphans.values() if one.worker == name]:
            self._apply(entry, _WORKER_GONE)
        worker = self.workers.pop(name, None)
        if worker is None:
            return self.moves
        self.wake(worker)
        self.empty_home(name)
        for at, entry in enumerate(list(worker.held.values())):
            self._apply(entry, _WORKER_GONE, Loss(f"worker {name} died", counted=at < worker.slots))
        return self.moves

    # --- leases ------------------------------------------------------------------------------------------------------

    def hear(self, name: str, held: Collection[tuple[Key, str]], *, now: float) -> None:
        """A heartbeat of a worker names what it holds: the leases of these pipelines are renewed."""
        at = self.listening(now)
        for key, fence in held if self.leased else ():
            entry = self.leased.get(key)
            if entry is not None and entry.worker == name and entry.fence == fence:
                entry.heard = at

    def expire_leases(self, *, now: float) -> Moves:
        """Look at the leases of pipelines; call this every `MOST_UNHEARD_S` at least."""
        self.moves, self.now = [], now
        clock = self.look(now)
        for key, entry in list(self.leased.items()):
            worker = self.workers.get(entry.worker or "")
            if entry.state is not GIVEN or entry.lease is None or worker is None:
                del self.leased[key]
            elif clock - entry.heard > entry.lease.ttl_s:
                why = f"no heartbeat of worker {worker.name} named it for {entry.lease.ttl_s:g} s"
                self._apply(entry, _EXPIRED, Loss(why, counted=_had_begun(worker, entry)))
        return self.moves

    def note_silence(self, name: str, *, now: float) -> Moves:
        """A worker is silent for longer than its lease, and still registered: it keeps what has a lease of its own."""
        self.moves, self.now = [], now
        worker = self.workers.get(name)
        if worker is None:
            return self.moves
        if worker.pools:
            self.wake(worker)
            self.empty_home(name)
        worker.pools, worker.room = [], 0
        lost = [(at, entry) for at, entry in enumerate(worker.held.values()) if entry.lease is None]
        for at, entry in lost:
            self._apply(entry, _EXPIRED, Loss(f"worker {name} fell silent", counted=at < worker.slots))
        return self.moves

    def compare(self, worker: Worker, held: Collection[tuple[Key, str]], *, before: float, now: float) -> Moves:
        """A heartbeat says what a worker holds: what it was given `before` a time and does not hold did not reach it."""
        self.moves, self.now = [], now
        for key, entry in list(worker.held.items()):
            if (key, entry.fence) not in held and entry.since < before:
                self._apply(entry, _NOT_ARRIVED, Loss("it did not reach its worker", counted=False, undelivered=True))
        return self.moves

    def is_own_fence(self, fence: str) -> bool:
        """Whether a fence was issued here, and not by another server."""
        return fence.startswith(f"{self.name}-")

    def list_held(self) -> Iterator[Entry]:
        """All entries that workers hold."""
        for worker in self.workers.values():
            yield from worker.held.values()

    # --- reports -----------------------------------------------------------------------------------------------------

    def holds(self, worker: str, report: PipelineReport) -> Entry | None:
        """The entry that a report is about; None: its fence is stale, and the report is refused."""
        entry = self.find(report.key)
        if entry is None or entry.state is not GIVEN or entry.worker != worker or entry.fence != report.fence:
            return None
        return entry

    def report(self, worker: str, report: PipelineReport, *, now: float) -> Moves:
        """What a worker reports has been recorded. Its fence may be stale by now: others may have the pipeline."""
        self.moves, self.now = [], now
        entry = self.holds(worker, report)
        if entry is None:
            if (other := self.find(report.key)) is not None:
                self._apply(other, _OVERTAKEN)
            return self.moves
        if any(fact.name == "task.done" for fact in report.facts):
            entry.tries = 0
        if report.broken is not None:
            self._apply(entry, _BROKEN, Loss(report.broken))
        elif report.returned:
            self.empty_home(worker, entry)
            self._apply(entry, _RETURNED, Loss("it was given back", counted=False))
        elif report.last:
            self._apply(entry, _FINISHED)
        return self.moves

    def finish(self, key: Key) -> Moves:
        """The local worker has ended a pipeline and put its tools away."""
        self.moves = []
        record = self.executions.get(key[0])
        entry = record.entries.get(key) if record is not None else None
        if entry is not None:
            self._apply(entry, _FINISHED)
        return self.moves


def _had_begun(worker: Worker, entry: Entry) -> bool:
    """Whether a worker may have begun a pipeline; what had not begun can have done no harm."""
    return entry in itertools.islice(worker.held.values(), worker.slots)


# What an execution waits for outside itself, in words.


def waits(dispatcher: Dispatcher, execution_id: str) -> list[str]:
    """What the pipelines of an execution wait for: slots first, then workers."""
    record = dispatcher.executions.get(execution_id)
    entries = list(record.entries.values()) if record is not None else []
    return [*_slots(entries), *(_workers(dispatcher, entries) if dispatcher.local is None else ())]


def _slots(entries: list[Entry]) -> Iterator[str]:
    waiting = [one for one in entries if one.state is WAITING]
    found = Counter(
        f"{one.order.step} waits for {describe_waits(one.ask)}"
        for one in waiting
        if one.order is not None and one.ask is not None
    )
    for message, many in found.items():
        yield message if many == 1 else f"{message}, {many} of its iterations or runs"


def _workers(dispatcher: Dispatcher, entries: list[Entry]) -> Iterator[str]:
    ready = [one for one in entries if one.state is READY]
    homes = {one.key: home.name for one in ready if (home := dispatcher.home_of(one)) is not None}
    for name, many in sorted(Counter(homes.values()).items()):
        yield f"{many} pipeline{'s wait' if many > 1 else ' waits'} for worker {name}, which has the others of this execution"
    found = Counter((one.pool, one.protocol) for one in ready if one.key not in homes)
    for (pool, protocol), many in sorted(found.items()):
        there = [worker for worker in dispatcher.workers.values() if pool in worker.pools]
        why = "all that are there are busy" if there else f"none is there; `noetl worker --pool {pool}` starts one"
        if there and all(worker.protocol < protocol for worker in there):
            why = "all that are there are of an older version, which cannot run this; upgrade one"
        plural = many > 1
        yield f"{many} pipeline{'s' if plural else ''} wait{'' if plural else 's'} for a worker of pool `{pool}`: {why}"
