"""SqliteLog: executions in one SQLite file, which any number of processes may use side by side.

Beside the file lie `<name>.lock`, held by whoever writes, and `owners/`, a lock per process that runs executions.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, Literal

from noetl.model.wire import Answer, Ask, Key
from noetl.ports import Slots, StoreFailed
from noetl.stores.appends import queries
from noetl.stores.commit_queue import CommitQueue, Job
from noetl.stores.limit_rules import admit
from noetl.stores.sql_log import SqlLog
from noetl.stores.sql_slots import SqlSlotLedger, columns, holder_of
from noetl.stores.sqlite.database_file import connect, explain_error, prepare_database
from noetl.stores.sqlite.locks import Owners
from noetl.stores.sqlite.sqlite_writer import SqliteWriter

# Slots in the file of executions: judged under its lock for writing, by the clock of the machine.


_SLOT_SQL = queries("sqlite")


class _SqliteSlotLedger(SqlSlotLedger):
    """The books of a file: the kernel knows which owners live."""

    def __init__(self, connection: sqlite3.Connection, me: str, now: float, alive: Callable[[str], bool]) -> None:
        super().__init__(connection, _SLOT_SQL, me, now)
        self._alive = alive

    def forget_dead(self, key: str) -> None:
        """See `SlotLedger`."""
        lives: dict[str | None, bool] = {None: False}
        for number, over, owner in self._rows("slots_minded", key):
            if owner not in lives:
                lives[owner] = self._alive(owner)
            if over or not lives[owner]:
                self._do("forget_slot", number)

    def sweep(self) -> None:
        """Forget the slots of executions that are over, too."""
        super().sweep()
        self._do("sweep_slots")


class SqliteSlots(Slots):
    """`Slots` over the commit queue that writes the file."""

    def __init__(self, queue: CommitQueue, me: str, alive: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._queue, self._me, self._alive, self._clock = queue, me, alive, clock
        #: whether what other processes have left was cleared away
        self._swept = False

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """See the port."""
        sweeps, self._swept = not self._swept, True

        def judge(connection: sqlite3.Connection) -> list[Answer]:
            books = _SqliteSlotLedger(connection, self._me, self._clock(), self._alive)
            if sweeps:
                books.sweep()
            return admit(asks, books)

        answers: list[Answer] = await self._queue.submit(judge)
        return answers

    async def release(self, holders: Collection[Key]) -> None:
        """See the port."""
        rows = [columns(holder) for holder in holders]
        await self._queue.submit(lambda connection: connection.executemany(_SLOT_SQL["release_slot"], rows) and None)

    async def list_holders(self, execution_id: str) -> list[Key]:
        """See the port."""
        rows = await self._queue.submit(
            lambda it: it.execute(_SLOT_SQL["slots_of_execution"], (execution_id,)).fetchall()
        )
        return [holder_of(row) for row in rows]


_SQL = queries("sqlite")
#: how long what belonged to a process that has gone is waited for
_LETTING_GO_S = 2.0


class SqliteLog(SqlLog):
    """An `EventLog`. With `durability="process"` an append survives the end of the process, with `power` a power cut."""

    def __init__(self, path: Path, *, durability: Literal["process", "power"] = "process") -> None:
        self.path = path
        self._synchronous = "FULL" if durability == "power" else "NORMAL"
        #: thread → its connection, and the version of the data it last looked into the inbox of
        self._readers: dict[int, tuple[sqlite3.Connection, list[int]]] = {}
        self._closed = False
        self._lock, first = prepare_database(path)
        self._readers[get_ident()] = first, [-1]
        self._owners = Owners(path.parent / "owners")
        super().__init__(SqliteWriter(path, self._lock, self._connect_writer, at_once=durability == "process"))

    # --- what SQLite does in its own way --------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        try:
            return self._reader().execute(_SQL[name], params).fetchall()
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        return lambda connection: connection.executemany(_SQL[name], rows) and None

    async def claim(self, execution_id: str) -> bool:
        """See the port. What a process that has died owned is free as soon as that is known."""
        give_up = time.monotonic() + _LETTING_GO_S
        while (owner := await self._queue.submit(lambda connection: self._claim(connection, execution_id))) is not None:
            if not self._owners.is_gone(owner) or time.monotonic() > give_up:
                return False
            await asyncio.sleep(0.005)
        return True

    def _claim(self, connection: sqlite3.Connection, execution_id: str) -> str | None:
        """Own an execution; if it cannot be had, who has it."""
        self._owners.enrol()
        row = connection.execute(_SQL["owner"], (execution_id,)).fetchone()
        if row is not None and row[0] != self._owners.id and self._owners.alive(row[0]):
            return str(row[0])
        connection.execute(_SQL["own"], (execution_id, self._owners.id))
        return None

    def _alive(self, owners: Iterable[str]) -> set[str]:
        return {owner for owner in owners if self._owners.alive(owner)}

    @property
    def me(self) -> str:
        return self._owners.id

    def slots(self, clock: Callable[[], float]) -> Slots:
        """See `noetl.ports.cluster.HasSlots`."""
        return SqliteSlots(self._queue, self.me, self._owners.alive, clock)

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port. Costs next to nothing while nobody writes to the file."""
        try:
            version = self._reader().execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error
        seen = self._readers[get_ident()][1]
        if version == seen[0]:
            return []
        new = super().collect()
        # Not before: if they could not be read, they still wait.
        seen[0] = version
        return new

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        try:
            found = [row[0] for row in self._reader().execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error
        return [] if found == ["ok"] else found

    @contextmanager
    def consistent_read(self) -> Iterator[None]:
        """Inside of this, what this thread reads does not change."""
        reader = self._reader()
        reader.execute("BEGIN")
        try:
            yield
        finally:
            reader.execute("ROLLBACK")

    # --- connections -------------------------------------------------------------------------------------------------

    def _reader(self) -> sqlite3.Connection:
        """This thread's connection. An id of a thread is used again only after its end, so is the connection."""
        if self._closed:
            raise StoreFailed(f"{self.path} is closed")
        entry = self._readers.get(get_ident())
        if entry is None:
            connection = connect(self.path)
            connection.execute("PRAGMA query_only = ON")
            entry = self._readers[get_ident()] = connection, [-1]
        return entry[0]

    def _connect_writer(self) -> sqlite3.Connection:
        connection = connect(self.path, patience=0)  # the writer has patience of its own
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    async def close(self) -> None:
        """See the port."""
        if self._closed:
            return
        self._closed = True
        await self._queue.close()
        for connection, _ in self._readers.values():
            connection.close()
        self._readers.clear()
        self._owners.resign()
        self._lock.close()
