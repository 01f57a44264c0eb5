"""The ceiling: the least that any event-sourced engine in Python must do.

Two events a step, JSON bodies, one SQLite writer that commits whatever has gathered; a step's successor starts when the
step's end is committed. No language, no rules, no state: what an engine adds to this is its price.

    ceiling.py chain|fan|many N FULL|NORMAL FILE    prints items per second
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

import msgspec

Rows = list[tuple[int, int, str, bytes]]
PADDING = "." * 120


class Writer(threading.Thread):
    """Commits what has gathered, then tells everybody who waits."""

    def __init__(self, file: str, synchronous: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.file, self.synchronous, self.loop = file, synchronous, loop
        self.wanted: SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = SimpleQueue()

    def run(self) -> None:
        database = sqlite3.connect(self.file, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={self.synchronous}")
        database.execute("CREATE TABLE event(run, seq, name, body, PRIMARY KEY(run, seq)) WITHOUT ROWID")
        while (first := self.wanted.get()) is not None:
            group = [first]
            while not self.wanted.empty():
                one = self.wanted.get()
                if one is None:
                    self.wanted.put(None)
                    break
                group.append(one)
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO event VALUES(?,?,?,?)", [row for rows, _ in group for row in rows])
            database.execute("COMMIT")
            self.loop.call_soon_threadsafe(self.tell, [future for _, future in group])
        database.close()

    @staticmethod
    def tell(futures: list[asyncio.Future[None]]) -> None:
        for future in futures:
            future.set_result(None)

    def append(self, rows: Rows) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        self.wanted.put((rows, future))
        return future


class Run:
    """One execution."""

    def __init__(self, writer: Writer, number: int) -> None:
        self.writer, self.number, self.seq = writer, number, 0

    def event(self, name: str, **payload: Any) -> tuple[int, int, str, bytes]:
        self.seq += 1
        body = {"name": name, "run": self.number, "seq": self.seq, "at": time.time(), "more": PADDING, **payload}
        return self.number, self.seq, name, msgspec.json.encode(body)

    async def step(self, value: int) -> int:
        await self.writer.append([self.event("step.started", input=value), self.event("step.done", output=value)])
        return value


async def chain(writer: Writer, count: int) -> None:
    run = Run(writer, 1)
    for value in range(count):
        await run.step(value)


async def fan(writer: Writer, count: int) -> None:
    run, free = Run(writer, 1), asyncio.Semaphore(256)

    async def one(value: int) -> int:
        async with free:
            return await run.step(value)

    assert sum(await asyncio.gather(*map(one, range(count)))) == sum(range(count))


async def many(writer: Writer, count: int) -> None:
    async def five(number: int) -> None:
        run = Run(writer, number)
        for value in range(5):
            await run.step(value)

    await asyncio.gather(*map(five, range(count)))


async def main() -> None:
    mode, count, synchronous, file = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    writer = Writer(file, synchronous, asyncio.get_running_loop())
    writer.start()
    started = time.perf_counter()
    await {"chain": chain, "fan": fan, "many": many}[mode](writer, count)
    print(count / (time.perf_counter() - started))
    writer.wanted.put(None)
    writer.join()


asyncio.run(main())
