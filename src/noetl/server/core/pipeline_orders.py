"""Orders to run pipelines: the control plane asks `dispatch`, and carries out its moves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from noetl.dispatch import (
    AskSlot,
    DeadLetter,
    Deny,
    Dispatcher,
    Displace,
    Forget,
    Give,
    Hint,
    Move,
    Moves,
    ReleaseSlot,
    StopAt,
    Wake,
    has_limits,
    waits,
)
from noetl.errors import NoetlError
from noetl.model.events import Event
from noetl.model.orders import RunPipeline, StopPipelines
from noetl.model.output import failure
from noetl.model.requests import Denied
from noetl.model.state import label_of, pipeline_runs
from noetl.model.wire import ASK_AGAIN_S, Key
from noetl.ports import Slots
from noetl.server.core.service import LiveExecution

# The slot loop: asks the store for the slots that pipelines wait for, and returns those that are free.


#: seconds after which a store that does not answer is asked again
TROUBLE_S = 0.5


class SlotLoop:
    """Runs as long as a pipeline waits for a slot, or holds one that is to be returned."""

    def __init__(self, slots: Slots, dispatcher: Dispatcher, carry_out: Callable[[Moves], None]) -> None:
        self.slots = slots
        self._dispatcher, self._carry_out = dispatcher, carry_out
        self._to_release: set[Key] = set()
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def release(self, key: Key) -> None:
        """Return a slot, as soon as the store takes it."""
        self._to_release.add(key)
        self.nudge()

    def forget(self, execution_id: str) -> None:
        """Leave the slots of an execution to the process that continues it."""
        self._to_release = {key for key in self._to_release if key[0] != execution_id}

    def nudge(self) -> None:
        """Begin the next round now."""
        self._wakeup.set()
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        """End."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._to_release or self._dispatcher.slots:
                self._wakeup.clear()
                after = await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(after):
                        await self._wakeup.wait()
        finally:
            self._task = None

    async def _round(self) -> float:
        """Return slots, then ask for some; the seconds until the next round."""
        try:
            await self._release()
            requests = self._dispatcher.slot_requests()
            answers = await self.slots.take([one.ask for one in requests]) if requests else []
        except NoetlError:
            return TROUBLE_S
        except Exception as error:  # noqa: BLE001  a mistake of ours: no pipeline may wait for ever
            message = f"its limits cannot be told: {type(error).__name__}: {error}"
            self._carry_out(self._dispatcher.refuse_slots(failure("limit", message)))
            return TROUBLE_S
        for request, answer in zip(requests, answers, strict=True):
            self._carry_out(self._dispatcher.answer_slot(request, answer, now=monotonic()))
        if requests and all(answer.verdict != "wait" for answer in answers):
            return 0.0
        return min((one.after for one in answers if one.verdict == "wait"), default=ASK_AGAIN_S)

    async def _release(self) -> None:
        """Return what is free before anything is asked for: a pipeline may ask again for the slot that it returns."""
        free = list(self._to_release)
        if free:
            await self.slots.release(free)
            self._to_release.difference_update(free)


#: how many displaced pipelines are remembered, so that each is told once
_TOLD = 10_000


class WorkerSide(Protocol):
    """The workers of a process, as far as moves reach them: one in the same process, or any number elsewhere."""

    def give(self, move: Give) -> None:
        """Run a pipeline."""

    def stop(self, worker: str, key: Key, fence: str) -> None:
        """End a pipeline that the worker holds by this fence."""

    def forget(self, worker: str, execution_id: str) -> None:
        """Discard what is kept for an execution, unless there is more to do."""

    def wake(self, worker: str) -> None:
        """Answer a worker that waits for work."""

    def hint(self, pool: str) -> None:
        """Publish that a pool has work."""

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Record a dead letter, and fail its step."""


class Pipelines:
    """A `PipelineExecutor` over a dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, side: WorkerSide, slots: Slots | None, deny: Callable[[str, Denied], None]
    ) -> None:
        self.dispatcher, self._side = dispatcher, side
        self._loop = SlotLoop(slots, dispatcher, self.carry_out) if slots is not None else None
        #: tells an execution, wherever it runs, that one of its pipelines may not run
        self._deny = deny
        self._told: set[Key] = set()
        #: the executions that were seen here
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Future[None]] = set()

    # --- orders ------------------------------------------------------------------------------------------------------

    def run(self, live: LiveExecution, order: RunPipeline) -> None:
        """Run a pipeline, as soon as it may run and there is a worker for it."""
        self.carry_out(self.dispatcher.order(live, order, paused=live.state.paused, now=monotonic()))

    def stop(self, execution_id: str, order: StopPipelines) -> None:
        """End pipelines, wherever they are."""
        self.carry_out(self.dispatcher.stop(execution_id, order))

    def on_end(self, live: LiveExecution) -> None:
        """An execution has ended, or leaves the memory."""
        self._seen.discard(live.id)
        self.carry_out(self.dispatcher.end(live.id, released=live.lost))
        if live.lost and self._loop is not None:
            self._loop.forget(live.id)

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        """Events of an execution are durable."""
        if live.id not in self._seen:
            self._seen.add(live.id)
            if not (events and events[0].seq == 1) and self._loop is not None and has_limits(live.net):
                task = asyncio.ensure_future(self._find_slots(live, self._loop.slots))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if moves := self.dispatcher.observe(live.id, events, paused=live.state.paused):
            self.carry_out(moves)

    async def _find_slots(self, live: LiveExecution, slots: Slots) -> None:
        """Learn which slots an execution holds that was taken over; what ended while nobody owned it holds none."""
        while _goes_on(live):
            try:
                found = await slots.list_holders(live.id)
            except NoetlError:
                await asyncio.sleep(TROUBLE_S)
                continue
            if _goes_on(live):
                runs = live.state.runs.values()
                alive = {(live.id, run.id, label_of(path)) for run in runs for path, _ in pipeline_runs(run)}
                self.carry_out(self.dispatcher.find_slots(live, found, alive, paused=live.state.paused))
            return

    def waits(self, execution_id: str) -> list[str]:
        """What pipelines of an execution wait for, in words."""
        return waits(self.dispatcher, execution_id)

    def close(self) -> None:
        """Give nothing out any more."""
        self.dispatcher.closed = True
        if self._loop is not None:
            self._loop.close()
        for task in self._tasks:
            task.cancel()

    # --- moves -------------------------------------------------------------------------------------------------------

    def carry_out(self, moves: Moves) -> None:
        """Do what dispatch asks for."""
        for move in moves:
            if type(move) is Give:
                self._side.give(move)
            else:
                self._do(move)

    def _do(self, move: Move) -> None:
        match move:
            case AskSlot():
                assert self._loop is not None
                self._loop.nudge()
            case ReleaseSlot(key):
                assert self._loop is not None
                self._loop.release(key)
            case Deny(key, error):
                self._deny(key[0], Denied(key[1], key[2], error))
            case Displace(key, error):
                self._displace(key, Denied(key[1], key[2], error))
            case StopAt(worker, key, fence):
                self._side.stop(worker, key, fence)
            case Forget(worker, execution_id):
                self._side.forget(worker, execution_id)
            case Wake(worker):
                self._side.wake(worker)
            case Hint(pool):
                self._side.hint(pool)
            case DeadLetter():
                self._side.add_dead_letter(move)

    def _displace(self, victim: Key, denied: Denied) -> None:
        """Tell a pipeline to make room; once from here, though other processes may have told it before."""
        if victim in self._told:
            return
        if len(self._told) >= _TOLD:
            self._told.clear()
        with contextlib.suppress(NoetlError):  # it runs elsewhere and cannot be told now: the next round tries again
            self._deny(victim[0], denied)
            self._told.add(victim)


def _goes_on(live: LiveExecution) -> bool:
    """Whether an execution is still in memory, and not over."""
    return not live.lost and not live.state.over
