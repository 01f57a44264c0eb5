"""SqliteLog: executions in one SQLite file, which any number of processes may use side by side.

Beside the file lie `<name>.lock`, held by whoever writes, and `owners/`, a lock per process that runs executions.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, Literal

from noetl.ports import StoreFailed
from noetl.slots import Slots
from noetl.stores.desk import Job
from noetl.stores.failures import explained
from noetl.stores.files import connect, prepared
from noetl.stores.locks import Owners
from noetl.stores.queries import queries
from noetl.stores.sqliteslots import SqliteSlots
from noetl.stores.sqllog import SqlLog
from noetl.stores.writer import Writer

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
        self._lock, first = prepared(path)
        self._readers[get_ident()] = first, [-1]
        self._owners = Owners(path.parent / "owners")
        super().__init__(Writer(path, self._lock, self._connect_writer, at_once=durability == "process"))

    # --- what SQLite does in its own way --------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        try:
            return self._reader().execute(_SQL[name], params).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        return lambda connection: connection.executemany(_SQL[name], rows) and None

    async def claim(self, execution_id: str) -> bool:
        """See the port. What a process that has died owned is free as soon as that is known."""
        give_up = time.monotonic() + _LETTING_GO_S
        while (owner := await self._desk.ask(lambda connection: self._claim(connection, execution_id))) is not None:
            if not self._owners.gone(owner) or time.monotonic() > give_up:
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
        """See `noetl.slots.KeepsSlots`."""
        return SqliteSlots(self._desk, self.me, self._owners.alive, clock)

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port. Costs next to nothing while nobody writes to the file."""
        try:
            version = self._reader().execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise explained(error, self.path) from error
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
            raise explained(error, self.path) from error
        return [] if found == ["ok"] else found

    @contextmanager
    def standing(self) -> Iterator[None]:
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
        await self._desk.close()
        for connection, _ in self._readers.values():
            connection.close()
        self._readers.clear()
        self._owners.resign()
        self._lock.close()
