"""Counter: where workers come to. They report, are told what became of it, and go with more to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from noetl.cluster_ports import WorkerRegistry
from noetl.errors import NoetlError
from noetl.model.wire import Brief, Holding, Key, Message, Reply, Report, lighten
from noetl.ports import Line
from noetl.server.board import Board
from noetl.server.offers import Offer, Worker
from noetl.server.office import Office
from noetl.server.roll import Roll
from noetl.server.service import Hot

#: nobody is kept waiting for longer, so that proxies do not lose patience
MOST_WAIT_S = 25.0
#: seconds after which a pipeline that its worker does not know of is taken for one whose way there was lost
_LOST_AFTER_S = 2.0


async def _never() -> bool:
    return False


class Counter:
    """Serves workers with the executions of one office."""

    def __init__(self, office: Office, board: Board, registry: WorkerRegistry) -> None:
        self._office, self._board, self._registry = office, board, registry
        self.roll = Roll()
        self._draining = False

    def drain(self) -> None:
        """Hand out nothing more; those who wait go home."""
        self._draining = True
        for worker in self._board.workers.values():
            worker.ring()

    async def serve(self, message: Message, gone: Callable[[], Awaitable[bool]] = _never) -> Reply:
        """Hear a worker out, and answer; `gone` says whether it has hung up while it was kept waiting."""
        if not await self._registry.knows(message.worker):
            for report in message.reports:
                self._note_stale(report, message.worker)
            return Reply(lost=True)
        worker = self._board.hello(message)
        try:
            return await self._served(worker, message, gone)
        finally:  # however it ends: somebody else may be needed for what is left
            self._board.left(worker, came=not message.reports)

    async def _served(self, worker: Worker, message: Message, gone: Callable[[], Awaitable[bool]]) -> Reply:
        self._write_lines(message)
        for answer in message.answers:
            self._board.questions.answered(answer)
        refused: list[int] = []
        again: list[int] = []
        if message.reports:
            with self._board.attended({report.execution_id for report in message.reports} if message.room else ()):
                refused, again = await self._hear(worker, message.reports)
                offers = self._hand_out(worker)
        else:
            offers = self._hand_out(worker)
        questions = self._board.questions.take()
        waits = message.wait > 0 and not message.reports and not self._draining
        if waits and not offers and not questions and not worker.has_mail:
            await self._board.wait(worker, min(message.wait, MOST_WAIT_S))
            if not self._board.knows(worker) or await gone():
                return Reply(lost=True)  # given up while it waited, or nobody is there to hear the answer
            offers, questions = self._hand_out(worker), self._board.questions.take()
        if not self._board.knows(worker):
            return Reply(refused, again, lost=True)
        reply = self._reply(worker, message, offers, refused, again)
        return msgspec.structs.replace(reply, questions=questions) if questions else reply

    def _reply(
        self, worker: Worker, message: Message, offers: list[Offer], refused: list[int], again: list[int]
    ) -> Reply:
        stops, worker.stops = worker.stops, []
        ended, worker.ended = worker.ended, []
        hot = self._office.service.hot
        spoken_of = {report.execution_id for report in message.reports} | {offer.hot.id for offer in offers}
        paused = [name for name in spoken_of if (found := hot.get(name)) is not None and found.state.paused]
        new = {
            offer.hot.id: offer for offer in offers if offer.hot.id not in worker.knows or offer.hot.state.synthesized
        }
        briefs = {name: self._brief(offer) for name, offer in new.items()}
        workloads = {offer.hot.id: offer.hot.state.workload for offer in offers}
        assignments, shared = lighten([self._board.assignment(offer) for offer in offers], workloads)
        return Reply(refused, again, assignments, briefs, shared, stops, ended, paused)

    def _brief(self, offer: Offer) -> Brief:
        return self._board.brief(offer.hot, str(self._office.file(offer.hot.state)))

    def _hand_out(self, worker: Worker) -> list[Offer]:
        if self._draining or worker.free <= 0 or not self._board.knows(worker):
            return []
        # What is left is shared among those who could take it: ranges of a loop become smaller towards its end.
        others = sum(1 for one in self._board.workers.values() if set(one.pools) & set(worker.pools))
        share = -(-self._board.waiting(worker.pools) // max(1, others))
        return list(self._board.take(worker, min(worker.free, max(1, share))))

    # --- reports -----------------------------------------------------------------------------------------------------

    async def _hear(self, worker: Worker, reports: list[Report]) -> tuple[list[int], list[int]]:
        """Take reports in; which were refused, and which are to be made again."""
        refused: list[int] = []
        #: those of an execution are taken in together: one decision, and one thing to wait for
        taken: dict[str, list[tuple[int, Report, Offer]]] = {}
        elsewhere: dict[int, str] = {}
        for at, report in enumerate(reports):
            offer = self._board.check(report, worker.name)
            if offer is not None:
                taken.setdefault(report.execution_id, []).append((at, report, offer))
            elif report.execution_id in self._office.service.hot:
                refused.append(at)
            else:
                elsewhere[at] = report.execution_id
        if len(taken) == 1:
            again = await self._take_in(worker, *taken.popitem())
        else:
            found = await asyncio.gather(*(self._take_in(worker, *one) for one in taken.items()))
            again = [at for one in found for at in one]
        # An execution that is not here may be elsewhere, or on its way.
        going = await self._going(set(elsewhere.values()))
        for at, execution_id in elsewhere.items():
            (again if execution_id in going else refused).append(at)
        for at in refused:
            self._note_stale(reports[at], worker.name)
        return refused, again

    async def _take_in(self, worker: Worker, execution_id: str, mine: list[tuple[int, Report, Offer]]) -> list[int]:
        """Take in what is said of one execution; which of it is to be said again."""
        try:
            await self._record(execution_id, [report for _, report, _ in mine], mine[0][2].hot)
        except NoetlError:  # the store is away, or another server has gone on with it
            return [at for at, _, _ in mine]
        if execution_id in self._office.service.hot:  # else it has ended with this
            worker.knows.add(execution_id)
        for _, report, _ in mine:
            self._settle(worker, report)
        return []

    async def _record(self, execution_id: str, reports: list[Report], hot: Hot) -> None:
        facts = [fact for report in reports for fact in report.facts]
        if facts:
            await self._office.service.record(execution_id, facts)
            if hot.lost:
                raise NoetlError("the execution is no longer here")

    def _settle(self, worker: Worker, report: Report) -> None:
        """What a report means to whoever is to run the pipeline."""
        offer = self._board.check(report, worker.name)
        if offer is None:
            # While it was written, its double was settled, or the worker given up: others may have it by now.
            self._board.overtaken(report.key)
            return
        if any(fact.name == "task.done" for fact in report.facts):
            offer.tries = 0  # it has come on: who dies with it now does so for another reason
        if report.broken is not None:
            self._board.again(offer, report.broken)
        elif report.returned:
            worker.knows.discard(report.execution_id)
            self._board.again(offer, "it was given back", counted=False)
        elif report.last:
            self._board.release(offer)

    async def _going(self, execution_ids: set[str]) -> set[str]:
        """Those that are not over; of all at once, for a worker takes a server that does not answer in time for gone."""
        return await asyncio.to_thread(self._office.log.under_way, execution_ids) if execution_ids else set()

    def _note_stale(self, report: Report, worker: str) -> None:
        """What was refused is recorded, beside the log: it changed nothing."""
        names = ", ".join(fact.name for fact in report.facts) or "an end"
        text = f"refused: {names} of {report.step_run_id} from worker {worker}, whose fence {report.fence} is stale\n"
        now = datetime.fromtimestamp(self._office.nature.clock(), UTC).isoformat(timespec="milliseconds")
        line = Line(now, report.step_run_id, "", report.iteration, "stderr", text)
        self._office.log.write_lines(report.execution_id, [line])

    def _write_lines(self, message: Message) -> None:
        by: dict[str, list[Line]] = {}
        for one in message.lines:
            by.setdefault(one.execution_id, []).append(msgspec.convert(one.line, Line))
        for execution_id, lines in by.items():
            self._office.log.write_lines(execution_id, lines)

    # --- signs of life -----------------------------------------------------------------------------------------------

    async def alive(self, holding: Holding) -> Reply:
        """A worker lives: what it has and what it should have are brought together."""
        if holding.leaving:
            await self._registry.leave(holding.worker)
            self.roll.left(holding.worker)
            self.give_up(holding.worker)
            return Reply()
        if not await self._registry.renew(holding.worker, holding.about):
            self.give_up(holding.worker)
            return Reply(lost=True)
        self.roll.came(holding.worker, holding.about)
        worker = self._board.workers.get(holding.worker)
        if worker is None:
            return Reply()
        has = {(one.key, one.fence) for one in holding.held}
        known = {(key, offer.fence) for key, offer in worker.held.items()}
        worker.slots = int(holding.about.get("slots", worker.slots))
        early = self._board.now() - max(_LOST_AFTER_S, holding.every)
        for key, offer in list(worker.held.items()):
            if (key, offer.fence) not in has and offer.since < early:
                self._board.astray(offer)
        return Reply(stops=await self._over(has - known))

    def give_up(self, name: str) -> None:
        """A worker lives no longer: what it had is handed out again."""
        worker = self._board.workers.get(name)
        had = len(worker.held) if worker is not None else 0
        self._board.died(name)
        self.roll.given_up(name, had)

    async def _over(self, unknown: set[tuple[Key, str]]) -> list[Key]:
        """What nobody wants any more of that which a worker has and is not known here; of executions that are elsewhere, others know."""
        elsewhere = {key[0] for key, _ in unknown} - self._office.service.hot.keys()
        going = await self._going(elsewhere)
        return [
            key for key, fence in unknown if (key[0] not in going if key[0] in elsewhere else self._board.gave(fence))
        ]
