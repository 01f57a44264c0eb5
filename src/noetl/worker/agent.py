"""The agent of a worker process: asks servers for work, has it run, and reports. What it holds is `dispatch.worker_queue`'s."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.dispatch import (
    AskAll,
    HeldAssignment,
    RunAlone,
    SayLast,
    Send,
    StopRun,
    WorkerMoves,
    WorkerQueue,
    may_begin,
)
from noetl.errors import AccessDenied, NoetlError, UnexpectedAnswer, describe_error
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.wire import (
    PROTOCOL,
    CredentialCheck,
    CredentialCheckResult,
    ExecutionBrief,
    Key,
    Lease,
    LogRecord,
    PipelineReport,
    ServerReply,
    WorkerMessage,
    restore_shared,
)
from noetl.ports import LogLine, PlaybookSource
from noetl.worker.link import LONGEST_PAUSE_S, PAUSE_S, Outbox, ServerLink
from noetl.worker.output_check import escape_surrogates
from noetl.worker.remote_executions import PlaybookCache, RemoteExecution, RemoteExecutions

if TYPE_CHECKING:
    from noetl.worker.pipeline_runners import PipelineRunners

#: seconds that a server may keep a question until there is something to do; and if there is no room now, but may be soon
_WAIT_S, _FULL_WAIT_S = 20.0, 1.0
#: seconds until a server that refuses this worker is asked again, while others admit it
_DENIED_S = 5.0
#: replies without work, each at once, after which a worker waits before it asks again
_MOST_IDLE = 3
#: seconds that a pipeline which has to run alone waits for those that run already
_ALONE_S = 10.0
#: seconds that servers are given at the end
_CLOSE_S = 2.0
_REJECTED = "no server takes its report: it is too large, nested too deeply, or holds something that is no JSON"
#: pipelines that are begun in one turn of the event loop
_AT_ONCE = 32


class WorkerAgent:
    """Stands between the servers of a worker process and its runners."""

    def __init__(
        self,
        links: Sequence[ServerLink],
        runners: PipelineRunners,
        net_of: Callable[[PlaybookSource, Sequence[dict[str, Any]]], Net],
        child_id: Callable[[], str],
        *,
        name: str,
        pools: Sequence[str],
        slots: int,
    ) -> None:
        self.links, self.runners = list(links), runners
        self._net_of, self.child_id = net_of, child_id
        self.name, self.pools, self.slots = name, list(pools), slots
        self.outboxes = {link: Outbox(link, partial(self._message, link), self.handle_reply) for link in links}
        self.queue = WorkerQueue(slots)
        self._pumping = False
        self.remotes, self.sources = RemoteExecutions(), PlaybookCache()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        #: the servers that refused this worker when they last answered; and what was reported of each
        self._denied: set[ServerLink] = set()
        self._troubles: dict[ServerLink, str] = {}
        #: set whenever a pipeline is put away; and while there is none
        self.freed, self.quiet = asyncio.Event(), asyncio.Event()
        self.quiet.set()
        #: answers a question of a server
        self.answer: Callable[[ServerLink, CredentialCheck], Coroutine[Any, Any, None]]
        #: called with the leases of pipelines that are given to this worker, if they are not the cluster's
        self.on_leases: Callable[[Sequence[Lease]], None] = lambda _leases: None
        #: called when a server says that this worker is taken for dead
        self.on_lost: Callable[[], None] = lambda: None
        #: hears what the person who started this worker should know
        self.warn: Callable[[str], None] = lambda _message: None

    @property
    def held(self) -> dict[Key, HeldAssignment]:
        """What this worker holds."""
        return self.queue.held

    @property
    def draining(self) -> bool:
        """Whether it takes nothing more."""
        return self.queue.draining

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _carry_out(self, moves: WorkerMoves) -> None:
        """Do what the queue asks for."""
        for move in moves:
            match move:
                case Send(held, report):
                    self.outboxes[held.link].add(report)
                case SayLast(held):
                    self.spawn(self._send_last(held, []))
                case StopRun(key):
                    self.runners.stop(key)
                case RunAlone(held):
                    self.spawn(self._run_alone(held))
                case AskAll():
                    for link in self.links:
                        self.spawn(self.ask(link))
        if self.queue.running < self.slots or len(self.held) < self.queue.most:
            self.freed.set()
        if not self.held:
            self.quiet.set()

    # --- asking for more ---------------------------------------------------------------------------------------------

    def _room_of(self, link: ServerLink) -> int:
        """How many pipelines of one server there may be, those of the others given."""
        return self.queue.room(link) if len(self.links) > 1 else self.queue.most

    def _message(
        self,
        link: ServerLink,
        reports: list[PipelineReport],
        lines: list[LogRecord],
        answers: list[CredentialCheckResult],
    ) -> WorkerMessage:
        room = self._room_of(link)
        return WorkerMessage(self.name, reports, lines, answers, self.pools, room, protocol=PROTOCOL)

    async def poll(self, link: ServerLink) -> None:
        """Ask a server for work, again and again. AccessDenied: no server admits this worker."""
        pause, idle = PAUSE_S, 0
        while not self.draining:
            began = self._now()
            try:
                room = self._room_of(link)
                wait = _WAIT_S if room else _FULL_WAIT_S
                message = WorkerMessage(self.name, pools=self.pools, room=room, wait=wait, protocol=PROTOCOL)
                reply = await link.exchange(message)
            except NoetlError as error:
                self._note_trouble(link, error)
                await asyncio.sleep(_DENIED_S if link in self._denied else pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            pause = PAUSE_S
            self._note_trouble(link, None)
            unknown = self.handle_reply(link, reply)
            idle = idle + 1 if not reply.assignments and self._now() - began < PAUSE_S else 0
            if unknown or idle > _MOST_IDLE:
                await asyncio.sleep(PAUSE_S)

    def _note_trouble(self, link: ServerLink, error: NoetlError | None) -> None:
        """Report once what a server answers instead of work; raise when every server has refused this worker."""
        if isinstance(error, AccessDenied):
            self._denied.add(link)
            if len(self._denied) == len(self.links):
                raise error
        elif error is None:
            self._denied.discard(link)
        # That a server does not answer at all is reported by the heartbeats.
        trouble = str(error) if isinstance(error, (AccessDenied, UnexpectedAnswer)) else ""
        if trouble and trouble != self._troubles.get(link):
            self.warn(trouble)
        if trouble or error is None:
            self._troubles[link] = trouble

    async def ask(self, link: ServerLink) -> None:
        """Ask a server once, because somebody said that there is something."""
        with contextlib.suppress(NoetlError):
            self.handle_reply(link, await link.exchange(self._message(link, [], [], [])))

    # --- what servers say --------------------------------------------------------------------------------------------

    def handle_reply(self, link: ServerLink, reply: ServerReply) -> bool:
        """Do what a server says; whether it does not know this worker."""
        for key, fence in reply.list_stops():
            self.drop(key, fence)
        self.remotes.hear((one.execution_id for one in reply.assignments), reply.paused)
        for assignment in reply.assignments:
            name = assignment.execution_id
            self.quiet.clear()
            held = HeldAssignment(link, assignment, reply.briefs.get(name), reply.shared.get(name, {}))
            held.ahead = assignment.now - self.runners.clock() if assignment.now else None
            self._carry_out(self.queue.assign(held))
        if leases := [one.lease for one in reply.assignments if one.lease is not None]:
            self.on_leases(leases)
        for execution_id in reply.ended:
            self._end(execution_id)
        for question in reply.questions:
            self.spawn(self.answer(link, question))
        if reply.lost:
            self.on_lost()
        self._pump()
        return reply.lost

    async def _run_alone(self, held: HeldAssignment) -> None:
        """Run a pipeline when everything else has ended or was given back; should it kill this worker, it takes nobody along."""
        until = self._now() + _ALONE_S
        while len(self.held) > 1 and self._now() < until:  # noqa: ASYNC110  rare, and short
            await asyncio.sleep(PAUSE_S)
        await self._wait_reported(_ALONE_S)
        if self.queue.start_alone(held, self._now()):
            self._begin(held)

    async def _wait_reported(self, seconds: float, *more: asyncio.Event) -> None:
        """Wait until servers know what they were told, and for more, for so long."""
        events = [*(box.idle for box in self.outboxes.values()), *more]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(event.wait() for event in events)), seconds)

    def _pump(self) -> None:
        """Begin what there are slots for; of what ends at once no more than some, so that reports go out meanwhile."""
        if self._pumping:  # what ends at once makes room, and would begin the next inside of itself
            return
        self._pumping, most = True, _AT_ONCE
        try:
            while most > 0 and (held := self.queue.next(self._now())) is not None:
                most -= 1
                self._begin(held)
        finally:
            self._pumping = False
        if self.queue.waiting and self.queue.running < self.slots:
            asyncio.get_running_loop().call_soon(self._pump)

    def _begin(self, held: HeldAssignment) -> None:
        remote, brief = self.remotes.get(held.assignment.execution_id), held.brief
        if remote is not None and remote.covers(brief):
            self._run(held, remote)
        elif brief is not None:
            self.spawn(self._prepare(held, brief))
        else:  # the server is mistaken in what is known here, and will know better
            self._give_back(held)

    async def _prepare(self, held: HeldAssignment, brief: ExecutionBrief) -> None:
        try:
            net = self._net_of(await self.sources.fetch(held.link, brief.playbook), brief.synthesized)
            if self.held.get(held.key) is held:
                self._run(held, self.remotes.make(held.key[0], net, brief))
        except Exception as error:  # noqa: BLE001  whatever it is, the server must hear of it
            self._break_off(held, error)

    def _run(self, held: HeldAssignment, remote: RemoteExecution) -> None:
        order = held.assignment.order
        if not may_begin(order, paused=remote.state.paused):
            self._give_back(held)
            self._pump()
            return
        if held.ahead is not None:
            remote.set_time(held.ahead)
        try:
            self.runners.run(remote, restore_shared(order, held.shared, remote.brief.workload))
        except Exception as error:  # noqa: BLE001  as above: else the server would wait for ever, and the slot stay taken
            self._break_off(held, error)

    def _end(self, execution_id: str) -> None:
        if any(key[0] == execution_id and (one.following or one.open) for key, one in self.held.items()):
            return  # another server goes on with it, and has given more of it meanwhile
        if self.remotes.forget(execution_id) is not None:
            for key in list(self.runners.tasks.get(execution_id, ())):
                self.runners.stop(key)
            self.runners.forget(execution_id)

    # --- letting go --------------------------------------------------------------------------------------------------

    def drop(self, key: Key, fence: str | None = None) -> None:
        """Let go of a pipeline that is no longer this worker's. With a fence, what was given under a later one is kept."""
        self._drop(key, fence)
        self._pump()

    def _drop(self, key: Key, fence: str | None = None) -> None:
        runs = self.runners.is_running(key)
        self._carry_out(self.queue.drop(key, fence, runs=runs, now=self._now()))

    def expire(self, silence_s: float, lease_s: float) -> None:
        """Let go of what others have by now, after no server has heard of this worker for so long."""
        for key in self.queue.expired(silence_s, lease_s):
            self._drop(key)
        self._pump()

    def lose(self, name: str) -> None:
        """Everything is others' by now: end it, and begin again under another name."""
        for key in list(self.held):
            self._drop(key)
        for execution_id in list(self.remotes):
            self._end(execution_id)
        self.name = name
        self._pump()

    async def drain(self, grace_s: float) -> None:
        """Take nothing more; give back what has not begun, finish what has, and what takes too long goes back too."""
        self._carry_out(self.queue.drain(self._now()))
        with contextlib.suppress(TimeoutError):  # servers that had a question of it waiting would give it more
            await asyncio.wait_for(asyncio.gather(*map(self.ask, self.links)), _CLOSE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.quiet.wait(), grace_s)
        for held in list(self.held.values()):
            if self.held.get(held.key) is held:  # one whose last report is on its way is left as it is
                self.queue.on_last_report(held)  # else its end here would be told as that of the pipeline
                self.runners.stop(held.key)
                await self.runners.wait_stopped(held.key)
                self._give_back(held)
        await self._wait_reported(max(grace_s, _CLOSE_S), self.quiet)

    def _give_back(self, held: HeldAssignment) -> None:
        self._carry_out(self.queue.give_back(held, self._now()))

    # --- the receiver of reports -------------------------------------------------------------------------------------

    async def report(self, execution_id: str, facts: list[Fact], *, last: bool) -> None:
        """Tell facts; returns when they are durable. A pipeline whose report is refused is stopped here, and never returns."""
        held = self.held.get((execution_id, facts[0].step_run_id, facts[0].iteration))
        if held is None:
            raise asyncio.CancelledError
        pause = PAUSE_S
        while (fate := await self.outboxes[held.link].add(held.report(facts=facts, last=last))) == "again":
            self._turn_to_another(held)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        if fate == "rejected":
            raise NoetlError(_REJECTED)
        if fate == "refused":
            self.drop(held.key, held.fence)
            await asyncio.sleep(0)  # the stop arrives here
            raise asyncio.CancelledError
        if last:
            self.queue.on_last_report(held)

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """Tell the last facts of a pipeline, without anybody waiting."""
        held = self.held.get((execution_id, facts[0].step_run_id, facts[0].iteration))
        if held is not None:
            self.queue.on_posted(held)
            told = self.outboxes[held.link].add(held.report(facts=facts, last=True))
            told.add_done_callback(lambda it: self._on_posted(held, facts, it))

    def _on_posted(self, held: HeldAssignment, facts: list[Fact], told: asyncio.Future[str]) -> None:
        if told.cancelled():
            return
        if told.result() == "again":
            self._turn_to_another(held)
            self.spawn(self._send_last(held, facts, pause=PAUSE_S))
        else:
            self._end_report(held, told.result())

    def on_done(self, key: Key) -> None:
        """A pipeline is not under way here any more."""
        self._carry_out(self.queue.on_runner_end(key, self._now()))
        self._pump()

    async def _send_last(self, held: HeldAssignment, facts: list[Fact], pause: float = 0.0) -> None:
        """Send a last report until a server takes or refuses it, or the pipeline is no longer held by this fence."""
        fate = "again"
        while fate == "again":
            await asyncio.sleep(pause)
            if self.held.get(held.key) is not held:
                return
            fate = await self.outboxes[held.link].add(held.report(facts=facts, last=True))
            if fate == "again":
                self._turn_to_another(held)
                pause = min(max(PAUSE_S, 2 * pause), LONGEST_PAUSE_S)
        self._end_report(held, fate)

    def _end_report(self, held: HeldAssignment, fate: str) -> None:
        """A last report has arrived; or it never will."""
        if fate == "rejected":
            self._break_off(held, NoetlError(_REJECTED))
            return
        given_again = held.following is not None
        moves = self.queue.on_end_reported(held, self._now())
        if moves or not self.held:
            self._carry_out(moves)
        self.freed.set()
        if given_again:
            self._pump()

    def _turn_to_another(self, held: HeldAssignment) -> None:
        """A server is gone, or has not got the execution: the next one may."""
        at = self.links.index(held.link)
        held.link = self.links[(at + 1) % len(self.links)]

    def read_recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of a pipeline: it came with it."""
        held = self.held.get((execution_id, order.step_run_id, order.iteration))
        return held.assignment.recorded if held is not None else []

    def on_broken(self, key: Key, error: BaseException) -> None:
        """A pipeline broke in a way that no fact tells: it is for the server to say what follows."""
        held = self.held.get(key)
        if held is not None:
            self._break_off(held, error)

    def _break_off(self, held: HeldAssignment, error: BaseException) -> None:
        self._carry_out(self.queue.break_off(held, escape_surrogates(describe_error(error)), self._now()))
        self._pump()

    # --- the rest ----------------------------------------------------------------------------------------------------

    def write(self, execution_id: str, line: LogLine) -> None:
        """Tell a line that a tool wrote."""
        link = next((one.link for key, one in self.held.items() if key[0] == execution_id), self.links[0])
        self.outboxes[link].write(LogRecord(execution_id, msgspec.to_builtins(line)))

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do something beside, and hold on to it until it is done; if it fails, say so."""
        if self._closed:
            coroutine.close()
            return
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_spawned_end)

    def _on_spawned_end(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.warn(f"a mistake of this worker: {describe_error(error)}")

    async def close(self) -> None:
        """End all that was spawned, and spawn nothing more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
