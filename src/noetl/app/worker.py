"""The composition of a worker process. It has no port and never reads the log: servers send it what it needs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from noetl.client import TokenSource
from noetl.config import Secret, Settings, mask_login
from noetl.errors import NoetlError
from noetl.model.net import Net
from noetl.model.wire import CredentialCheck, CredentialCheckResult, Heartbeat, Lease, ServerReply
from noetl.pipeline import Moment
from noetl.ports import Call, LogLine, PlaybookSource
from noetl.results import open_payloads
from noetl.secrets import Keychains, open_store, read_credential
from noetl.server.core import Catalog, Effects
from noetl.tools import ToolKinds
from noetl.worker import (
    Heartbeats,
    LocalWorld,
    PipelineRunners,
    RunningExecution,
    ServerLink,
    WorkerAgent,
    sweep_drafts,
)

if TYPE_CHECKING:
    from noetl.ports import Bus


#: seconds between two questions while NATS is away
_ASK_S = 2.0


class WorkerNode:
    """A worker process: runners whose reports go to servers."""

    def __init__(  # noqa: PLR0913  a worker is made of as many parts
        self,
        settings: Settings,
        urls: Sequence[str],
        *,
        token: str | None = None,
        name: str | None = None,
        pools: Sequence[str] = ("default",),
        slots: int = 8,
        bus: Bus | None = None,
        polls: bool = True,
    ) -> None:
        self._settings, self._effects, self._kinds = settings, Effects(), ToolKinds()
        self._urls, self._name = list(urls), name or socket.gethostname()
        self._tokens = TokenSource(Secret(token) if token else settings.token, settings.home)
        clock, new_id = self._effects.clock, self._effects.new_id
        credentials = open_store(settings, clock)
        self._results = open_payloads(settings, lambda name: read_credential(credentials, name), clock)
        self._keychains = Keychains(settings, clock=clock, new_id=new_id)
        self._catalog = Catalog(self._kinds)
        steady = self._effects.steady_clock()
        self.runners = PipelineRunners(self._kinds, self._world, clock=steady, moment=self._moment)
        links = [ServerLink(url, self._tokens) for url in urls]
        self.agent = WorkerAgent(
            links, self.runners, self._net, self._child_id, name=self._new_name(), pools=pools, slots=slots
        )  # fmt: skip
        self.runners.receiver = self.agent
        self.agent.on_lost = self._check_registration
        self.agent.on_leases = self._on_leases
        self.agent.answer = self._answer
        self.agent.warn = lambda message: self.print_line(f"warning: {message}")
        self._bus, self._polls = bus, polls
        #: hears what the person who started it should know
        self.print_line: Callable[[str], None] = lambda _line: None
        self._bus_failed, self._refusal, self._leaving = False, "", False
        self._heartbeats: Heartbeats | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        #: closes what was opened, the last first
        self._opened = contextlib.AsyncExitStack()

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:  # if anything fails here, what was opened before is closed
            await self._open(stack)
            self._opened = stack.pop_all()
        return self

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        for link in self.agent.links:
            stack.callback(link.close)
        stack.callback(self._results.close)
        stack.push_async_callback(self._keychains.close)
        sweep_drafts(self._results.drafts)
        if self._bus is not None:  # before a server hears of this worker: a bus that refuses it ends it
            stack.push_async_callback(self._bus.close)
            await self._bus.open()
        stack.push_async_callback(self._stop_heartbeats)
        self._heartbeats = self._start_heartbeats()
        stack.push_async_callback(self.runners.close)
        stack.push_async_callback(self.agent.close)
        stack.push_async_callback(self._cancel_tasks)
        for link, outbox in self.agent.outboxes.items():
            self._tasks.append(asyncio.create_task(outbox.run()))
            if self._polls:
                self._tasks.append(asyncio.create_task(self.agent.poll(link)))
        if self._bus is not None:
            self._bus.listen(self.agent.name, self._on_notice)
            self._tasks.append(asyncio.create_task(self._follow_hints(self._bus)))

    def _start_heartbeats(self) -> Heartbeats:
        heartbeats = Heartbeats(
            self._urls,
            self._tokens,
            self._settings.worker_lease_s,
            self._make_heartbeat,
            self._heartbeat_interval,
            self._on_heartbeat_reply,
            self._on_silence,
        )
        heartbeats.alone = self._report_alone
        heartbeats.start()
        return heartbeats

    async def run(self) -> None:
        """Work until it is drained. AccessDenied: no server wants this worker."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def drain(self, grace_s: float) -> None:
        """Finish what is under way, or give it back."""
        await self.agent.drain(grace_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            # What it did not finish is handed out when it is missed: who is in a hurry may have left tools behind.
            self._leaving = self.agent.draining and not self.agent.held
            await asyncio.to_thread(self._heartbeats.stop, leaving=self._leaving)

    def kill(self) -> None:
        """End the processes that tools started, at once."""
        for world in self.runners.worlds.values():
            world.kill()

    # --- hints -------------------------------------------------------------------------------------------------------

    async def _follow_hints(self, bus: Bus) -> None:
        """Ask whichever server says that it has work; a hint may be old, doubled or lost."""
        links = {link.url: link for link in self.agent.links}
        while not self.agent.draining:
            if not self.agent.queue.room():
                await self.agent.freed.wait()
                self.agent.freed.clear()
                continue
            if bus.trouble:
                await self._without(bus, list(links.values()))
                continue
            with contextlib.suppress(NoetlError):
                hints = await bus.next(self.agent.pools, min(16, self.agent.queue.room()), 5.0)
                for url in {hint.body.decode("utf-8", "replace") for hint in hints}:
                    await asyncio.gather(*(self.agent.ask(link) for link in self._links_for(links, url)))
                for hint in hints:
                    await hint.ack()

    async def _without(self, bus: Bus, links: list[ServerLink]) -> None:
        """Ask by oneself while nobody can say that there is work, and say so once."""
        if bus.trouble and not self._bus_failed:
            self.print_line(f"NATS does not answer, so servers are asked every {_ASK_S:g} s: {bus.trouble}")
        self._bus_failed = True
        await asyncio.gather(*(self.agent.ask(link) for link in links))
        await asyncio.sleep(_ASK_S)
        if not bus.trouble:
            self._bus_failed = False
            self.print_line("NATS answers again")

    def _report_alone(self, why: str) -> None:
        """Say once why no server hears this worker, and that one does again."""
        if why != self._refusal:
            self._refusal = why
            self.print_line(why or f"a server answers at {', '.join(map(mask_login, self._urls))}")

    def _links_for(self, links: dict[str, ServerLink], url: str) -> list[ServerLink]:
        """The server that a hint names; a worker may know it under another name, then all are asked."""
        return [links[url]] if url in links else list(links.values())

    def _on_notice(self, body: bytes) -> None:
        for link in self._links_for({link.url: link for link in self.agent.links}, body.decode("utf-8", "replace")):
            self.agent.spawn(self.agent.ask(link))

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _make_heartbeat(self) -> Heartbeat:
        about = {"pools": self.agent.pools, "slots": self.agent.slots, "host": socket.gethostname(), "pid": os.getpid(),
                 "running": len(self.agent.held), "draining": self.agent.draining}  # fmt: skip
        queue, every = self.agent.queue, self._settings.worker_lease_s / 3
        longest_s = max((lease.ttl_s for lease in queue.leases()), default=0.0)
        return Heartbeat(self.agent.name, queue.heartbeat(), every, about, longest_lease_s=longest_s)

    def _heartbeat_interval(self) -> float:
        """Seconds between two heartbeats, as the pipelines need it that this worker has."""
        shortest = min((lease.heartbeat_s for lease in self.agent.queue.leases()), default=math.inf)
        return min(self._settings.worker_lease_s / 3, shortest)

    def _on_leases(self, leases: Sequence[Lease]) -> None:
        if self._heartbeats is not None:
            self._heartbeats.hasten(leases)

    def _on_silence(self) -> None:
        """No server hears this worker: what it has is others' when the lease of each has run out."""
        assert self._heartbeats is not None
        silence_s, lease_s = self._heartbeats.silence_s, self._settings.worker_lease_s
        if silence_s > max([lease_s, *(lease.ttl_s for lease in self.agent.queue.leases())]):
            self._heartbeats.forget_silence()
            self._on_lost()
        else:
            self.agent.expire(silence_s, lease_s)

    def _on_heartbeat_reply(self, url: str, name: str, reply: ServerReply) -> None:
        if reply.lost:
            if name == self.agent.name:  # else that name was given up already, and another server says so too
                self._on_lost()
            return
        link = next(link for link in self.agent.links if link.url == url.rstrip("/"))
        self.agent.handle_reply(link, reply)

    def _check_registration(self) -> None:
        """A server does not know this worker: the next beat tells whether it was given up, or is only new there."""
        if self._heartbeats is not None:
            self._heartbeats.beat()

    def _on_lost(self) -> None:
        """This worker is taken for dead: what it has is others' by now."""
        if self._leaving:  # one server says what it was told by another
            return
        before, had = self.agent.name, len(self.agent.held)
        self.agent.lose(self._new_name())
        self.print_line(
            f"{before} was given up; what it had, {had} at the time, is others' now. It goes on as {self.agent.name}"
        )
        if self._bus is not None:
            self._bus.stop_listening(before)
            self._bus.listen(self.agent.name, self._on_notice)
        self._check_registration()

    async def _answer(self, link: ServerLink, question: CredentialCheck) -> None:
        """Say whether the credentials of an execution are there."""
        name, brief = question.execution_id, question.brief
        try:
            source = await self.agent.sources.fetch(link, brief.playbook)
            problem = await self._keychains.check(name, self._net(source, ()), source, brief.workload)
            if problem is not None:
                problem["message"] += f" (at worker {self.agent.name})"
        except Exception:  # noqa: BLE001  what it is comes up again in the task that needs the credential
            problem = None
        self._keychains.forget(name)
        self.agent.outboxes[link].answer(CredentialCheckResult(question.number, problem))

    # --- what the runners need ---------------------------------------------------------------------------------------

    def _child_id(self) -> str:
        return self._effects.new_execution_id(self._effects.clock())

    def _net(self, source: PlaybookSource, plans: Sequence[dict[str, Any]]) -> Net:
        net = self._catalog.net(source)
        if net is None:
            raise NoetlError(f"the playbook {source.file} cannot be read by this worker: is it of an older version?")
        return self._catalog.extend_net(net, plans)

    def _world(self, running: RunningExecution) -> LocalWorld:
        state = running.state
        folder = Path(state.file or ".").absolute().parent
        keychain = self._keychains.of(running.id, running.net.playbook, state.workload, folder)
        seen, hidden = self._keychains.environment, self._settings.hidden
        return LocalWorld(
            folder, seen, self._log_line, self._results, keychain, hidden=hidden, restrict=state.restrict
        )  # fmt: skip

    def _log_line(self, call: Call, stream: str, text: str) -> None:
        stamp = datetime.fromtimestamp(self._effects.clock(), UTC).isoformat(timespec="milliseconds")
        self.agent.write(call.execution_id, LogLine(stamp, call.step, call.task, call.iteration, stream, text))

    def _moment(self, now: float) -> Moment:
        return Moment(now, self._effects.new_id, self._effects.chance())

    def _new_name(self) -> str:
        return f"{self._name}-{os.getpid()}-{secrets.token_hex(4)}"
