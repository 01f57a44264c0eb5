"""CaseRunner: runs one test case on a node of its own, and kills the node where the case asks for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.app import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.history import state_at
from noetl.lang import Loaded
from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.requests import Signal
from noetl.model.state import Execution
from noetl.ports import PlaybookSource, StoreFailed
from noetl.server.core import Catalog, Effects, LiveExecution
from noetl.stores import MemoryLog
from noetl.testing.mocked_tools import CaseError, MockedTools, ObservedCall
from noetl.testing.test_file import Case, SignalSpec
from noetl.testing.virtual_time import VirtualTimeLoop

#: the execution under test; those that it calls are `trial-1`, `trial-2` …
ROOT = "trial"


class CrashPoint(msgspec.Struct, frozen=True):
    """Where the process dies: at which write, and whether that write still becomes durable."""

    write: int
    after: bool


class CaseOutcome(msgspec.Struct, frozen=True):
    """What became of a case."""

    state: Execution
    events: tuple[Event, ...]
    net: Net
    #: what the run yields, in full where it lies in the result store
    output: Any
    calls: tuple[ObservedCall, ...]
    #: how often something was written
    writes: int
    #: virtual seconds from start to end
    seconds: float
    trouble: CaseError | None = None
    #: signals of which nobody wanted to hear before it was over
    unsent: tuple[SignalSpec, ...] = ()
    #: the last event that was durable when it died
    died_at: Event | None = None


class CrashingLog(MemoryLog):
    """A log in memory that stops at a write, as a log does whose process is killed."""

    def __init__(self, death: CrashPoint | None = None, beside: MemoryLog | None = None) -> None:
        super().__init__(beside)
        self.death = death
        self.writes = 0
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """Write, unless it has died; dying before or after a write is not the same."""
        if self.died.done():
            raise StoreFailed("killed")
        self.writes += 1
        dies = self.death is not None and self.death.write == self.writes
        if not dies or (self.death is not None and self.death.after):
            await super().append(events, status=status, snapshot=snapshot)
        if dies:
            self.died.set_result(None)
            raise StoreFailed("killed")


class MockedCatalog(Catalog):
    """Playbooks with their mocked tasks; what was compiled for one case serves the others."""

    def __init__(self, shared: Catalog, stage: MockedTools, root: str) -> None:
        super().__init__(shared.kinds)
        self._shared = shared
        self._stage = stage
        self._root = root
        self._nets: dict[tuple[str, bool], Loaded] = {}

    def _load(self, source: PlaybookSource, data: bytes) -> Loaded:
        key = (source.hash, source.legacy)
        known = self._nets.get(key)
        if known is None:
            loaded = self._shared._load(source, data)  # noqa: SLF001  one of us
            net = loaded.net
            staged = self._stage.mock_net(net, is_root=source.hash == self._root) if net is not None else None
            known = self._nets[key] = msgspec.structs.replace(loaded, net=staged)
        return known


class CaseRunner:
    """Runs cases of one playbook."""

    def __init__(self, catalog: Catalog, source: PlaybookSource, home: Path, environment: dict[str, str]) -> None:
        self.catalog = catalog
        self.source = source
        self.settings = Settings(home, environment=environment)

    def run_case(self, case: Case, stage: MockedTools, death: CrashPoint | None = None) -> CaseOutcome:
        """Run a case; its time passes at once."""
        loop = VirtualTimeLoop(case.now, limit=case.limit)
        loop.set_exception_handler(_ignore_killed)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                return runner.run(_CaseExecution(self, case, stage, loop).run(death))
            finally:
                loop.finish()


class _CaseExecution:
    def __init__(self, performer: CaseRunner, case: Case, stage: MockedTools, loop: VirtualTimeLoop) -> None:
        self.performer = performer
        self.case = case
        self.stage = stage
        self.loop = loop
        self.catalog = MockedCatalog(performer.catalog, stage, performer.source.hash)
        self.ids, self.children = itertools.count(1), itertools.count(1)
        self.trouble: asyncio.Future[CaseError] = loop.create_future()
        self.output: Any = None
        self.unsent: tuple[SignalSpec, ...] = ()
        self.node: LocalNode

    async def run(self, death: CrashPoint | None) -> CaseOutcome:
        stage, loop = self.stage, self.loop
        stage.loop, stage.root = loop, ROOT
        stage.playbook_of = self._playbook_of
        stage.stop = self._stop
        loop.on_late = self._on_late
        loop.on_stuck = self._on_stuck
        log = CrashingLog(death)
        died_at = None
        await self._run_to_end(log)
        writes = log.writes
        if log.died.done():
            died_at = log.read(ROOT)[-1] if log.summary(ROOT) is not None else None
            await log.close()
            log = CrashingLog(beside=log)
            await self._run_to_end(log)
        state = state_at(log, ROOT)
        net = self.catalog.net(self.performer.source)
        assert net is not None
        trouble = self.trouble.result() if self.trouble.done() else None
        calls, took = tuple(stage.made.values()), round(loop.time() - self.case.now, 3)
        return CaseOutcome(
            state, tuple(log.read(ROOT)), net, self.output, calls, writes, took, trouble, self.unsent, died_at
        )

    async def _run_to_end(self, log: CrashingLog) -> None:
        """Run until it is over, until it dies, or until something is wrong."""
        effects = Effects(self.loop.time, self._new_id, self._execution_id, lambda: 0.5)
        self.node = LocalNode(
            self.performer.settings, log, kinds=self.stage.kinds, catalog=self.catalog, effects=effects, alone=True
        )
        self.stage.load = self.node.results.load
        async with self.node:
            post = SignalSender(self.case.signals, self.node, log, self.loop, self.case.now)
            self.node.service.watchers.append(post.on_events)
            try:
                live = await self._begin(log)
                post.begin(live)
                over: list[asyncio.Future[Any]] = [self.trouble, log.died, live.finished]
                await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
                if live.finished.done():
                    live.finished.result()
                    self.output = await self.node.output(live)
            except StoreFailed:
                if not log.died.done():
                    raise
            finally:
                self.unsent = post.end()
            # What tools have started ends in its own time, and nothing follows from it.
            self.node.stop_polling()
            with self.loop.real():
                await self.node.runners.close()

    async def _begin(self, log: CrashingLog) -> LiveExecution:
        source = self.performer.source
        if log.summary(ROOT) is not None:
            return await self.node.resume(ROOT)
        net = self.catalog.net(source)
        assert net is not None
        return await self.node.start(source, net, self.case.payload, execution_id=ROOT)

    def _new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self.ids):012}"

    def _execution_id(self, _now: float) -> str:
        return f"{ROOT}-{next(self.children)}"

    def _playbook_of(self, execution_id: str) -> Any:
        live = self.node.service.live.get(execution_id)
        return live.net.playbook if live is not None else None

    def _stop(self, trouble: CaseError) -> None:
        if not self.trouble.done():
            self.trouble.set_result(trouble)

    def _on_late(self) -> None:
        message = f"the run takes more than {self.case.limit:g} s of real time"
        self._stop(CaseError(message, "look for a loop without an end, or give it more with `limit`"))

    def _on_stuck(self) -> None:
        waited = sorted({name for live in self.node.service.live.values() for name in live.state.listeners})
        if waited:
            names = ", ".join(f"`{name}`" for name in waited)
            fix = "send it with `signals`, or give the `wait` a `timeout`"
            self._stop(CaseError(f"the run waits for {names}, and nobody sends it", fix))
            return
        self._stop(CaseError("the run waits for something that never comes", "look at what it waits for"))


class SignalSender:
    """The signals of a case, each sent when its time has come; those that were received are not sent again."""

    def __init__(
        self, signals: tuple[SignalSpec, ...], node: LocalNode, log: CrashingLog, loop: VirtualTimeLoop, start: float
    ) -> None:
        self.node, self.loop, self.start = node, loop, start
        left = list(signals)
        for summary in log.summaries(limit=10_000):
            for event in log.read(summary.execution_id):
                if event.name == "signal.received":
                    first = next((one for one in left if one.name == event.payload["signal"]), None)
                    if first is not None:
                        left.remove(first)
        self.left = left
        self.timers: list[asyncio.TimerHandle] = []

    def begin(self, live: LiveExecution) -> None:
        """Set the timers, and look once: somebody may be waiting already."""
        for sent in [one for one in self.left if one.at is not None]:
            when = self.start + (sent.at or 0.0)
            self.timers.append(self.loop.call_at(max(when, self.loop.time()), self._send, live, sent))
        self.on_events(live, ())

    def on_events(self, live: LiveExecution, _events: tuple[Event, ...]) -> None:
        """Something happened: perhaps somebody waits now, or a step has ended."""
        for sent in list(self.left):
            if sent.at is not None:
                continue
            if sent.after is not None:
                info = live.state.steps.get(sent.after) if live.id == ROOT else None
                due = info is not None and info.status in ("done", "failed")
            else:
                due = sent.name in live.state.listeners
            if due:
                self._send(live, sent)

    def _send(self, live: LiveExecution, sent: SignalSpec) -> None:
        if sent in self.left:
            self.left.remove(sent)
            self.node.service.post(live.id, [Signal(sent.name, sent.data)])

    def end(self) -> tuple[SignalSpec, ...]:
        """Send nothing more; what was not sent."""
        left, self.left = tuple(self.left), []
        for timer in self.timers:
            timer.cancel()
        return left


def _ignore_killed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of an execution that was killed nobody hears how it ended."""
    if not isinstance(context.get("exception"), NoetlError):
        loop.default_exception_handler(context)
