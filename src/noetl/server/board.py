"""Board: the pipelines of this server's executions that workers elsewhere are to run, and who has which.

A worker holds a pipeline by a fence. It is believed to live until a registry says otherwise; then what it had is offered
again, under another fence, and what it still says of that is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from time import monotonic

from msgspec.structs import replace

from noetl.model.orders import RunPipeline, StopPipelines
from noetl.model.output import failure
from noetl.model.requests import Broken
from noetl.model.state import parse_label
from noetl.model.wire import Assignment, Brief, Held, Key, Message, Report
from noetl.server.offers import DEFAULT_POOL, Offer, Worker
from noetl.server.questions import Questions
from noetl.server.service import Hot, Service

#: so often a pipeline is given out until it is taken for the cause of its workers' deaths
MOST_TRIES = 5
#: after so many deaths it is given out to run alone, so that it takes nobody with it who is innocent
SUSPECT = 2
#: seconds after which is said again that there is work in a pool, if that is still so when a worker goes
SAY_AGAIN_S = 0.25
#: ways to a worker on which one may be lost without being the cause of it
MOST_WAYS = 100


def _to_nobody(_whom: str) -> None:
    """Where nobody listens, whoever waits for something asks by itself."""


class Board:
    """The crew of a server: workers elsewhere."""

    def __init__(self, now: Callable[[], float] = monotonic, hint: Callable[[str], None] | None = None) -> None:
        self.service: Service
        #: how long somebody has had something is no question of the date
        self.now = now
        #: says, wherever workers listen, that there is work in a pool
        self.hint = hint or _to_nobody
        self._me = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self.workers: dict[str, Worker] = {}
        self._offers: dict[str, dict[Key, Offer]] = {}
        self._ready: dict[str, list[tuple[int, int, Offer]]] = {}
        #: pools of which was said that there is work, and when; nobody has come for it since
        self._hinted: dict[str, float] = {}
        #: executions that are being reported on: what follows may be taken by who brings the news, and nobody else is called
        self._attended: Counter[str] = Counter()
        #: executions → workers that know of them
        self._knowing: dict[str, set[str]] = {}
        #: what was held when this server took an execution over
        self.inherited: dict[Key, Held] = {}
        #: pools of what was offered while whoever caused it was still here
        self._unannounced: set[str] = set()
        self.questions = Questions(lambda: self._call_somebody(DEFAULT_POOL))
        #: called with what workers were told of and is no work
        self.tell: Callable[[str], None] = _to_nobody
        #: hears of pipelines that are not offered any more, and why
        self.bury: Callable[[Held, str], None] = lambda held, why: None  # noqa: ARG005

    # --- the crew (see `errands.Crew`) -------------------------------------------------------------------------------

    def inherit(self, execution_id: str, kept: Iterable[Held]) -> None:
        """Know, before an execution is taken over, who has its pipelines: as it was kept, and as it was when it was here last."""
        for key in [one for one in self.inherited if one[0] == execution_id]:
            if self.inherited[key].worker not in self.workers:
                del self.inherited[key]
        self.inherited.update({held.key: held for held in kept})

    def forget_heirs(self, execution_id: str) -> None:
        """An execution has been taken over: what workers have beyond what is to be run is over."""
        for key in [one for one in self.inherited if one[0] == execution_id]:
            held = self.inherited.pop(key)
            if held.worker is not None:
                self._stop_at(self._worker(held.worker), key)

    def run(self, hot: Hot, order: RunPipeline) -> None:
        """Offer a pipeline."""
        key = (hot.id, order.step_run_id, order.iteration)
        held = self.inherited.pop(key, None)
        mine = self._offers.setdefault(hot.id, {})
        offer = mine.get(key)
        if offer is not None and offer.worker is not None:
            # A task may be answered, and a pause may end, before the worker has put its tools away.
            if offer.next is None or order.answer is not None:
                offer.next = order
            return
        worker = held.worker if held is not None else None
        if worker is None and hot.state.paused and order.answer is None and order.gather is None:
            return
        offer = mine[key] = Offer(hot, key, order)
        offer.tries = held.tries if held is not None else 0
        if held is not None and worker is not None:
            self._assign(offer, self._worker(worker), held.fence)
        else:
            # Of a worker that died meanwhile nothing is counted: it is found here at each take-over until others have it.
            self._offer(offer)

    def stop(self, execution_id: str, order: StopPipelines) -> None:
        """End pipelines, wherever they are."""
        path = parse_label(order.iteration)
        for key in list(self._offers.get(execution_id, ())):
            if key[1] == order.step_run_id and parse_label(key[2])[: len(path)] == path:
                self._withdraw(key)

    def under_way(self, key: Key) -> bool:
        """Whether a worker has a pipeline, or had it when its execution was taken over."""
        offer = self._offers.get(key[0], {}).get(key)
        return key in self.inherited or (offer is not None and offer.worker is not None)

    def ended(self, hot: Hot) -> None:
        """Nothing of an execution is to go on here; one that sleeps or was lost may, with whoever takes it over.

        Workers that have nothing of it need not keep its secrets and processes until then; those that have do not heed it.
        """
        if hot.lost:
            self._leave(hot.id)
        else:
            for key in list(self._offers.get(hot.id, ())):
                self._withdraw(key)
        for name in self._knowing.pop(hot.id, ()):
            worker = self.workers.get(name)
            if worker is not None:
                worker.knows.discard(hot.id)
                told = worker.has_mail  # thousands may be laid down at once
                worker.ended.append(hot.id)
                if not told:
                    self._notify(worker)

    def _leave(self, execution_id: str) -> None:
        """Remember who has what, should the execution come back here."""
        for key in list(self._offers.get(execution_id, ())):
            offer = self._forget(key)
            if offer is not None and offer.worker is not None:
                self.inherited[key] = Held(*key, offer.fence, offer.worker, offer.tries)

    def _withdraw(self, key: Key) -> None:
        offer = self._forget(key)
        if offer is not None and offer.worker is not None:
            self._stop_at(self._worker(offer.worker), key)

    def _stop_at(self, worker: Worker, key: Key) -> None:
        worker.stops.append(key)
        self._notify(worker)

    def _notify(self, worker: Worker) -> None:
        if not worker.ring():
            self.tell(worker.name)

    # --- workers -----------------------------------------------------------------------------------------------------

    def _worker(self, name: str) -> Worker:
        return self.workers.setdefault(name, Worker(name))

    def hello(self, message: Message) -> Worker:
        """A worker says what it is there for."""
        worker = self._worker(message.worker)
        worker.pools, worker.room = message.pools or [DEFAULT_POOL], message.room
        return worker

    def check(self, report: Report, worker: str) -> Offer | None:
        """The offer that a report is about, if the worker still holds it."""
        offer = self._offers.get(report.execution_id, {}).get(report.key)
        if offer is None or offer.worker != worker or offer.fence != report.fence:
            return None
        return offer

    def release(self, offer: Offer) -> None:
        """A worker is done with a pipeline; if more was ordered meanwhile, that is offered as far as it is still wanted."""
        hot, following = offer.hot, offer.next
        self._forget(offer.key)
        if hot.id not in self.service.hot or (following is None and hot.state.paused):
            return
        # What was ordered at the end of a pause may have been done since by the worker, which had never stopped; and one that
        # heard late of a pause stopped for nothing, having done its part with an answer that it once got.
        order = self.service.again(hot, following or replace(offer.order, answer=None))
        if order is not None:
            self.run(hot, order)

    def overtaken(self, key: Key) -> None:
        """Something was recorded of a pipeline by one who has it no longer: if that was its end, nobody is to run it again."""
        offer = self._offers.get(key[0], {}).get(key)
        if offer is not None and self.service.again(offer.hot, offer.next or offer.order) is None:
            self._withdraw(key)

    def gave(self, fence: str) -> bool:
        """Whether a fence is of this board, and not of another server's."""
        return fence.startswith(f"{self._me}-")

    def died(self, name: str) -> None:
        """A worker lives no longer: what it had is offered again, and what it would be found to have had is nobody's."""
        for key in [one for one, held in self.inherited.items() if held.worker == name]:
            del self.inherited[key]
        worker = self.workers.pop(name, None)
        if worker is None:
            return
        worker.ring()
        for at, offer in enumerate(list(worker.held.values())):
            # What had not begun there can have done no harm.
            self.again(offer, f"worker {name} died", counted=at < worker.slots)

    def astray(self, offer: Offer) -> None:
        """A pipeline did not reach its worker: that is hardly its fault, unless it always happens."""
        offer.ways += 1
        self.again(offer, "it did not reach its worker", counted=False)

    def again(self, offer: Offer, why: str, *, counted: bool = True) -> None:
        """Offer a pipeline again, from where the log says it is; but not for ever."""
        worker = offer.worker
        self._taken_from(offer)
        offer.tries += counted
        if offer.tries >= MOST_TRIES or offer.ways >= MOST_WAYS:
            self._forget(offer.key)
            times = max(offer.tries, offer.ways)
            said = f"it was given out {times} times and never came to an end; the last time, {why}"
            error = failure("dead_letter", said, tries=times)
            self.bury(Held(*offer.key, "", worker, times), why)
            self.service.post(offer.hot.id, [Broken(offer.key[1], offer.key[2], error)])
            return
        order = self.service.again(offer.hot, offer.next or offer.order)
        offer.next = None
        if order is None:
            self._forget(offer.key)
            return
        offer.order = order
        self._offer(offer)

    @contextlib.contextmanager
    def attended(self, execution_ids: Collection[str]) -> Iterator[None]:
        """Inside of this, a worker reports on executions, and takes what follows if it can."""
        self._attended.update(execution_ids)
        try:
            yield
        finally:
            self._attended.subtract(execution_ids)
            self._attended = +self._attended

    def left(self, worker: Worker, *, came: bool) -> None:
        """A worker goes, having come for work or with news: if there is more, somebody else is called.

        What was said of a pool waits, where it was said, for somebody who has room; who brings news has not come for that.
        """
        pools, self._unannounced = {*worker.pools, *self._unannounced}, set()
        for pool in pools:
            if came and pool in worker.pools:
                self._hinted.pop(pool, None)
            if self._ready.get(pool):
                self._call_somebody(pool)

    def take(self, worker: Worker, most: int) -> Iterator[Offer]:
        """Hand out what is ready for a worker, what is urgent first."""
        if not self.knows(worker):
            return
        for pool in worker.pools:
            ready = self._ready.get(pool)
            while ready and most > 0:
                offer = heapq.heappop(ready)[2]
                if not self._is_open(offer):
                    continue
                most -= 1
                self._assign(offer, worker, f"{self._me}-{next(self._numbers)}")
                yield offer

    def knows(self, worker: Worker) -> bool:
        """Whether it has not died while its question was being answered: nobody would ever miss what it got now."""
        return self.workers.get(worker.name) is worker

    def _is_open(self, offer: Offer) -> bool:
        """Whether it is still to be given out; one of an execution that is paused is ordered anew when it goes on."""
        if self._offers.get(offer.hot.id, {}).get(offer.key) is not offer or offer.worker is not None:
            return False
        if offer.hot.state.paused and offer.order.answer is None and offer.order.gather is None:
            self._forget(offer.key)
            return False
        return True

    def pools(self) -> list[str]:
        """The pools in which pipelines may wait."""
        return [pool for pool, ready in self._ready.items() if ready]

    def tidy(self) -> None:
        """Let go of what was withdrawn, where no worker comes who would notice."""
        still = {pool: [one for one in ready if self._is_open(one[2])] for pool, ready in self._ready.items()}
        self._ready = {pool: ready for pool, ready in still.items() if ready}
        for ready in self._ready.values():
            heapq.heapify(ready)

    def waiting(self, pools: Iterable[str]) -> int:
        """How many pipelines wait for workers of these pools, at most."""
        return sum(len(self._ready.get(pool, ())) for pool in pools)

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Wait until there may be something for a worker."""
        if worker.bell is not None and not worker.bell.done():
            worker.bell.set_result(None)  # one question at a time: an older one is answered
        worker.bell = asyncio.get_running_loop().create_future()
        await asyncio.wait([worker.bell], timeout=seconds)

    def assignment(self, offer: Offer) -> Assignment:
        """An offer as its worker gets it."""
        recorded = self.service.recorded(offer.hot.id, offer.order) if offer.order.begun else []
        return Assignment(offer.hot.id, offer.order, offer.fence, recorded, offer.tries >= SUSPECT)

    def brief(self, hot: Hot, file: str) -> Brief:
        """What its worker must know of the execution."""
        state = hot.state
        return Brief(state.playbook, file, state.workload, state.restrict, state.synthesized)

    def waits(self, execution_id: str) -> list[str]:
        """What an execution waits for here, in words: workers that are not there, or have their hands full."""
        found: Counter[str] = Counter()
        for offer in self._offers.get(execution_id, {}).values():
            if offer.worker is None:
                found[offer.pool] += 1
        told = []
        for pool, many in sorted(found.items()):
            there = any(pool in worker.pools for worker in self.workers.values())
            why = "all that are there are busy" if there else f"none is there; `noetl worker --pool {pool}` starts one"
            told.append(
                f"{many} pipeline{'s' if many > 1 else ''} wait{'' if many > 1 else 's'} for a worker of pool `{pool}`: {why}"
            )
        return told

    def held(self) -> Iterator[Offer]:
        """All that workers have."""
        for worker in self.workers.values():
            yield from worker.held.values()

    # --- the books ---------------------------------------------------------------------------------------------------

    def _offer(self, offer: Offer) -> None:
        entry = (-offer.priority, next(self._numbers), offer)
        heapq.heappush(self._ready.setdefault(offer.pool, []), entry)
        if offer.hot.id in self._attended:
            self._unannounced.add(offer.pool)
        else:
            self._call_somebody(offer.pool)

    def _call_somebody(self, pool: str) -> None:
        """Wake a worker that waits, or say where they listen that there is something. Who comes calls the next."""
        waiting = [one for one in self.workers.values() if pool in one.pools and one.free > 0 and one.waits]
        if waiting:
            max(waiting, key=lambda one: one.free).ring()
        elif self._hinted.get(pool, -SAY_AGAIN_S) + SAY_AGAIN_S <= self.now():
            self._hinted[pool] = self.now()
            self.hint(pool)

    def _assign(self, offer: Offer, worker: Worker, fence: str) -> None:
        offer.worker, offer.fence, offer.since = worker.name, fence, self.now()
        worker.held[offer.key] = offer
        self._knowing.setdefault(offer.hot.id, set()).add(worker.name)

    def _taken_from(self, offer: Offer) -> None:
        worker = self.workers.get(offer.worker or "")
        if worker is not None:
            worker.held.pop(offer.key, None)
        offer.worker, offer.fence = None, ""

    def _forget(self, key: Key) -> Offer | None:
        mine = self._offers.get(key[0], {})
        offer = mine.pop(key, None)
        if not mine:
            self._offers.pop(key[0], None)
        if offer is not None and offer.worker is not None:
            worker = self.workers.get(offer.worker)
            if worker is not None:
                worker.held.pop(key, None)
        return offer
