"""The composition of one process that runs executions itself: log, control plane, tools and results."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from noetl.app import tune_gc
from noetl.config import Settings, settings
from noetl.dispatch import DeadLetter, Give
from noetl.errors import ExecutionStuck, NoetlError
from noetl.model.net import Net
from noetl.model.output import Failure
from noetl.model.requests import Cancel
from noetl.model.wire import Key
from noetl.pipeline import Moment
from noetl.ports import OVER, Call, EventLog, LogLine, PlaybookSource, ResultDamaged, ResultGone, WorkerRegistry
from noetl.results import PayloadStore, open_payloads
from noetl.secrets import Keychains, open_store, read_credential
from noetl.server.core import MARKS, Catalog, ControlPlane, Effects, LiveExecution, Watchdog
from noetl.tools import ToolKinds
from noetl.worker import LocalWorld, PipelineRunners, RunningExecution, sweep_drafts


def open_log(settings: Settings) -> EventLog:
    """The event log: a file of this machine, or a database."""
    if settings.store is not None:
        from noetl.stores import PostgresLog

        return PostgresLog(settings.store.reveal(), lease_s=settings.lease_s)
    from noetl.stores import SqliteLog

    return SqliteLog(settings.database, durability=settings.durability)


def open_results(settings: Settings, clock: Callable[[], float] = time.time) -> PayloadStore:
    """The result store, wherever it is."""
    credentials = open_store(settings, clock)
    return open_payloads(settings, lambda name: read_credential(credentials, name), clock)


def open_registry(settings: Settings) -> WorkerRegistry:
    """The registry of workers: beside the log, if servers share that."""
    if settings.store is not None:
        from noetl.stores import PgRegistry

        return PgRegistry(settings.store.reveal(), settings.worker_lease_s)
    from noetl.server.cluster import MemoryRegistry

    return MemoryRegistry(settings.worker_lease_s)


def open_catalog() -> Catalog:
    """The playbooks that this process reads."""
    return Catalog(ToolKinds())


def open_local_node() -> LocalNode:
    """A node as the environment describes it."""
    found = settings()
    return LocalNode(found, open_log(found))


#: the name of the worker in this process
LOCAL = "local"
#: seconds before executions are resumed that this process had to let go of, and while that fails
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0


class LocalWorker:
    """The runners of this process as a worker behind a direct call: the only worker of a local node's dispatcher."""

    def __init__(self, runners: PipelineRunners) -> None:
        self._runners = runners

    def give(self, move: Give) -> None:
        """See `WorkerSide`."""
        self._runners.run(move.execution, move.order)

    def stop(self, worker: str, key: Key, fence: str) -> None:  # noqa: ARG002
        """See `WorkerSide`."""
        self._runners.stop(key)

    def forget(self, worker: str, execution_id: str) -> None:  # noqa: ARG002
        """See `WorkerSide`."""
        self._runners.forget(execution_id)

    def wake(self, worker: str) -> None:
        """It never waits: it is given what is ready."""

    def hint(self, pool: str) -> None:
        """See `wake`."""

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """It dies with this process, so nothing is lost before that."""


class LocalNode(ControlPlane):
    """A control plane whose only worker is in the same process."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        *,
        kinds: ToolKinds | None = None,
        catalog: Catalog | None = None,
        effects: Effects | None = None,
        alone: bool = False,
        serves: bool = False,
    ) -> None:
        self.settings = settings
        #: it resumes by itself what it had to let go of: nobody waits for its end to do so
        self._serves = serves
        self._lost: dict[str, NoetlError] = {}
        self.kinds = kinds or ToolKinds()
        effects = effects or Effects()
        clock = effects.clock
        self.results = open_results(settings, clock)
        self.runners = PipelineRunners(self.kinds, self._world, clock=clock, moment=self._moment)
        self.runners.receiver = self
        self.keychains = Keychains(settings, clock=clock, new_id=effects.new_id)
        side = LocalWorker(self.runners)
        watchdog = Watchdog(settings.home / MARKS)
        super().__init__(
            log, catalog or Catalog(self.kinds), side, effects, local=LOCAL, alone=alone, watchdog=watchdog
        )

    async def __aenter__(self) -> Self:
        tune_gc()
        sweep_drafts(self.results.drafts)
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:  # each of these is closed, whatever fails before it
            stack.push_async_callback(self.log.close)
            stack.callback(self.results.close)
            stack.push_async_callback(self.keychains.close)
            stack.push_async_callback(self.notices.settle)
            stack.push_async_callback(self.runners.close)
            self.stop_polling()
            await self.cancel_tasks()

    async def drain(self, grace: float) -> None:
        """Begin no more pipelines, and wait for those that run, for so many seconds: what they finish is not run again."""
        self.dispatcher.closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.runners.settle()

    @property
    def is_remote(self) -> bool:
        """Executions end with this process."""
        return False

    def cancel(self, execution_id: str, why: str) -> None:
        """End an execution for good."""
        self.service.post(execution_id, [Cancel(why)])

    async def settle(self) -> None:
        """Wait until the tools of executions that were ended have ended."""
        await self.runners.settle()

    def kill(self) -> None:
        """End the processes that tools started, at once; the log stays as it is."""
        for world in self.runners.worlds.values():
            world.kill()

    async def problem(
        self, execution_id: str, net: Net, source: PlaybookSource, payload: dict[str, Any]
    ) -> Failure | None:
        """Why an execution cannot begin: a credential that it needs is not there."""
        return await self.keychains.check(execution_id, net, source, payload)

    async def start(self, source: PlaybookSource, net: Net, payload: dict[str, Any], **more: Any) -> LiveExecution:
        """Start an execution."""
        live = await super().start(source, net, payload, **more)
        if live.state.over:
            self.keychains.forget(live.id)
        return live

    async def abandon(self, execution_id: str) -> None:
        """Let go of what was prepared for an execution that did not start, its credentials too."""
        self.keychains.forget(execution_id)
        await super().abandon(execution_id)

    async def output(self, live: LiveExecution) -> Any:
        """What an execution yielded: in full as far as `max_payload_bytes` goes, else its reference."""
        state, most = live.state, live.net.playbook.max_payload
        if state.output_ref is None:
            return state.output
        with contextlib.suppress(ResultGone, ResultDamaged):
            if (found := await self.results.read_small(state.output_ref, most)) is not None:
                return found[0]
        return state.output

    def _world(self, live: RunningExecution) -> LocalWorld:
        folder = self.file(live.state).parent
        keychain = self.keychains.of(live.id, live.net.playbook, live.state.workload, folder)
        seen, hidden = self.keychains.environment, self.settings.hidden
        restrict = live.state.restrict
        return LocalWorld(folder, seen, self._log_line, self.results, keychain, hidden=hidden, restrict=restrict)

    def on_done(self, key: Key) -> None:
        """Hear that a pipeline has ended, with its tools put away."""
        if moves := self.dispatcher.finish(key):
            self.pipelines.carry_out(moves)

    def on_broken(self, key: Key, error: BaseException) -> None:
        """Hear that a pipeline broke: the execution stops here, and can be resumed."""
        super().on_broken(key, error)
        self.on_done(key)

    def on_lost(self, execution_id: str, error: NoetlError) -> None:
        """Resume later what could not be written or run now."""
        super().on_lost(execution_id, error)
        if not self._serves or isinstance(error, ExecutionStuck):
            return
        if not self._lost:
            self.spawn(self._resume_lost())
        self._lost[execution_id] = error

    async def _resume_lost(self) -> None:
        """Resume executions until none is left to resume; children are resumed by their parents."""
        wait_s, reported = _FIRST_RETRY_S, set[str]()
        while self._lost:
            for execution_id, error in self._lost.items():
                if execution_id not in reported:
                    self.warn(f"{execution_id} is interrupted and will be resumed: {error}")
            reported |= set(self._lost)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)
            for execution_id in list(self._lost):
                await self._resume_one(execution_id)

    async def _resume_one(self, execution_id: str) -> None:
        try:
            summary = await asyncio.to_thread(self.log.summary, execution_id)
            if summary is not None and summary.status not in OVER and summary.parent not in self._lost:
                await self.resume(execution_id)
            self._lost.pop(execution_id, None)
        except NoetlError as error:
            self._lost[execution_id] = error

    def _log_line(self, call: Call, stream: str, text: str) -> None:
        stamp = datetime.fromtimestamp(self.effects.clock(), UTC).isoformat(timespec="milliseconds")
        line = LogLine(stamp, call.step, call.task, call.iteration, stream, text)
        self.log.write_lines(call.execution_id, [line])

    def _moment(self) -> Moment:
        return Moment(self.effects.clock(), self.effects.new_id, self.effects.chance())
