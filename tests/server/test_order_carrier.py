"""Times to come: each is told once, and those of executions that are gone are not kept."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from noetl.model.events import Event
from noetl.model.orders import WakeAt
from noetl.server.core.order_carrier import _STALE, OrderCarrier
from noetl.server.core.service import LiveExecution


class Around:
    """Executor and office at once: hears who is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[str] = []
        self.errands = OrderCarrier(cast("Any", self), cast("Any", self), lambda: self.now)

    def on_events(self, live: LiveExecution, events: tuple[Event, ...]) -> None:
        pass

    def on_end(self, live: LiveExecution) -> None:
        pass

    def due(self, execution_id: str) -> None:
        self.told.append(execution_id)

    def pass_time(self, now: float) -> None:
        self.now = now
        self.errands._on_alarm()


def live(name: str) -> LiveExecution:
    return cast("LiveExecution", SimpleNamespace(id=name, lost=False, ahead=0.0))


async def sleepless() -> None:
    around, others = Around(), [live(f"x{at}") for at in range(10)]
    errands = around.errands
    for one in others:
        errands.give(one, [WakeAt(50.0), WakeAt(100.0), WakeAt(100.0)])
    for _ in range(5 * _STALE):  # it comes into the memory, and leaves it again
        sleeper = live("sleeper")
        errands.give(sleeper, [WakeAt(1e9)])
        errands.on_end(sleeper)
    assert len(errands._times) <= _STALE + 3 * len(others)
    assert list(errands._minded) == [one.id for one in others]
    around.pass_time(60.0)
    assert sorted(around.told) == sorted(one.id for one in others)
    errands.on_end(others.pop())
    around.told.clear()
    around.pass_time(100.0)
    assert sorted(around.told) == sorted(one.id for one in others)
    assert errands._minded == {}


def test_those_who_come_and_go_leave_no_times_behind_and_the_others_are_told() -> None:
    asyncio.run(sleepless())


async def come_back() -> None:
    around, before, now = Around(), live("x"), live("x")
    errands = around.errands
    errands.give(before, [WakeAt(10.0), WakeAt(20.0)])
    errands.give(now, [WakeAt(10.0)])
    errands.on_end(before)
    around.pass_time(30.0)
    assert around.told == ["x"]
    assert (errands._times, errands._minded, errands._stale) == ([], {}, 0)
    before.lost = True
    errands.give(before, [WakeAt(40.0)])
    assert errands._times == []


def test_one_that_is_back_is_told_though_its_former_self_ends_only_now() -> None:
    asyncio.run(come_back())
