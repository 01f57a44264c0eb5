"""A whole node under simulated faults: the real service, orders and workers over a log in memory, in skipped time.

The log blocks before each write, and fails or dies where a test says; a node that died is followed by another one over
the same log. Tools write what they do outside to a ledger, under the idempotency key. Everything follows from a seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from corpus import HEAD
from in_memory_node import Tool, flaky

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.engine.fold import apply
from noetl.errors import NoetlError
from noetl.history.fsck import check_log
from noetl.history.log_queries import state_at
from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.orders import Order
from noetl.model.output import Output
from noetl.model.requests import Posted, encode_request
from noetl.model.state import Execution
from noetl.ports import Call, PlaybookSource, StoreFailed, World
from noetl.server.core import service
from noetl.server.core.catalog import Catalog
from noetl.server.core.control_plane import Effects, resume_unowned
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.stores.verify import verify_store
from noetl.testing.virtual_time import VirtualTimeLoop
from noetl.tools.registry import ToolKinds

ROOT = "x"
START = 1_000_000.0
#: tools that do something outside; the others are the real ones
SIMULATED = frozenset({"http", "python", "shell", "postgres"})
CATALOG = Catalog(ToolKinds())
CHILD = b"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: other, path: other}
workflow:
- {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, output: {child: other}}}
"""
#: virtual seconds after which a run counts as stuck
LONGEST = 3_000.0
#: how often one node, or one node after the other, begins again before a run counts as stuck
MOST_LOSSES = 1_000


@dataclass(frozen=True)
class Fault:
    """What happens at one write: the node dies before or after it, or the write alone fails."""

    write: int
    kind: str

    KINDS = ("dies before", "dies after", "fails")


@dataclass
class Luck:
    """What goes wrong, and how the rest turns out."""

    seed: int = 0
    #: the chance that a node dies at a write, or that a report is delivered twice
    faults: float = 0.0
    fault: Fault | None = None
    #: after how many events a snapshot is written
    snapshot_every: int = 3
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def at_write(self, number: int) -> str | None:
        """What happens at a write."""
        if self.fault is not None and self.fault.write == number:
            return self.fault.kind
        if self.faults and self.random.random() < self.faults / 4:
            return self.random.choice(Fault.KINDS)
        return None


class FaultyLog(MemoryLog):
    """A log in memory whose writes take time, and fail or end its process as luck has it."""

    def __init__(self, luck: Luck, beside: FaultyLog | None = None) -> None:
        super().__init__(beside)
        self.luck = luck
        self.writes: int = beside.writes if beside is not None else 0
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_notification: Callable[[str], None] = lambda _what: None

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """Block, then write, or not."""
        self._refuse_the_dead()
        self.writes += 1
        happens = self.luck.at_write(self.writes)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._refuse_the_dead()
        if happens in (None, "dies after"):
            await super().append(events, status=status, snapshot=snapshot)
        if happens is not None:
            if happens != "fails":
                self.died.set_result(None)
            raise StoreFailed(happens)

    def _refuse_the_dead(self) -> None:
        if self.died.done():
            raise StoreFailed("dead")

    async def end(self) -> None:
        """Let nothing of the process be written any more: in this one, tasks of it may still be there."""
        if not self.died.done():
            self.died.set_result(None)
        await self.close()

    def settle(self, number: int) -> None:
        """Forget a request, unless the process is dead."""
        if not self.died.done():
            super().settle(number)

    def listen(self, heard: Callable[[str], None]) -> None:
        """See `ports.Listens`."""
        self.on_notification = heard

    def post(self, execution_id: str, body: bytes) -> None:
        """Leave a request, and say so."""
        super().post(execution_id, body)
        self.on_notification("asked")


class SimulatedKinds(ToolKinds):
    """The real kinds, except those that do something outside."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def module(self, name: str) -> Any:
        """A simulated tool, or the real one."""
        if name in SIMULATED:
            return SimpleNamespace(KIND=self[name], run=self._simulation.run_tool)
        return super().module(name)


class WatchedDispatch:
    """Takes the orders of a service, checks that their events are durable, and hands them on."""

    def __init__(self, dispatch: Any, check_durable: Callable[[LiveExecution], None]) -> None:
        self._dispatch = dispatch
        self._check_durable = check_durable

    def give(self, live: LiveExecution, orders: Iterable[Order]) -> None:
        """Check, and hand on."""
        self._check_durable(live)
        self._dispatch.give(live, orders)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatch, name)


class Simulation:
    """One execution, the nodes that run it one after the other, and what they do outside."""

    def __init__(
        self,
        net: Net,
        source: PlaybookSource,
        home: Path,
        luck: Luck,
        *,
        tool: Tool = flaky,
        requests: Sequence[Posted] = (),
        child: bytes = CHILD,
    ) -> None:
        self.net, self.source, self.luck, self.tool = net, source, luck, tool
        self.settings = Settings(home)
        self.kinds = SimulatedKinds(self)
        self.ids = itertools.count(1)
        self.requests = list(requests)
        self.child = child
        self.ledger: set[tuple[str, str]] = set()
        self.lives = 0
        self.orders_checked = 0
        self.wrong: list[Any] = []
        self.log: FaultyLog
        self.loop: VirtualTimeLoop
        self.state: Execution

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self) -> Simulation:
        """Run to the end, whatever happens on the way, and check what must hold."""
        before = service.SNAPSHOT_EVERY, service.BYTES_PER_EVENT
        service.SNAPSHOT_EVERY, service.BYTES_PER_EVENT = self.luck.snapshot_every, 1_000_000_000
        self.loop = VirtualTimeLoop(START, limit=120.0)
        self.loop.set_exception_handler(self._unheard)
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                try:
                    runner.run(self._run())
                finally:
                    self.loop.finish()
        finally:
            service.SNAPSHOT_EVERY, service.BYTES_PER_EVENT = before
        self.check()
        return self

    async def _run(self) -> None:
        self.log = FaultyLog(self.luck)
        moments = sorted(self.luck.random.random() for _ in self.requests)
        for moment, request in zip(moments, self.requests, strict=True):
            self.loop.call_later(moment, self._post, encode_request(request))
        async with asyncio.timeout(LONGEST):
            while not await self._live():
                assert self.lives < MOST_LOSSES
                await self.log.end()
                self.log = FaultyLog(self.luck, self.log)

    def _post(self, body: bytes) -> None:
        self.log.post(ROOT, body)

    async def _live(self) -> bool:
        """Run a node until the execution is over or the node dies; whether it is over."""
        self.lives += 1
        clock = self.loop.time
        effects = Effects(clock, self._new_id, lambda _now: f"child-{next(self.ids)}", lambda: 0.5)
        node = LocalNode(self.settings, self.log, kinds=self.kinds, catalog=CATALOG, effects=effects)
        node.print_line = self.wrong.append
        log = self.log

        def check_durable(live: LiveExecution) -> None:
            if not log.died.done():  # what is left of a node that died may still decide that nothing follows
                self._check_durable(live)

        node.service.watchers.append(lambda live, _events: check_durable(live))
        node.service.order_receiver = WatchedDispatch(node.service.order_receiver, check_durable)
        node.service.record = self._delivered_twice(node)  # type: ignore[method-assign]
        async with node:
            for _ in range(MOST_LOSSES):
                if await self._run_in(node) or self.log.died.done():
                    # A child that was lost when its parent was over is left to the next node.
                    return not self.log.died.done() and not self.log.summaries(unfinished=True)
        raise AssertionError("the execution is lost again and again")

    async def _run_in(self, node: LocalNode) -> bool:
        """Start or resume the execution in a node, and wait for its end; False: it was lost there, or the node died."""
        try:
            live = await self._begin(node)
            await self._is_over(live)
            self.state = live.state
        except StoreFailed:
            return False
        with contextlib.suppress(StoreFailed):
            for child in list(node.service.live.values()):
                await self._is_over(child)
        return True

    async def _is_over(self, live: LiveExecution) -> None:
        """Wait for the end of an execution; StoreFailed: it was lost, or the node died."""
        await asyncio.wait([live.finished, self.log.died], return_when=asyncio.FIRST_COMPLETED)
        if self.log.died.done():
            raise StoreFailed("dead")
        live.finished.result()

    async def _begin(self, node: LocalNode) -> LiveExecution:
        if self.log.summary(ROOT) is not None:
            live = await node.resume(ROOT)
            await resume_unowned(node)
            return live
        child, _ = CATALOG.read(Path("other.yaml"), self.child)
        await node.keep(child)
        return await node.start(self.source, self.net, {}, execution_id=ROOT, calls={"other": child.hash})

    def _new_id(self) -> str:
        return f"id-{next(self.ids)}"

    async def run_tool(self, call: Call, _world: World) -> Output:
        """What a tool does outside, after a while."""
        self.ledger.add((call.key, f"{call.step}.{call.task}"))
        self._check_started(call)
        if self.luck.seed:
            await asyncio.sleep(self.luck.random.random() / 100)
        return self.tool(call)

    def _delivered_twice(self, node: LocalNode) -> Callable[..., Any]:
        """A way to record that delivers some reports again: a duplicate must change nothing."""
        record = node.service.record

        async def deliver(execution_id: str, happened: Iterable[Any]) -> None:
            items = list(happened)
            await record(execution_id, items)
            if self.luck.random.random() < self.luck.faults:
                node.service.post(execution_id, items)

        return deliver

    # --- what must hold ----------------------------------------------------------------------------------------------

    def _check_durable(self, live: LiveExecution) -> None:
        """Nobody hears of a decision, and nothing is ordered, before its events are in the log."""
        self.orders_checked += 1
        durable = self.log.summary(live.id)
        if durable is None or durable.seq != live.state.seq:
            self.wrong.append(f"{live.id} is at {live.state.seq}, its log at {durable.seq if durable else 0}")

    def _check_started(self, call: Call) -> None:
        """No effect comes before the record that it was started."""
        started = [e for e in self.log.read(call.execution_id) if e.name == "task.started"]
        if (call.key.partition("/")[2], call.attempt) not in {(e.task_run_id, e.attempt) for e in started}:
            self.wrong.append(f"{call.key} runs, and its start is not in the log")

    def _unheard(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Exceptions that nobody takes: of an execution that was lost nobody hears how it ended."""
        if not isinstance(context.get("exception"), NoetlError):
            self.wrong.append(context)

    def check(self) -> None:
        """The invariants of every log, whatever happened."""
        assert self.wrong == []
        assert self.orders_checked > 0
        for execution_id in self.log.execution_ids():
            self._check_log(execution_id)
        assert [str(one) for one in verify_store(self.log)] == []
        summary = self.log.summary(ROOT)
        assert summary is not None
        assert [str(one) for one in check_log(self.log, summary, None if self.state.synthesized else self.net)] == []

    def _check_log(self, execution_id: str) -> None:
        events = self.log.read(execution_id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        stamps = [event.timestamp for event in events]
        assert stamps == sorted(stamps)
        ends = [(e.task_run_id, e.attempt) for e in events if e.name == "task.done"]
        assert len(ends) == len(set(ends)), "an attempt ended twice"
        handled = [event.payload["request"] for event in events if "request" in event.payload]
        assert len(handled) == len(set(handled)), "a request took effect twice"
        folded = Execution(execution_id)
        for event in events:
            apply(folded, event)
            assert state_at(self.log, execution_id, upto=event.seq) == folded, f"{execution_id} at {event.seq}"
        assert folded.over
        assert not folded.runs
        assert events[-1].name == "playbook.processed"
        if execution_id == ROOT:
            assert folded == self.state


class Runs:
    """The same playbook, undisturbed and with a fault at each of its writes."""

    def __init__(self, steps: str, home: Path, requests: Sequence[Posted] = (), **settings: Any) -> None:
        self.source, loaded = CATALOG.read(Path("main.yaml"), (HEAD + steps).encode())
        assert loaded.net is not None, loaded.diagnostics
        self.net, self.home, self.requests, self.settings = loaded.net, home, requests, settings
        self.calm = self.run()

    def run(self, **luck: Any) -> Simulation:
        """The playbook under some luck."""
        return Simulation(self.net, self.source, self.home, Luck(**luck), requests=self.requests, **self.settings).run()

    def disturbed(self) -> Iterator[Simulation]:
        """A run for each write and each kind of fault."""
        for kind in Fault.KINDS:
            for write in range(1, self.calm.log.writes + 1):
                yield self.run(fault=Fault(write, kind), snapshot_every=1 + write % 7)
