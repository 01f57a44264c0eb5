"""The one thread that writes to a SQLite file. Whatever waits for it is committed in one transaction.

A transaction takes some 40 µs however much is in it, so the more there is to do, the less each has to wait: callers
queue up while a group is being written, and are the next group. Each of them still succeeds or fails alone.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

from noetl.ports import StoreFailed
from noetl.stores.appends import Append, Group, Heads
from noetl.stores.failures import FATAL, explained, name_of
from noetl.stores.locks import WriteLock

#: something to be done inside of a transaction, other than appending
Job = Callable[[sqlite3.Connection], Any]
#: None: nobody waits
Reply = asyncio.Future[Any] | futures.Future[Any] | None
Ticket = tuple[Append | Job, Reply]

#: so that a flood does not make the first of a group wait for all of it
_MOST = 1024
#: bytes written until they are moved from the WAL into the database proper
_CHECKPOINT = 16 << 20
#: what a commit writes to the WAL on top of the events
_COMMIT = 16 << 10
_STOP: Final = object()


class Writer:
    """Takes work from any thread, does it in order, and answers."""

    def __init__(self, path: Path, lock: WriteLock, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._lock = lock
        self._connect = connect
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._gate = Lock()
        self._thread: Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        #: why nothing more is written
        self._refused: str | None = None
        self._heads: Heads = {}
        self._version = 0
        self._weight = 0

    # --- asking ------------------------------------------------------------------------------------------------------

    def ask(self, work: Append | Job) -> asyncio.Future[Any]:
        """Have something done; await what comes of it."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(work, reply)
        return reply

    def put(self, work: Job) -> futures.Future[Any]:
        """Have something done, from outside of an event loop or because it is worth blocking it."""
        reply: futures.Future[Any] = futures.Future()
        self._put(work, reply)
        return reply

    def _put(self, work: Append | Job, reply: Reply) -> None:
        with self._gate:
            if self._closed:
                raise StoreFailed(f"{self._path} is closed")
            if self._thread is None:
                self._thread = Thread(target=self._run, name="noetl-store", daemon=True)
                self._thread.start()
            self._queue.put((work, reply))

    async def close(self) -> None:
        """Do what waits, and end."""
        with self._gate:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            done = asyncio.get_running_loop().create_future()
            self._queue.put((_STOP, done))
            await done
            thread.join()

    # --- doing -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        stopped: Reply = None
        while stopped is None:
            tickets: list[Ticket] = []
            for work, reply in self._take():
                if work is _STOP:
                    stopped = reply
                else:
                    tickets.append((work, reply))
            if tickets:
                self._write(tickets)
            if self._weight > _CHECKPOINT:
                self._checkpoint()
        if self._connection is not None:
            self._connection.close()
        _answer([(stopped, None)])

    def _take(self) -> list[Any]:
        """Everything that waits, or the next thing that comes."""
        taken = [self._queue.get()]
        with suppress(Empty):
            while len(taken) < _MOST:
                taken.append(self._queue.get_nowait())
        return taken

    def _write(self, tickets: list[Ticket]) -> None:
        """All in one transaction; if that fails and the fault may be one ticket's, each in its own."""
        if self._refused is not None:
            _answer([(reply, StoreFailed(self._refused)) for _, reply in tickets])
            return
        try:
            outcomes = self._transaction([work for work, _ in tickets])
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            if len(tickets) > 1 and not isinstance(error, sqlite3.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            failure = self._failed(error)
            outcomes = [StoreFailed(*failure.args) for _ in tickets]
        _answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(self, works: list[Append | Job]) -> list[Any]:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._notice_others(connection)
                group = Group(connection, self._heads)
                outcomes = [group.add(work) if isinstance(work, Append) else work(connection) for work in works]
                group.write()
                connection.execute("COMMIT")
            except BaseException:
                self._heads.clear()
                with suppress(sqlite3.Error):  # SQLite may have rolled it back itself
                    connection.execute("ROLLBACK")
                raise
        self._heads.update(group.heads)
        self._weight += group.weight + _COMMIT
        return outcomes

    def _notice_others(self, connection: sqlite3.Connection) -> None:
        """What is remembered of the logs' ends holds until somebody else writes to the file."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._heads) > 10_000:
            self._heads.clear()
            self._version = version

    def _checkpoint(self) -> None:
        """Done here and not by SQLite, which would not tell of an fsync that failed; and behind the answers."""
        self._weight = 0
        try:
            with self._lock:
                assert self._connection is not None
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (sqlite3.Error, StoreFailed) as error:
            # No space, say: the WAL holds everything meanwhile.
            self._failed(error)

    def _failed(self, error: Exception) -> StoreFailed:
        failure = error if isinstance(error, StoreFailed) else explained(error, self._path)
        if isinstance(error, sqlite3.Error) and name_of(error) in FATAL:
            self._refused = str(failure)
        return failure


def _answer(answers: list[tuple[Reply, Any]]) -> None:
    """Wake those who wait: each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for reply, outcome in answers:
        if isinstance(reply, asyncio.Future):
            loops.setdefault(reply.get_loop(), []).append((reply, outcome))
        elif reply is not None:
            _settle(reply, outcome)
    for loop, waiting in loops.items():
        with suppress(RuntimeError):  # a loop that is closed waits for nothing
            loop.call_soon_threadsafe(_settle_all, waiting)


def _settle_all(waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for reply, outcome in waiting:
        if not reply.done():  # who was cancelled does not ask any more
            _settle(reply, outcome)


def _settle(reply: asyncio.Future[Any] | futures.Future[Any], outcome: Any) -> None:
    if isinstance(outcome, Exception):
        reply.set_exception(outcome)
    else:
        reply.set_result(outcome)
