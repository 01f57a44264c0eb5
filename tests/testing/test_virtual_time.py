"""Skipped time: waiting takes none, unless something real is going on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from noetl.testing.virtual_time import VirtualTimeLoop

DAY = 86_400.0


def run(make: Any, *, start: float = 1_767_225_600.0, limit: float = 10) -> Any:
    loop = VirtualTimeLoop(start, limit=limit)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(make(loop))
        finally:
            loop.finish()


def test_two_days_pass_at_once_and_to_the_second() -> None:
    async def sleep(loop: VirtualTimeLoop) -> float:
        began = loop.time()
        await asyncio.sleep(2 * DAY)
        return loop.time() - began

    began = time.monotonic()
    assert round(run(sleep), 6) == 2 * DAY
    assert time.monotonic() - began < 60


def test_a_timeout_comes_before_what_takes_longer() -> None:
    async def work(_loop: VirtualTimeLoop) -> str:
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(10.001)
        except TimeoutError:
            return "late"
        return "in time"

    assert run(work) == "late"


def test_many_timers_of_odd_lengths_all_fire_in_order() -> None:
    async def work(_loop: VirtualTimeLoop) -> list[int]:
        fired: list[int] = []

        async def one(number: int) -> None:
            await asyncio.sleep(number * 0.1 + 1e-7 * number)
            fired.append(number)

        await asyncio.gather(*(one(number) for number in reversed(range(200))))
        return fired

    assert run(work) == list(range(200))


def test_while_something_real_runs_no_time_is_skipped() -> None:
    async def work(loop: VirtualTimeLoop) -> float:
        with loop.real():
            await asyncio.sleep(0.05)
        return loop.time()

    began = time.monotonic()
    run(work)
    assert time.monotonic() - began >= 0.045


def test_a_thread_is_waited_for_however_soon_a_timer_is_due() -> None:
    async def work(_loop: VirtualTimeLoop) -> str:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(lambda: time.sleep(0.05) or "done")

    assert run(work) == "done"


def test_who_waits_for_nothing_is_told() -> None:
    async def work(loop: VirtualTimeLoop) -> str:
        never = loop.create_future()
        loop.on_stuck = lambda: never.set_result("stuck")
        return await never

    assert run(work) == "stuck"


def test_a_loop_without_an_end_is_told_when_its_real_time_is_over() -> None:
    async def work(loop: VirtualTimeLoop) -> str:
        late = loop.create_future()
        loop.on_late = lambda: late.set_result("late")
        while not late.done():
            await asyncio.sleep(3600)
        return str(await late)

    assert run(work, limit=0.1) == "late"
