"""The server's side of the worker protocol: takes reports, answers what became of them, and assigns work."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from noetl.dispatch import Give, Moves, StopAt, Worker
from noetl.errors import NoetlError
from noetl.model.wire import (
    LONGEST_LEASE_S,
    ExecutionBrief,
    Heartbeat,
    Key,
    PipelineReport,
    ServerReply,
    WorkerMessage,
    strip_shared,
)
from noetl.ports import LogLine, WorkerRegistry
from noetl.server.cluster.holdings import Holdings
from noetl.server.cluster.remote_workers import RemoteWorkers
from noetl.server.cluster.workers import WorkerRoster
from noetl.server.core import ControlPlane, LiveExecution

#: nobody is kept waiting for longer, so that proxies do not lose patience
MOST_WAIT_S = 25.0
#: seconds after which a pipeline that its worker does not know of is taken for one whose way there was lost
_LOST_AFTER_S = 2.0


async def _never() -> bool:
    return False


def _ignore(_action: str, _execution_id: str) -> None:
    """Nobody wants to know."""


class WorkerCall(msgspec.Struct, frozen=True):
    """How a message of a worker came in."""

    #: the name of the token that it was sent with
    token: str = ""
    #: whether the worker has hung up while it was kept waiting, or is no longer admitted
    gone: Callable[[], Awaitable[bool]] = _never
    #: hears what was refused, such as `worker.report`, and of which execution
    refuse: Callable[[str, str], None] = _ignore


_UNNAMED = WorkerCall()


class WorkerApi:
    """Serves workers with the executions of one control plane."""

    def __init__(self, control_plane: ControlPlane, remote: RemoteWorkers, registry: WorkerRegistry) -> None:
        self._control_plane, self._remote, self._registry = control_plane, remote, registry
        self._dispatcher = control_plane.dispatcher
        self._holdings = Holdings(registry)
        self.roster = WorkerRoster()

    def drain(self) -> None:
        """Hand out nothing more; workers that wait are answered."""
        self._dispatcher.closed = True
        for worker in self._dispatcher.workers:
            self._remote.wake(worker)

    def _carry_out(self, moves: Moves) -> None:
        self._control_plane.pipelines.carry_out(moves)

    async def serve(self, message: WorkerMessage, call: WorkerCall = _UNNAMED) -> ServerReply:
        """Hear a worker out, and answer."""
        if not await self._registry.knows(message.worker, call.token):
            if await self._registry.is_foreign(message.worker, call.token):
                call.refuse("worker.message", message.worker)
            for report in message.reports:
                self._note_stale(report, message.worker, call)
            return ServerReply(lost=True)
        worker = self._dispatcher.update_worker(message.worker, message.pools, message.room, message.protocol)
        try:
            return await self._serve(worker, message, call)
        finally:  # however it ends: another worker may be needed for what is left
            came_for_work = not message.reports
            self._carry_out(self._dispatcher.leave(worker, came_for_work=came_for_work, now=self._remote.now()))

    async def _serve(self, worker: Worker, message: WorkerMessage, call: WorkerCall) -> ServerReply:
        if message.lines:
            await self._write_lines(worker, message, call)
        for answer in message.answers:
            self._remote.questions.on_answer(worker.name, answer)
        refused: list[int] = []
        again: list[int] = []
        if message.reports:
            with self._suppress_hints({report.execution_id for report in message.reports} if message.room else ()):
                refused, again = await self._hear(worker, message.reports, call)
                given = self._take(worker)
        else:
            given = self._take(worker)
        questions = self._remote.questions.take(worker)
        waits = message.wait > 0 and not message.reports and not self._dispatcher.closed
        if waits and not given and not questions and not self._remote.box(worker.name):
            await self._remote.wait(worker, min(message.wait, MOST_WAIT_S))
            if not self._dispatcher.knows(worker) or await call.gone():
                return ServerReply(lost=True)  # given up while it waited, or nobody is there to hear the answer
            given, questions = self._take(worker), self._remote.questions.take(worker)
        if not self._dispatcher.knows(worker):
            return ServerReply(refused, again, lost=True)
        reply = self._reply(worker, message, given, refused, again)
        return msgspec.structs.replace(reply, questions=questions) if questions else reply

    @contextlib.contextmanager
    def _suppress_hints(self, execution_ids: Iterable[str]) -> Iterator[None]:
        """Inside of this, a worker reports on executions, and takes what follows if it can: nobody else is called."""
        attended, ids = self._dispatcher.attended, list(execution_ids)
        attended.update(ids)
        try:
            yield
        finally:
            for name in ids:
                attended[name] -= 1
                if not attended[name]:
                    del attended[name]

    def _reply(
        self, worker: Worker, message: WorkerMessage, given: list[Give], refused: list[int], again: list[int]
    ) -> ServerReply:
        box = self._remote.box(worker.name)
        stops, ended = box.empty()
        live = self._control_plane.service.live
        executions: dict[str, LiveExecution] = {one.execution.id: one.execution for one in given}
        spoken_of = {report.execution_id for report in message.reports} | executions.keys()
        paused = [name for name in spoken_of if (found := live.get(name)) is not None and found.state.paused]
        new = {name: one for name, one in executions.items() if name not in box.knows or one.state.synthesized}
        briefs = {name: self._brief(one) for name, one in new.items()}
        workloads = {name: one.state.workload for name, one in executions.items()}
        assignments, shared = strip_shared([self._remote.assignment(one) for one in given], workloads)
        keys, fences = [key for key, _ in stops], [fence for _, fence in stops]
        return ServerReply(refused, again, assignments, briefs, shared, keys, ended, paused, stop_fences=fences)

    def _brief(self, live: LiveExecution) -> ExecutionBrief:
        return self._remote.brief(live, str(self._control_plane.file(live.state)))

    def _take(self, worker: Worker) -> list[Give]:
        given = self._dispatcher.take(worker, now=self._remote.now())
        self._holdings.add(worker.name, given)
        return given

    # --- reports -----------------------------------------------------------------------------------------------------

    async def _hear(
        self, worker: Worker, reports: list[PipelineReport], call: WorkerCall
    ) -> tuple[list[int], list[int]]:
        """Take reports in; which were refused, and which are to be made again."""
        refused: list[int] = []
        #: those of an execution are taken in together: one decision, and one thing to wait for
        taken: dict[str, list[tuple[int, PipelineReport, LiveExecution]]] = {}
        elsewhere: dict[int, str] = {}
        for at, report in enumerate(reports):
            live = self._control_plane.service.live.get(report.execution_id)
            if live is not None and self._dispatcher.holds(worker.name, report) is not None:
                taken.setdefault(report.execution_id, []).append((at, report, live))
            elif live is not None:
                refused.append(at)
            else:
                elsewhere[at] = report.execution_id
        if len(taken) == 1:
            again = await self._take_in(worker, *taken.popitem())
        else:
            found = await asyncio.gather(*(self._take_in(worker, *one) for one in taken.items()))
            again = [at for one in found for at in one]
        # An execution that is not here may be elsewhere, or on its way.
        going = await self._find_unfinished(set(elsewhere.values()))
        for at, execution_id in elsewhere.items():
            (again if execution_id in going else refused).append(at)
        for at in refused:
            self._note_stale(reports[at], worker.name, call)
        return refused, again

    async def _take_in(
        self, worker: Worker, execution_id: str, mine: list[tuple[int, PipelineReport, LiveExecution]]
    ) -> list[int]:
        """Take in what is said of one execution; which of it is to be said again."""
        try:
            await self._record(execution_id, [report for _, report, _ in mine], mine[0][2])
        except NoetlError:  # the store is away, or another server has gone on with it
            return [at for at, _, _ in mine]
        here = execution_id in self._control_plane.service.live  # else it has ended with this
        if here and self._dispatcher.knows(worker):
            self._remote.box(worker.name).knows.add(execution_id)
        for _, report, _ in mine:
            self._settle(worker, report)
        return []

    async def _record(self, execution_id: str, reports: list[PipelineReport], live: LiveExecution) -> None:
        facts = [fact for report in reports for fact in report.facts]
        if facts:
            await self._control_plane.service.record(execution_id, facts)
            if live.lost:
                raise NoetlError("the execution is no longer here")

    def _settle(self, worker: Worker, report: PipelineReport) -> None:
        """Let a report that is recorded take effect on the pipeline."""
        self._holdings.keep(worker, report.key)
        if report.returned and self._dispatcher.knows(worker):
            self._remote.box(worker.name).knows.discard(report.execution_id)
        self._carry_out(self._dispatcher.report(worker.name, report, now=self._remote.now()))

    async def _find_unfinished(self, execution_ids: set[str]) -> set[str]:
        """Those that are not over; of all at once, for a worker takes a server that does not answer in time for gone."""
        return await asyncio.to_thread(self._control_plane.log.under_way, execution_ids) if execution_ids else set()

    def _note_stale(self, report: PipelineReport, worker: str, call: WorkerCall) -> None:
        """What was refused is recorded, beside the log: it changed nothing. Of what the worker never had, only that it tried."""
        if not self._holdings.was_given(report):
            call.refuse("worker.report", report.execution_id)
            return
        names = ", ".join(fact.name for fact in report.facts) or "an end"
        text = f"refused: {names} of {report.step_run_id} from worker {worker}, whose fence {report.fence} is stale\n"
        now = datetime.fromtimestamp(self._control_plane.effects.clock(), UTC).isoformat(timespec="milliseconds")
        line = LogLine(now, report.step_run_id, "", report.iteration, "stderr", text)
        self._control_plane.log.write_lines(report.execution_id, [line])

    async def _write_lines(self, worker: Worker, message: WorkerMessage, call: WorkerCall) -> None:
        """Keep what tools wrote, of the pipelines that the worker runs."""
        lines = [(one.execution_id, msgspec.convert(one.line, LogLine)) for one in message.lines]
        taken, foreign = await self._holdings.select_lines(worker, lines)
        for execution_id, some in taken.items():
            self._control_plane.log.write_lines(execution_id, some)
        for execution_id in foreign:
            call.refuse("worker.line", execution_id)

    # --- signs of life -----------------------------------------------------------------------------------------------

    async def alive(self, heartbeat: Heartbeat, call: WorkerCall = _UNNAMED) -> ServerReply:
        """A worker lives: what it has and what it should have are brought together."""
        if heartbeat.leaving:
            if await self._registry.is_foreign(heartbeat.worker, call.token):
                call.refuse("worker.leave", heartbeat.worker)
                return ServerReply()
            await self._registry.leave(heartbeat.worker, call.token)
            self.roster.report_left(heartbeat.worker)
            self.give_up(heartbeat.worker)
            return ServerReply()
        has = {(one.key, one.fence) for one in heartbeat.held}
        # Before the database is asked: it may be away, and the worker is heard all the same.
        self._dispatcher.hear(heartbeat.worker, has, now=self._remote.now())
        longest_s = min(heartbeat.longest_lease_s, LONGEST_LEASE_S)
        if not await self._registry.renew(heartbeat.worker, heartbeat.about, longest_s, call.token):
            if await self._registry.is_foreign(heartbeat.worker, call.token):
                call.refuse("worker.heartbeat", heartbeat.worker)
            else:
                self.give_up(heartbeat.worker)
            return ServerReply(lost=True)
        self.roster.report_joined(heartbeat.worker, heartbeat.about)
        worker = self._dispatcher.workers.get(heartbeat.worker)
        if worker is None:
            return ServerReply()
        known = {(key, entry.fence) for key, entry in worker.held.items()}
        worker.slots = int(heartbeat.about.get("slots", worker.slots))
        now = self._remote.now()
        before = now - max(_LOST_AFTER_S, heartbeat.every)
        self._carry_out(self._dispatcher.compare(worker, has, before=before, now=now))
        over = await self._over(has - known)
        return ServerReply(stops=[key for key, _ in over], stop_fences=[fence for _, fence in over])

    def expire_leases(self) -> None:
        """Give pipelines out again whose own leases have run out."""
        moves = self._dispatcher.expire_leases(now=self._remote.now())
        if moves:
            self._carry_out(moves)
            for name, many in Counter(one.worker for one in moves if isinstance(one, StopAt)).items():
                self.roster.report_expired(name, many)

    def note_silence(self, name: str) -> None:
        """A worker is silent for longer than its lease, and keeps what has a longer one of its own."""
        moves = self._dispatcher.note_silence(name, now=self._remote.now())
        self._carry_out(moves)
        if lost := sum(isinstance(one, StopAt) for one in moves):
            self.roster.report_silent(name, lost)

    def give_up(self, name: str) -> None:
        """A worker counts as dead: what it had is handed out again."""
        worker = self._dispatcher.workers.get(name)
        had = len(worker.held) if worker is not None else 0
        self._carry_out(self._dispatcher.lose_worker(name, now=self._remote.now()))
        self._remote.remove(name)
        self.roster.report_lost(name, had)

    async def _over(self, unknown: set[tuple[Key, str]]) -> list[tuple[Key, str]]:
        """What nobody wants any more of that which a worker has and is not known here; of executions that are elsewhere, others know."""
        elsewhere = {key[0] for key, _ in unknown} - self._control_plane.service.live.keys()
        going = await self._find_unfinished(elsewhere)
        return [
            (key, fence)
            for key, fence in unknown
            if (key[0] not in going if key[0] in elsewhere else self._dispatcher.is_own_fence(fence))
        ]
