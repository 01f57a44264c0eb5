"""What writes to a SQLite file: whatever is wanted at the same time is committed in one transaction.

A thread takes what waits, writes it, and answers; callers queue up meanwhile, and are the next group. Each of them
still succeeds or fails alone. To hand work to a thread and to be woken by it takes as long as to write a few events,
though. So where nothing has to be waited for (no fsync, no other process, nothing queued, not much to write), what
callers want in one turn of the event loop is written right at its end.
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
from time import monotonic, sleep
from typing import Any

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
#: bytes that are written without the thread at most
_SMALL = 128 << 10
#: seconds to wait for other programs
_PATIENCE = 5.0


def nothing(connection: sqlite3.Connection) -> None:
    """To wait for what was wanted before, or to have the thread look after the WAL."""


def _stop(connection: sqlite3.Connection) -> None:
    """End the thread."""


class Writer:
    """Takes work from any thread, does it in order, and answers."""

    def __init__(
        self, path: Path, lock: WriteLock, connect: Callable[[], sqlite3.Connection], *, at_once: bool
    ) -> None:
        self._path = path
        self._lock = lock
        self._connect = connect
        #: whether small things may be written without the thread
        self._at_once = at_once
        self._queue: SimpleQueue[Any] = SimpleQueue()
        #: how much the thread has to do: while that is anything, the connection is the thread's
        self._queued = 0
        #: what is wanted in the present turn of an event loop
        self._wanted: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
        #: to be held for all of the above, and for writing without the thread
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
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        with self._gate:
            self._want(loop, (work, reply))
        return reply

    def put(self, work: Job) -> futures.Future[Any]:
        """Have something done behind all that was wanted before, where it is worth to block for it."""
        reply: futures.Future[Any] = futures.Future()
        with self._gate:
            self._check_open()
            self._hand_over()
            self._enqueue([(work, reply)])
        return reply

    def leave(self, work: Job) -> None:
        """Have something done along with the next that is wanted; nobody waits for it."""
        with self._gate:
            try:
                self._want(asyncio.get_running_loop(), (work, None))
            except RuntimeError:  # outside of an event loop
                self._check_open()
                self._enqueue([(work, None)])

    def _want(self, loop: asyncio.AbstractEventLoop, ticket: Ticket) -> None:
        self._check_open()
        wanted = self._wanted.get(loop)
        if wanted is None:
            wanted = self._wanted[loop] = []
            loop.call_soon(self._end_turn, loop)
        wanted.append(ticket)

    def _hand_over(self) -> None:
        """Give the thread what is wanted in turns that have not ended."""
        for loop in list(self._wanted):
            self._enqueue(self._wanted.pop(loop))

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed(f"{self._path} is closed")

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            tickets = self._wanted.pop(loop, None)
            if tickets is not None and not self._done_at_once(tickets):
                self._enqueue(tickets)

    def _done_at_once(self, tickets: list[Ticket]) -> bool:
        """Write something small here and now, if nothing has to be waited for."""
        if not self._at_once or self._queued or self._refused is not None:
            return False
        if sum(work.weight for work, _ in tickets if isinstance(work, Append)) > _SMALL or not self._lock.taken():
            return False
        try:
            outcomes = self._transaction([work for work, _ in tickets])
        except Exception:  # noqa: BLE001  the thread will meet it again, and say so
            return False
        finally:
            self._lock.release()
        _settle([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])
        if self._weight > _CHECKPOINT:
            self._enqueue([(nothing, None)])
        return True

    def _enqueue(self, tickets: list[Ticket]) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="noetl-store", daemon=True)
            self._thread.start()
        self._queued += len(tickets)
        for ticket in tickets:
            self._queue.put(ticket)

    async def close(self) -> None:
        """Do what waits, and end."""
        done = asyncio.get_running_loop().create_future()
        with self._gate:
            self._closed = True
            self._hand_over()
            self._enqueue([(_stop, done)])
            thread = self._thread
        await done
        if thread is not None:
            thread.join()

    # --- doing -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        stopped: Reply = None
        while stopped is None:
            taken = self._take()
            tickets = [ticket for ticket in taken if ticket[0] is not _stop]
            stopped = next((reply for work, reply in taken if work is _stop), None)
            if tickets:
                self._write(tickets)
            if self._weight > _CHECKPOINT:
                self._checkpoint()
            with self._gate:
                self._queued -= len(taken)
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
            with self._lock:
                outcomes = self._transaction([work for work, _ in tickets], patience=_PATIENCE)
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            if len(tickets) > 1 and not isinstance(error, sqlite3.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            failure = self._failed(error)
            outcomes = [StoreFailed(*failure.args) for _ in tickets]
        _answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(self, works: list[Append | Job], patience: float = 0) -> list[Any]:
        connection = self._begin(patience)
        try:
            self._notice_others(connection)
            group = Group(connection, self._heads)
            outcomes = [group.add(work) if isinstance(work, Append) else work(connection) for work in works]
            group.write()
            connection.execute("COMMIT")
            self._heads.update(group.heads)
        except BaseException:
            self._heads.clear()
            with suppress(sqlite3.Error):  # SQLite may have rolled it back itself
                connection.execute("ROLLBACK")
            raise
        self._weight += group.weight + _COMMIT
        return outcomes

    def _begin(self, patience: float) -> sqlite3.Connection:
        """Begin a transaction; programs that know nothing of our lock may be in the way for a while."""
        if self._connection is None:
            self._connection = self._connect()
        end = monotonic() + patience
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not name_of(error).startswith("SQLITE_BUSY") or monotonic() >= end:
                    raise
                sleep(0.005)
            else:
                return self._connection

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
    """Wake those who wait, from another thread: each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Reply, Any]]] = {}
    for reply, outcome in answers:
        if isinstance(reply, asyncio.Future):
            loops.setdefault(reply.get_loop(), []).append((reply, outcome))
        else:
            _settle([(reply, outcome)])
    for loop, waiting in loops.items():
        with suppress(RuntimeError):  # a loop that is closed waits for nothing
            loop.call_soon_threadsafe(_settle, waiting)


def _settle(answers: list[tuple[Reply, Any]]) -> None:
    for reply, outcome in answers:
        if reply is None or reply.done():  # nobody waits, or not any more
            continue
        if isinstance(outcome, Exception):
            reply.set_exception(outcome)
        else:
            reply.set_result(outcome)
