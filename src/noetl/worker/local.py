"""Workshop: carries out the orders of a service in this process."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from noetl.errors import NoetlError
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import HoldChild, Order, RunPipeline, StartChild, StopChild, StopPipelines, WakeAt
from noetl.model.redaction import Redactor
from noetl.model.state import Execution, parse_label
from noetl.pipeline.frame import Moment
from noetl.ports import EventLog
from noetl.worker.redacting import all_redacted
from noetl.worker.runner import Runner
from noetl.worker.surroundings import Tools
from noetl.worker.world import LocalWorld

Key = tuple[str, str, int | str | None]


class Running(Protocol):
    """An execution that is being carried out."""

    @property
    def id(self) -> str:
        """The execution's id."""

    @property
    def net(self) -> Net:
        """What it runs."""

    state: Execution


class Office(Protocol):
    """Who gives the orders and hears the reports."""

    async def report(self, execution_id: str, facts: list[Fact]) -> None:
        """Hear facts; returns when they are durable."""

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """The same, without waiting."""

    def due(self, execution_id: str) -> None:
        """Hear that a time has come."""

    def child_id(self) -> str:
        """The id of an execution that is to be started."""

    def broken(self, execution_id: str, error: BaseException) -> None:
        """Hear that a pipeline broke in a way that no report tells."""

    def start_child(self, running: Running, order: StartChild) -> None:
        """Start a child execution."""

    def stop_child(self, execution_id: str) -> None:
        """Cancel a child execution."""

    def hold_child(self, execution_id: str, *, paused: bool) -> None:
        """Pause a child execution, or let it go on."""


class Workshop:
    """All pipelines that run in this process."""

    def __init__(
        self,
        log: EventLog,
        tools: Tools,
        world: Callable[[Running], LocalWorld],
        *,
        clock: Callable[[], float],
        moment: Callable[[], Moment],
    ) -> None:
        self.log = log
        self.tools = tools
        self.make_world = world
        self.clock = clock
        self.moment = moment
        self.office: Office
        #: by execution
        self.tasks: dict[str, dict[Key, asyncio.Task[None]]] = {}
        self.next: dict[Key, tuple[Running, RunPipeline]] = {}
        self.worlds: dict[str, LocalWorld] = {}
        self.alarms: list[tuple[float, str]] = []
        self.alarm: asyncio.TimerHandle | None = None
        self.closing: set[asyncio.Future[Any]] = set()

    def give(self, hot: Running, orders: Iterable[Order]) -> None:
        """Carry out orders."""
        for order in orders:
            if isinstance(order, RunPipeline):
                self._run(hot, order)
            elif isinstance(order, StopPipelines):
                self._stop(hot.id, order)
            elif isinstance(order, WakeAt):
                self._wake_at(order.at, hot.id)
            elif isinstance(order, StartChild):
                self.office.start_child(hot, order)
            elif isinstance(order, StopChild):
                self.office.stop_child(order.execution_id)
            elif isinstance(order, HoldChild):
                self.office.hold_child(order.execution_id, paused=order.paused)

    def ended(self, hot: Running) -> None:
        """Let go of what was kept for an execution."""
        tasks = list(self.tasks.get(hot.id, {}).values())
        for task in tasks:
            task.cancel()
        world = self.worlds.pop(hot.id, None)
        if world is not None:
            self._later(_closed(world, tasks))

    async def close(self) -> None:
        """End everything."""
        for task in self._all():
            task.cancel()
        for execution_id, world in self.worlds.items():
            self._later(_closed(world, list(self.tasks.get(execution_id, {}).values())))
        self.worlds.clear()
        await self.settle()

    async def settle(self) -> None:
        """Wait until all that was told to end has ended: tools with everything they started."""
        while self.tasks or self.closing:
            await asyncio.gather(*self._all(), *self.closing, return_exceptions=True)

    def _all(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self.tasks.values() for task in tasks.values()]

    # --- pipelines ---------------------------------------------------------------------------------------------------

    def _run(self, hot: Running, order: RunPipeline) -> None:
        key = (hot.id, order.step_run_id, order.iteration)
        if key in self.tasks.get(hot.id, ()):
            # A task may be answered, and a pause may end, before the pipeline has put its tools away.
            if key not in self.next or order.answer is not None:
                self.next[key] = (hot, order)
            return
        if hot.state.paused and order.answer is None and order.gather is None:
            return
        world = self.worlds.get(hot.id)
        if world is None:
            world = self.worlds[hot.id] = self.make_world(hot)
        around = _Around(self, hot, world.keychain.redactor)
        runner = Runner(order, hot.net.steps[order.step], hot.net.playbook, around, world)
        try:
            if runner.sprint():
                return
        except Exception as error:  # noqa: BLE001  as of a pipeline that breaks later: nobody may wait for ever
            self._broken(hot.id, error)
            return
        task = asyncio.ensure_future(runner.run())
        self.tasks.setdefault(hot.id, {})[key] = task
        task.add_done_callback(lambda done: self._over(key, done))

    def _over(self, key: Key, done: asyncio.Task[None]) -> None:
        mine = self.tasks.get(key[0], {})
        if mine.get(key) is done:
            del mine[key]
        if not mine:
            self.tasks.pop(key[0], None)
        following = self.next.pop(key, None)
        if following is not None and not done.cancelled() and key[0] in self.worlds:
            self._run(*following)
        if not done.cancelled() and (error := done.exception()) is not None:
            self._broken(key[0], error)

    def _broken(self, execution_id: str, error: BaseException) -> None:
        """Tell of a pipeline that broke; not in the words of an exception that knows a secret."""
        world, said = self.worlds.get(execution_id), str(error)
        if world is not None and world.keychain.redactor.text(said) != said:
            error = NoetlError(f"{type(error).__name__}: {world.keychain.redactor.text(said)}")
        self.office.broken(execution_id, error)

    def _stop(self, execution_id: str, order: StopPipelines) -> None:
        path = parse_label(order.iteration)
        for key, task in list(self.tasks.get(execution_id, {}).items()):
            if key[1] == order.step_run_id and parse_label(key[2])[: len(path)] == path:
                task.cancel()

    def _later(self, awaitable: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(awaitable)
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)

    # --- time --------------------------------------------------------------------------------------------------------

    def _wake_at(self, at: float, execution_id: str) -> None:
        heapq.heappush(self.alarms, (at, execution_id))
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        if self.alarms:
            delay = max(0.0, self.alarms[0][0] - self.clock())
            self.alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self.alarm = None
        now = self.clock()
        rung: set[str] = set()
        while self.alarms and self.alarms[0][0] <= now:
            rung.add(heapq.heappop(self.alarms)[1])
        for execution_id in rung:
            self.office.due(execution_id)
        self._set_alarm()


async def _closed(world: LocalWorld, tasks: list[asyncio.Task[None]]) -> None:
    """What tools share is put away when the last of them has: they may be putting things in order."""
    if tasks:
        await asyncio.wait(tasks)
    await world.close()


class _Around:
    """What a runner sees of the workshop."""

    def __init__(self, shop: Workshop, hot: Running, redactor: Redactor) -> None:
        self.shop = shop
        self.hot = hot
        self.redactor = redactor
        self.execution_id = hot.id
        self.tools = shop.tools

    def moment(self) -> Moment:
        return self.shop.moment()

    def child_id(self) -> str:
        return self.shop.office.child_id()

    def paused(self) -> bool:
        return self.hot.state.paused

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.shop.clock()))

    async def report(self, facts: list[Fact]) -> None:
        await self.shop.office.report(self.execution_id, self._clean(facts))

    def post(self, facts: list[Fact]) -> None:
        self.shop.office.post(self.execution_id, self._clean(facts))

    def _clean(self, facts: list[Fact]) -> list[Fact]:
        """The one place where facts leave: nothing secret leaves with them."""
        return all_redacted(facts, self.redactor)

    def recorded(self, order: RunPipeline) -> list[Event]:
        events = self.shop.log.read(self.execution_id, after=order.since - 1)
        return [e for e in events if e.step_run_id == order.step_run_id and e.iteration == order.iteration]
