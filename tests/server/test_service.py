"""The service when something goes wrong in the midst of a decision: nobody waits for ever, nothing is given twice."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import NoetlError
from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.orders import Order
from noetl.model.requests import Cancel, OpenExecution, Pause, Signal
from noetl.ports import StoreFailed
from noetl.server.core.catalog import Catalog
from noetl.server.core.service import ExecutionService, LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.tools.registry import ToolKinds

WAITS = (
    b"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waits}\nworkflow:\n"
    b"  - {step: a, tool: {kind: wait, signal: go}}\n"
)


class Gate(MemoryLog):
    """A log that writes when it is let, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()
        self.fails: Exception | None = None

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        await self.open.wait()
        if self.fails is not None:
            raise self.fails
        await super().append(events, status=status, snapshot=snapshot)


class Hands:
    """Takes orders, and does nothing; or breaks."""

    def __init__(self) -> None:
        self.given: list[Order] = []
        self.heard: list[str] = []
        self.breaks = self.breaks_on_events = False

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        if self.breaks_on_events:
            raise RuntimeError("a mistake of ours")
        self.heard += [event.name for event in events]

    def give(self, live: LiveExecution, orders: Iterable[Order]) -> None:
        if self.breaks:
            raise RuntimeError("a mistake of ours")
        self.given += orders

    def on_end(self, live: LiveExecution) -> None:
        pass


def waiting_net() -> Net:
    net = Catalog(ToolKinds()).read(Path("waits.yaml"), WAITS)[1].net
    assert net is not None
    return net


class Desk:
    """A service with its log, its hands and one execution."""

    def __init__(self) -> None:
        self.log, self.hands = Gate(), Hands()
        self.service = ExecutionService(
            self.log, self.hands, Catalog(ToolKinds()), clock=lambda: 1.0, new_id=lambda: "id"
        )

    async def start(self) -> LiveExecution:
        return await self.service.start(waiting_net(), OpenExecution("x", "hash"))

    def names(self) -> list[str]:
        return [event.name for event in self.log.read("x")]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(coroutine: Any) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 60))


def test_a_reporter_that_is_stopped_does_not_take_the_decision_along() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.start()
        desk.log.open.clear()
        first = asyncio.ensure_future(desk.service.record("x", [Pause()]))
        await turns()
        second = asyncio.ensure_future(desk.service.record("x", [Cancel()]))
        await turns()
        first.cancel()
        await turns()
        desk.log.open.set()
        await second
        assert desk.names()[-1] == "playbook.processed"

    run(main())


def test_someone_who_looks_on_and_fails_does_not_end_the_run() -> None:
    async def main() -> None:
        desk = Desk()
        seen = []

        def broken(_live: LiveExecution, _events: tuple[Event, ...]) -> None:
            raise BrokenPipeError

        desk.service.watchers += [broken, lambda _live, events: seen.extend(events)]
        live = await desk.start()
        await desk.service.record("x", [Cancel()])
        await live.finished
        assert [event.name for event in seen] == desk.names()

    run(main())


def test_dispatch_that_fails_once_hears_of_all_that_follows() -> None:
    """It is no observer: without the events it would neither pause nor return slots."""

    async def main() -> None:
        desk = Desk()
        live = await desk.start()
        desk.hands.breaks_on_events = True
        desk.service.post("x", [Pause()])
        with pytest.raises(NoetlError, match="a mistake of ours"):
            await live.finished
        desk.hands.breaks_on_events = False
        again = await desk.service.take_over("x", waiting_net())
        desk.hands.heard.clear()
        await desk.service.record("x", [Cancel()])
        await again.finished
        assert desk.hands.heard[-1] == desk.names()[-1]

    run(main())


def test_orders_that_cannot_be_given_end_the_run_and_whoever_waits_hears_of_it() -> None:
    async def main() -> None:
        desk = Desk()
        live = await desk.start()
        desk.hands.breaks = True
        desk.service.post("x", [Signal("go")])
        with pytest.raises(NoetlError, match="a mistake of ours"):
            await live.finished
        assert "x" not in desk.service.live

    run(main())


def test_a_start_that_breaks_leaves_nothing_behind() -> None:
    async def main() -> None:
        desk = Desk()
        desk.hands.breaks = True
        with pytest.raises(RuntimeError):
            await desk.start()
        assert desk.service.live == {}

    run(main())


def test_a_store_that_fails_is_told_once_and_not_by_the_event_loop() -> None:
    told: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        desk = Desk()
        desk.log.fails = StoreFailed("full")
        with pytest.raises(StoreFailed):
            await desk.start()
        del desk
        gc.collect()
        await turns()

    run(main())
    assert told == []


def test_what_was_given_up_gets_no_more_orders_and_decides_nothing_more() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.start()
        given = len(desk.hands.given)
        desk.log.open.clear()
        desk.service.post("x", [Signal("go")])
        await turns()
        desk.service.post("x", [Pause()])
        desk.service.give_up("x", NoetlError("it broke"))
        desk.log.open.set()
        await turns()
        assert len(desk.hands.given) == given
        assert "execution.paused" not in desk.names()

    run(main())


def test_nothing_is_ordered_and_nobody_is_told_before_the_events_are_durable() -> None:
    """While the log blocks, and when it then fails, the world must not know of the decision."""

    async def main() -> None:
        desk = Desk()
        live = await desk.start()
        told: list[str] = []
        desk.service.watchers.append(lambda _live, events: told.extend(event.name for event in events))
        given, written = len(desk.hands.given), desk.names()
        desk.log.open.clear()
        desk.log.fails = StoreFailed("full")
        reported = asyncio.ensure_future(desk.service.record("x", [Signal("go"), Cancel()]))
        await turns()
        assert (desk.hands.given[given:], told, live.finished.done(), reported.done()) == ([], [], False, False)
        desk.log.open.set()
        with pytest.raises(StoreFailed):
            await reported
        await turns()
        assert (desk.hands.given[given:], told, desk.names()) == ([], [], written)

    run(main())


def test_a_start_that_is_not_durable_orders_nothing_and_tells_nobody() -> None:
    async def main() -> None:
        desk = Desk()
        told: list[Event] = []
        desk.service.watchers.append(lambda _live, events: told.extend(events))
        desk.log.open.clear()
        desk.log.fails = StoreFailed("full")
        starting = asyncio.ensure_future(desk.start())
        await turns()
        assert (desk.hands.given, told) == ([], [])
        desk.log.open.set()
        with pytest.raises(StoreFailed):
            await starting
        assert (desk.hands.given, told, desk.names()) == ([], [], [])

    run(main())


def test_a_snapshot_that_cannot_be_read_is_made_up_for_by_the_events() -> None:
    async def main() -> None:
        desk = Desk()
        live = await desk.start()
        await desk.service.record("x", [Cancel()])
        desk.log._shared.snapshots["x"] = {live.state.seq: b"\xc1 damaged"}
        assert desk.service.load("x") == live.state

    run(main())
