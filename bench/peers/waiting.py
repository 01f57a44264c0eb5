"""Many executions that wait: what they cost their server, how late their times come, and how soon it is back after its death."""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import datetime
from typing import Any, Protocol

from fleet import Client, Fleet, Services

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waiting}\nworkflow:\n"
SIGNAL = HEAD + "- {step: wait, tool: {kind: wait, signal: go, timeout: 86400}}\n"
TIMER = HEAD + '- {step: wait, tool: {kind: wait, seconds: "{{ workload.seconds }}"}}\n'
NOOP = HEAD + "- {step: only, tool: {kind: noop}}\n"
#: timers that are due while it is measured, and over how many seconds they are spread
TIMERS, SPREAD_S = 500, 50
#: seconds that are given to those who are still to lie down
REST_S = 10
MOST_MB, MOST_LATE_S, MOST_BACK_S = 2_000.0, 1.0, 10.0


class Rows(Protocol):
    """A table of figures."""

    def row(self, name: str, value: str, against: str, ratio: float, limit: float, *, most: bool = False) -> None:
        """Add a figure."""


def waiting(services: Services, table: Rows, count: int) -> None:
    """Fill a cluster with executions that wait, half for a signal and half for a time, and look."""
    with Fleet(services) as fleet:
        began = time.monotonic()
        asyncio.run(_fill(fleet.url, count))
        print(f"{count:,} executions wait; it took {time.monotonic() - began:,.0f} s to start them")
        late = asyncio.run(_lateness(fleet.url))
        peak = fleet.server.peak_mb()
        fleet.server.end(at_once=True)
        back = asyncio.run(_back(fleet))
        peak = max(peak, fleet.server.peak_mb())
    name = f"{count:,} waiting: memory of the server"
    p99 = statistics.quantiles(late, n=100)[98]
    table.row(name, f"{peak:,.0f} MB", f"of {MOST_MB:,.0f} MB", peak / MOST_MB, 1, most=True)
    table.row("  timers late, p99", f"{p99:.2f} s", f"of {MOST_LATE_S:g} s", p99 / MOST_LATE_S, 1, most=True)
    table.row("  killed to first dispatch", f"{back:.1f} s", f"of {MOST_BACK_S:g} s", back / MOST_BACK_S, 1, most=True)


async def _fill(url: str, count: int) -> None:
    gate = asyncio.Semaphore(32)
    async with Client(url) as client:

        async def start(number: int) -> None:
            async with gate:
                wish = (TIMER, {"seconds": 86_400}) if number % 2 else (SIGNAL, {})
                await client.start(*wish)

        for at in range(0, count, 1_000):
            await asyncio.gather(*(start(number) for number in range(at, min(at + 1_000, count))))
    await asyncio.sleep(REST_S)


async def _lateness(url: str) -> list[float]:
    """By how many seconds timers came late; their executions lie with all the others until then."""
    async with Client(url) as client:
        names = []
        for number in range(TIMERS):
            seconds = 20 + SPREAD_S * number / TIMERS
            names.append(await client.start(TIMER, {"seconds": seconds}))
        await asyncio.sleep(20 + SPREAD_S)
        return [await _late(client, name) for name in names]


async def _late(client: Client, name: str) -> float:
    ended = await client.end(name, 0.2)
    events: list[dict[str, Any]] = (await client.get(f"/api/executions/{name}/events"))["events"]
    begun = next(one["timestamp"] for one in events if one["name"] == "task.started")
    seconds = next(one for one in events if one["name"] == "playbook.execution.requested")["payload"]["workload"][
        "seconds"
    ]
    return ended - datetime.fromisoformat(begun).timestamp() - float(seconds)


async def _back(fleet: Fleet) -> float:
    """Seconds from the start of a new server until a pipeline it was asked for has run."""
    began = time.monotonic()
    await asyncio.to_thread(fleet.serve)
    async with Client(fleet.url) as client:
        await client.end(await client.start(NOOP), 0.02)
    return time.monotonic() - began
