"""The pipelines that run in this process, and what their runners report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from noetl.errors import NoetlError, describe_error
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.state import Execution
from noetl.model.wire import Key
from noetl.pipeline import Moment
from noetl.redaction import Redactor
from noetl.worker.outgoing import redact_facts
from noetl.worker.runner import PipelineRunner
from noetl.worker.world import LocalWorld, ToolModules


class RunningExecution(Protocol):
    """An execution that is being carried out."""

    @property
    def id(self) -> str:
        """The execution's id."""

    @property
    def net(self) -> Net:
        """What it runs."""

    state: Execution
    #: seconds by which its time is ahead of the clock of this process
    ahead: float


#: seconds after which who sleeps looks at the clock: a machine that was suspended does not notice otherwise
_LONGEST_SLEEP_S = 60.0


class ReportReceiver(Protocol):
    """Who gives the orders and hears the reports."""

    async def report(self, execution_id: str, facts: list[Fact], *, last: bool) -> None:
        """Hear facts; returns when they are durable. Nothing comes behind the `last` of a pipeline."""

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """Hear the last facts of a pipeline, without anybody waiting for it."""

    def on_done(self, key: Key) -> None:
        """Hear that a pipeline is not under way here any more, whatever it has said."""

    def read_recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of an order's pipeline."""

    def child_id(self) -> str:
        """The id of an execution that is to be started."""

    def on_broken(self, key: Key, error: BaseException) -> None:
        """Hear that a pipeline broke in a way that no report tells."""


class PipelineRunners:
    """All pipelines that run in this process."""

    def __init__(
        self,
        tools: ToolModules,
        world: Callable[[RunningExecution], LocalWorld],
        *,
        clock: Callable[[], float],
        moment: Callable[[float], Moment],
    ) -> None:
        self.tools = tools
        self.make_world = world
        #: never goes back
        self.clock = clock
        self.moment = moment
        self.receiver: ReportReceiver
        #: by execution
        self.tasks: dict[str, dict[Key, asyncio.Task[None]]] = {}
        self.worlds: dict[str, LocalWorld] = {}
        self.closing: set[asyncio.Future[Any]] = set()

    def forget(self, execution_id: str) -> None:
        """Close what tools share in an execution, when the last of them has ended."""
        world = self.worlds.pop(execution_id, None)
        if world is not None:
            self._later(_close_after(world, list(self.tasks.get(execution_id, {}).values())))

    async def close(self) -> None:
        """End everything."""
        for task in self._all():
            task.cancel()
        for execution_id, world in self.worlds.items():
            self._later(_close_after(world, list(self.tasks.get(execution_id, {}).values())))
        self.worlds.clear()
        await self.settle()

    async def settle(self) -> None:
        """Wait until all that was told to end has ended: tools with everything they started."""
        while self.tasks or self.closing:
            await asyncio.gather(*self._all(), *self.closing, return_exceptions=True)

    def _all(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self.tasks.values() for task in tasks.values()]

    # --- pipelines ---------------------------------------------------------------------------------------------------

    def run(self, execution: RunningExecution, order: RunPipeline) -> None:
        """Run a pipeline that is not under way here; `dispatch` sees to that."""
        execution_id = execution.id
        key = (execution_id, order.step_run_id, order.iteration)
        try:
            runner = self._make_runner(execution, order)
            if runner.run_sync():
                self.receiver.on_done(key)
                return
        except Exception as error:  # noqa: BLE001  as of a pipeline that breaks later: nobody may wait for ever
            self._report_broken(key, error)
            return
        task = asyncio.ensure_future(runner.run())
        self.tasks.setdefault(execution_id, {})[key] = task
        task.add_done_callback(lambda done: self._over(key, done))

    def _make_runner(self, execution: RunningExecution, order: RunPipeline) -> PipelineRunner:
        execution_id, net = execution.id, execution.net
        world = self.worlds.get(execution_id)
        if world is None:
            world = self.worlds[execution_id] = self.make_world(execution)
        context = _PipelineContext(self, execution, execution_id, world.keychain.redactor)
        return PipelineRunner(order, net.steps[order.step], net.playbook, context, world)

    def _over(self, key: Key, done: asyncio.Task[None]) -> None:
        mine = self.tasks.get(key[0], {})
        if mine.get(key) is done:
            del mine[key]
        if not mine:
            self.tasks.pop(key[0], None)
        if not done.cancelled() and (error := done.exception()) is not None:
            self._report_broken(key, error)
        else:
            self.receiver.on_done(key)

    def _report_broken(self, key: Key, error: BaseException) -> None:
        """Tell of a pipeline that broke; not in the words of an exception that knows a secret."""
        world, message = self.worlds.get(key[0]), str(error)
        if world is not None and world.keychain.redactor.text(message) != message:
            error = NoetlError(world.keychain.redactor.text(describe_error(error)))
        self.receiver.on_broken(key, error)

    def stop(self, key: Key) -> None:
        """End a pipeline, and the processes it started."""
        task = self.tasks.get(key[0], {}).get(key)
        if task is not None:
            task.cancel()

    def is_running(self, key: Key) -> bool:
        """Whether a pipeline runs here, or puts its tools away."""
        return key in self.tasks.get(key[0], ())

    async def wait_stopped(self, key: Key) -> None:
        """Wait until a pipeline that was told to end has put its tools away."""
        task = self.tasks.get(key[0], {}).get(key)
        if task is not None:
            await asyncio.wait([task])

    def _later(self, awaitable: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(awaitable)
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)


async def _close_after(world: LocalWorld, tasks: list[asyncio.Task[None]]) -> None:
    """What tools share is put away when the last of them has: they may be putting things in order."""
    if tasks:
        await asyncio.wait(tasks)
    await world.close()


class _PipelineContext:
    """What one runner sees of its process."""

    def __init__(
        self, runners: PipelineRunners, execution: RunningExecution, execution_id: str, redactor: Redactor
    ) -> None:
        self.runners = runners
        self.execution = execution
        self.redactor = redactor
        self.execution_id = execution_id
        self.tools = runners.tools

    def _now(self) -> float:
        return self.runners.clock() + self.execution.ahead

    def moment(self) -> Moment:
        return self.runners.moment(self._now())

    def child_id(self) -> str:
        return self.runners.receiver.child_id()

    def is_paused(self) -> bool:
        return self.execution.state.paused

    async def sleep_until(self, when: float) -> None:
        while (left := when - self._now()) > 0:  # noqa: ASYNC110  it is a time that is waited for
            await asyncio.sleep(min(left, _LONGEST_SLEEP_S))

    async def report(self, facts: list[Fact], *, last: bool) -> None:
        await self.runners.receiver.report(self.execution_id, self._clean(facts), last=last)

    def post(self, facts: list[Fact]) -> None:
        self.runners.receiver.post(self.execution_id, self._clean(facts))

    def _clean(self, facts: list[Fact]) -> list[Fact]:
        """The one place where facts leave: nothing secret leaves with them."""
        return redact_facts(facts, self.redactor)

    def read_recorded(self, order: RunPipeline) -> list[Event]:
        return self.runners.receiver.read_recorded(self.execution_id, order)
