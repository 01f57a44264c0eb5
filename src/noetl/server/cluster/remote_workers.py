"""Remote workers: what a server has for each of its workers until that asks again, and how it calls them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, Any

from noetl.dispatch import DeadLetter, Give, Worker
from noetl.model.wire import CredentialCheck, CredentialCheckResult, ExecutionBrief, Key, WorkAssignment
from noetl.server.core import ExecutionService, LiveExecution

if TYPE_CHECKING:
    from noetl.server.core import Pipelines


# Questions: what a server asks of its workers, because only they could know.


class _Question:
    """A question, and who may answer it."""

    __slots__ = ("answer", "check", "pools", "worker")

    def __init__(self, check: CredentialCheck, pools: Collection[str]) -> None:
        self.check, self.pools = check, frozenset(pools)
        self.answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        #: the worker it was put to
        self.worker = ""


class WorkerQuestions:
    """Those that are open; `call` has a worker of a pool come who might answer."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self._call = call
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}
        self._asked: dict[int, _Question] = {}

    async def ask(
        self, execution_id: str, brief: ExecutionBrief, pools: Collection[str], seconds: float
    ) -> dict[str, Any] | None:
        """What stands in the way of an execution where pipelines are run; None as well if no worker says so in time.

        The brief has all that the execution was started with, so only a worker of these pools is asked: one would see it anyway.
        """
        number = next(self._numbers)
        asked = self._asked[number] = self._open[number] = _Question(
            CredentialCheck(number, execution_id, brief), pools
        )
        answer = asked.answer
        for pool in pools:
            self._call(pool)
        try:
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            return None
        finally:
            self._asked.pop(number, None)
            self._open.pop(number, None)

    def take(self, worker: Worker) -> list[CredentialCheck]:
        """What a worker that is here might answer; each is put to one."""
        if not self._open:
            return []
        found = {number: one for number, one in self._open.items() if not one.pools.isdisjoint(worker.pools)}
        for number, one in found.items():
            one.worker = worker.name
            del self._open[number]
        return [one.check for one in found.values()]

    def on_answer(self, worker: str, answer: CredentialCheckResult) -> None:
        """Hear what a worker found that was asked."""
        asked = self._asked.get(answer.number)
        if asked is not None and asked.worker == worker and not asked.answer.done():
            asked.answer.set_result(answer.problem)


#: workers that have not asked here yet, for which mail is kept: they may never ask
_MOST_EARLY = 1_000


def _to_nobody(_whom: str) -> None:
    """Without a bus, workers ask by themselves."""


class Mailbox:
    """What one worker hears with the next answer, apart from work."""

    __slots__ = ("ended", "knows", "stops", "wakeup")

    def __init__(self) -> None:
        #: the pipelines that it is to stop, each with the fence by which it was held
        self.stops: list[tuple[Key, str]] = []
        self.ended: list[str] = []
        #: executions on which it has reported, so that it need not be told again what they are
        self.knows: set[str] = set()
        #: resolved when there is something for it, while it waits
        self.wakeup: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self.stops or self.ended)

    def wake(self) -> bool:
        """Wake the worker, if it waits; whether it did."""
        if self.wakeup is None or self.wakeup.done():
            return False
        self.wakeup.set_result(None)
        return True

    def empty(self) -> tuple[list[tuple[Key, str]], list[str]]:
        """What it is to stop, and the executions that it need not keep; then the box is empty."""
        stops, self.stops, ended, self.ended = self.stops, [], self.ended, []
        return stops, ended


class RemoteWorkers:
    """The `WorkerSide` of a server."""

    def __init__(self) -> None:
        self.service: ExecutionService
        self.pipelines: Pipelines
        #: publishes that a pool has work
        self.publish: Callable[[str], None] = _to_nobody
        #: tells a worker that there is mail
        self.notify: Callable[[str], None] = _to_nobody
        #: records a dead letter
        self.record: Callable[[DeadLetter], None]
        #: how long a worker has had something does not depend on the date
        self.now: Callable[[], float] = monotonic
        #: of the workers that have asked here
        self._boxes: dict[str, Mailbox] = {}
        #: of those that have not, the latest last
        self._early: dict[str, Mailbox] = {}
        self.questions = WorkerQuestions(self._call)

    def _call(self, pool: str) -> None:
        pipelines = self.pipelines
        pipelines.carry_out(pipelines.dispatcher.call_worker(pool, now=self.now()))

    def box(self, worker: str) -> Mailbox:
        """The mailbox of a worker that asks; it stays until the worker is gone."""
        found = self._boxes.get(worker)
        if found is None:
            found = self._boxes[worker] = self._early.pop(worker, Mailbox())
        return found

    def _find_box(self, worker: str) -> Mailbox:
        """The mailbox of a worker, which may not have asked yet."""
        found = self._boxes.get(worker, self._early.get(worker))
        if found is None:
            if len(self._early) >= _MOST_EARLY:
                del self._early[next(iter(self._early))]
            found = self._early[worker] = Mailbox()
        return found

    def remove(self, worker: str) -> None:
        """Discard the mailbox of a worker that is gone."""
        self._boxes.pop(worker, None)
        self._early.pop(worker, None)

    # --- moves (see `pipelines.WorkerSide`) ----------------------------------------------------------------------------

    def give(self, move: Give) -> None:
        """Remote workers are given work in the answer to their question, see `WorkerApi`."""
        raise AssertionError(f"{move.worker} has not asked")

    def stop(self, worker: str, key: Key, fence: str) -> None:
        """See `WorkerSide`."""
        box = self._find_box(worker)
        box.stops.append((key, fence))
        self._notify(worker, box)

    def forget(self, worker: str, execution_id: str) -> None:
        """See `WorkerSide`."""
        box = self._find_box(worker)
        box.knows.discard(execution_id)
        had_entries = bool(box)  # thousands of executions may be evicted at once
        box.ended.append(execution_id)
        if not had_entries:
            self._notify(worker, box)

    def _notify(self, worker: str, box: Mailbox) -> None:
        if not box.wake():
            self.notify(worker)

    def wake(self, worker: str) -> None:
        """See `WorkerSide`."""
        box = self._boxes.get(worker)
        if box is not None:
            box.wake()

    def hint(self, pool: str) -> None:
        """See `WorkerSide`."""
        self.publish(pool)

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """See `WorkerSide`."""
        self.record(letter)

    # --- answers -------------------------------------------------------------------------------------------------------

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Wait until there may be something for a worker. It has one question at a time: an older one is answered."""
        box = self.box(worker.name)
        box.wake()
        wakeup = box.wakeup = asyncio.get_running_loop().create_future()
        worker.waits = True
        try:
            await asyncio.wait([wakeup], timeout=seconds)
        finally:
            if box.wakeup is wakeup:
                worker.waits, box.wakeup = False, None

    def assignment(self, give: Give) -> WorkAssignment:
        """A pipeline as its worker gets it."""
        recorded = self.service.read_recorded(give.execution.id, give.order) if give.order.begun else []
        now = self.service.now(give.execution)
        return WorkAssignment(give.execution.id, give.order, give.fence, recorded, give.alone, give.lease, now)

    def brief(self, live: LiveExecution, file: str) -> ExecutionBrief:
        """What its worker must know of the execution."""
        state = live.state
        return ExecutionBrief(state.playbook, file, state.workload, state.restrict, state.synthesized)
