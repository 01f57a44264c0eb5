"""Counter: where workers come to. They report, are told what became of it, and go with more to do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from noetl.errors import NoetlError
from noetl.model.wire import Brief, Holding, Key, Message, Reply, Report
from noetl.ports import Line, WorkerRegistry
from noetl.server.board import Board, Offer, Worker
from noetl.server.office import Office

#: nobody is kept waiting for longer, so that proxies do not lose patience
MOST_WAIT_S = 25.0
#: seconds after which a pipeline that its worker does not know of is taken for one whose way there was lost
_LOST_AFTER_S = 2.0


class Counter:
    """Serves workers with the executions of one office."""

    def __init__(self, office: Office, board: Board, registry: WorkerRegistry) -> None:
        self._office, self._board, self._registry = office, board, registry
        self._draining = False

    def drain(self) -> None:
        """Hand out nothing more; those who wait go home."""
        self._draining = True
        for worker in self._board.workers.values():
            worker.ring()

    async def serve(self, message: Message) -> Reply:
        """Hear a worker out, and answer."""
        if not await self._registry.knows(message.worker):
            for report in message.reports:
                self._note_stale(report, message.worker)
            return Reply(lost=True)
        worker = self._board.hello(message)
        self._write_lines(message)
        refused, again = await self._hear(worker, message.reports)
        offers = self._hand_out(worker, message.room)
        if not offers and not worker.has_mail and not message.reports and message.wait > 0 and not self._draining:
            await self._board.wait(worker, min(message.wait, MOST_WAIT_S))
            offers = self._hand_out(worker, min(message.room, worker.room))  # it may be about to end
        if not self._board.knows(worker):
            return Reply(refused, again, lost=True)
        return self._reply(worker, message, offers, refused, again)

    def _reply(
        self, worker: Worker, message: Message, offers: list[Offer], refused: list[int], again: list[int]
    ) -> Reply:
        stops, worker.stops = worker.stops, []
        ended, worker.ended = worker.ended, []
        hot = self._office.service.hot
        spoken_of = {report.execution_id for report in message.reports}
        paused = [name for name in spoken_of if (found := hot.get(name)) is not None and found.state.paused]
        briefs = {offer.hot.id: self._brief(offer) for offer in offers}
        assignments = [self._board.assignment(offer) for offer in offers]
        return Reply(refused, again, assignments, briefs, stops, ended, paused)

    def _brief(self, offer: Offer) -> Brief:
        return self._board.brief(offer.hot, str(self._office.file(offer.hot.state)))

    def _hand_out(self, worker: Worker, room: int) -> list[Offer]:
        if self._draining or room <= 0:
            return []
        # What is left is shared among those who could take it: ranges of a loop become smaller towards its end.
        others = sum(1 for one in self._board.workers.values() if set(one.pools) & set(worker.pools))
        share = -(-self._board.waiting(worker.pools) // max(1, others))
        return list(self._board.take(worker, min(room, max(1, share))))

    # --- reports -----------------------------------------------------------------------------------------------------

    async def _hear(self, worker: Worker, reports: list[Report]) -> tuple[list[int], list[int]]:
        refused: list[int] = []
        again: list[int] = []

        async def hear(at: int, report: Report) -> None:
            offer = self._board.check(report, worker.name)
            if offer is None:
                (again if self._may_come_back(report) else refused).append(at)
                return
            try:
                await self._take_in(report, offer)
            except NoetlError:  # the store is away, or another server has gone on with it: it is told again
                again.append(at)

        await asyncio.gather(*(hear(at, report) for at, report in enumerate(reports)))
        for at in refused:
            self._note_stale(reports[at], worker.name)
        return refused, again

    async def _take_in(self, report: Report, offer: Offer) -> None:
        if report.facts:
            await self._office.service.record(report.execution_id, report.facts)
            if offer.hot.lost:
                raise NoetlError("the execution is no longer here")
            if any(fact.name == "task.done" for fact in report.facts):
                offer.tries = 0  # it has come on: who dies with it now does so for another reason
        if report.broken is not None:
            self._board.again(offer, report.broken)
        elif report.returned:
            self._board.again(offer, "it was given back", counted=False)
        elif report.last:
            self._board.release(offer)

    def _may_come_back(self, report: Report) -> bool:
        """Whether a report that is not known here may be of an execution that is elsewhere, or on its way."""
        if report.execution_id in self._office.service.hot:
            return False
        summary = self._office.log.summary(report.execution_id)
        return summary is not None and summary.status not in ("completed", "failed", "cancelled")

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
        if not await self._registry.renew(holding.worker, holding.about):
            self._board.died(holding.worker)
            return Reply(lost=True)
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
        stops: list[Key] = [
            key for key, fence in has - known if key[0] in self._office.service.hot
        ]  # of executions that are elsewhere, others know
        return Reply(stops=stops)
