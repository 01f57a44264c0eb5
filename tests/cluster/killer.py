"""Killer: ends processes of an arena at random, from a seed, and has each of them started again; and what that cost in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from cluster_processes import LEASE_S, Arena, Member, is_there
from load import Load

from noetl.stores.postgres.postgres_log import PostgresLog

#: of ten kills
_SERVERS, _WORKERS = 3, 4
#: an execution in which nothing happened for so long was held up
_HELD_UP_S = 1.0
#: what processes and a machine that is shared with other tests take in addition
RECOVERY_S = LEASE_S + 2.0
#: one kill of so many stands alone, with none before and after it for as long as recovery may take, so that it can be seen
_ALONE = 20


class Kill(NamedTuple):
    """What was killed, and when."""

    at: float
    kind: str
    who: str


class Killer:
    """Kills servers, workers and tools."""

    def __init__(self, arena: Arena, seed: int, *, every: tuple[float, float], dead_s: float = 0.7) -> None:
        self._arena, self._chance = arena, random.Random(seed)
        self._every, self._dead_s = every, dead_s
        self.kills: list[Kill] = []
        #: when the database was there again, each time that it was away
        self.database_back: list[float] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, most: int) -> None:
        """Kill so many; returns when all that was killed has been started again."""
        try:
            while len(self.kills) < most:
                await asyncio.sleep(self._chance.uniform(*self._every))
                before = len(self.kills)
                alone = before % _ALONE == _ALONE - 1
                if alone:
                    await asyncio.sleep(RECOVERY_S)
                dice = self._chance.randrange(_SERVERS + _WORKERS if alone else 10)
                if dice < _SERVERS:
                    self._member("server", self._chance.choice(self._arena.servers))
                elif dice < _SERVERS + _WORKERS:
                    self._member("worker", self._chance.choice(self._arena.workers))
                else:
                    await self._tool()
                if alone and len(self.kills) > before:
                    await asyncio.sleep(RECOVERY_S)
        finally:
            await asyncio.gather(*self._tasks)

    def pace(self, most: int) -> Callable[[], float]:
        """How much of the load may have begun, from now on: a kill in a cluster without work would say little."""
        begun, takes = time.monotonic(), most * sum(self._every) / 2 + most // _ALONE * 2 * RECOVERY_S
        return lambda: 1.0 if len(self.kills) >= most else (time.monotonic() - begun) / takes

    def _member(self, kind: str, member: Member) -> None:
        if not member.lives:
            return
        member.kill()
        self.kills.append(Kill(time.time(), kind, member.name))
        task = asyncio.create_task(self._back(member, self._chance.uniform(0, self._dead_s)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _back(self, member: Member, after: float) -> None:
        await asyncio.sleep(after)
        member.start()

    async def _tool(self) -> None:
        """Kill a process that a task runs in, as soon as there is one."""
        for _ in range(100):
            found = [pid for worker in self._arena.workers for pid in worker.descendants()]
            if found:
                pid = self._chance.choice(found)
                with contextlib.suppress(ProcessLookupError):  # it was done before
                    os.kill(pid, signal.SIGKILL)
                    self.kills.append(Kill(time.time(), "tool", str(pid)))
                return
            await asyncio.sleep(0.01)

    # --- afterwards --------------------------------------------------------------------------------------------------

    def told(self, load: Load) -> dict[str, Any]:
        """How many of each, and how long executions were held up by them."""
        kinds = Counter(one.kind for one in self.kills)
        told: dict[str, Any] = {"kills": len(self.kills), **{f"of {kind}s": kinds[kind] for kind in sorted(kinds)}}
        times = _times(load)
        found = sorted(self.recoveries(times))
        if found:
            told |= {
                "held up": len(found),
                "recovery p50": found[len(found) // 2],
                "p99": found[len(found) * 99 // 100],
            }
            told["longest"] = found[-1]
        told["still"] = max(after - before for one in times for before, after in pairwise(one))
        return {name: round(value, 2) if isinstance(value, float) else value for name, value in told.items()}

    def recoveries(self, times: list[list[float]]) -> Iterator[float]:
        """For each time an execution stood still over a kill that stood alone: from then until it went on, or from when the
        database was back."""
        back, kills = sorted(self.database_back), self._alone()
        for before, after in (gap for one in times for gap in pairwise(one)):
            over = _within(kills, before, after)
            if over and after - before > _HELD_UP_S:
                yield after - max(over[:1] + _within(back, over[0], after))

    def _alone(self) -> list[float]:
        """When kills came that had none before and after them for as long as recovery may take."""
        kills = sorted(one.at for one in self.kills)
        return [
            at
            for before, at, after in zip([-inf, *kills], kills, [*kills[1:], inf], strict=False)
            if min(at - before, after - at) >= RECOVERY_S
        ]


def _times(load: Load) -> list[list[float]]:
    """When the events of each execution happened; but of those that wait for a signal, which nothing holds up."""
    names = [name for run, name in load.started.items() if run.kind != "ask"]
    log = PostgresLog(load.arena.postgres.url())
    try:
        return [[datetime.fromisoformat(event.timestamp).timestamp() for event in log.read(name)] for name in names]
    finally:
        asyncio.run(log.close())


def _within(moments: list[float], since: float, until: float) -> list[float]:
    """Those of some moments, in order, that lie in a time."""
    return moments[bisect_left(moments, since) : bisect_left(moments, until)]


def none_left(pids: list[int]) -> bool:
    """Whether all of these processes have ended."""
    return not any(is_there(pid) for pid in pids)
