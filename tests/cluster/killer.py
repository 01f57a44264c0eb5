"""Killer: ends processes of an arena at random, from a seed, and has each of them started again; and what that cost in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from arena import Arena, Member, is_there
from load import Load

from noetl.stores.postgres import PostgresLog

#: of ten kills
_SERVERS, _WORKERS = 3, 4
#: an execution in which nothing happened for so long was held up
_HELD_UP_S = 1.0


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
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, most: int) -> None:
        """Kill so many; returns when all that was killed has been started again."""
        try:
            while len(self.kills) < most:
                await asyncio.sleep(self._chance.uniform(*self._every))
                dice = self._chance.randrange(10)
                if dice < _SERVERS:
                    self._member("server", self._chance.choice(self._arena.servers))
                elif dice < _SERVERS + _WORKERS:
                    self._member("worker", self._chance.choice(self._arena.workers))
                else:
                    await self._tool()
        finally:
            await asyncio.gather(*self._tasks)

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
        found = sorted(self.recoveries(load))
        kinds = Counter(one.kind for one in self.kills)
        told: dict[str, Any] = {"kills": len(self.kills), **{f"of {kind}s": kinds[kind] for kind in sorted(kinds)}}
        if found:
            told |= {
                "held up": len(found),
                "recovery p50": found[len(found) // 2],
                "p99": found[len(found) * 99 // 100],
            }
            told["longest"] = found[-1]
        return {name: round(value, 2) if isinstance(value, float) else value for name, value in told.items()}

    def recoveries(self, load: Load) -> list[float]:
        """For each time an execution stood still over a kill: from the last kill in that time until it went on."""
        log = PostgresLog(load.arena.postgres.url())
        try:
            return [one for name in load.started.values() for one in self._of(log, name)]
        finally:
            asyncio.run(log.close())

    def _of(self, log: PostgresLog, execution_id: str) -> list[float]:
        times = [datetime.fromisoformat(event.timestamp).timestamp() for event in log.read(execution_id)]
        found = []
        for before, after in pairwise(times):
            over = [one.at for one in self.kills if before <= one.at < after]
            if over and after - before > _HELD_UP_S:
                found.append(after - max(over))
        return found


def none_left(pids: list[int]) -> bool:
    """Whether all of these processes have ended."""
    return not any(is_there(pid) for pid in pids)
