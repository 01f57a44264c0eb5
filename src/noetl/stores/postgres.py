"""PostgresLog: executions in a PostgreSQL database, which any number of processes on any machine may use.

Who runs executions says so again and again, from a thread of its own; by the database's clock it is believed to live
until some seconds after it last did.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

from noetl.ports import StoreFailed
from noetl.slots import Slots
from noetl.stores.desk import Job
from noetl.stores.pgclaims import Claims
from noetl.stores.pgears import Ears
from noetl.stores.pgfiles import connect, explained, prepare
from noetl.stores.pgslots import PgSlots
from noetl.stores.pgwriter import PgWriter
from noetl.stores.queries import queries
from noetl.stores.sqllog import SqlLog

if TYPE_CHECKING:
    import psycopg

_SQL = queries("postgres")


class PostgresLog(SqlLog):
    """An `EventLog`; an append survives what the database survives."""

    def __init__(self, url: str, *, lease_s: float = 10.0) -> None:
        self._url = url
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(6)}"
        self._readers: dict[int, psycopg.Connection[Any]] = {}
        self._closed = False
        first = self._readers[get_ident()] = connect(url)
        try:
            prepare(first)
        except BaseException:
            first.close()
            raise
        self._claims = Claims(lambda: connect(url), self._name, lease_s)
        self._slots = PgSlots(url, self._name)
        self._ears: Ears | None = None
        super().__init__(PgWriter(lambda: connect(url)))

    # --- what PostgreSQL does in its own way ------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        import psycopg

        given: Any = params
        if name in ("summaries", "unfinished"):
            given = dict(zip(("limit", "parent", "before"), params, strict=True))
        again = True
        while True:
            try:
                return self._reader().execute(_SQL[name], given).fetchall()
            except psycopg.Error as error:
                # The server may have been started anew since the last question; nothing was changed by this one.
                if not (again and self._reader_is_gone()):
                    raise explained(error) from error
                again = False

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        def write(connection: psycopg.Connection[Any]) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(_SQL[name], rows)

        return write

    async def claim(self, execution_id: str) -> bool:
        """See the port."""
        return await self._claims.claim(execution_id)

    def post(self, execution_id: str, body: bytes) -> None:
        """See the port. Not along with what else is written: who waits for the lock of an inbox must hold no other."""
        import psycopg

        self._rows("moment")  # finds out whether the connection still stands: behind a request nobody could tell
        try:
            self._reader().execute(_SQL["add_request"], (execution_id, body))
        except psycopg.Error as error:
            raise explained(error) from error

    def _alive(self, owners: Iterable[str]) -> set[str]:
        wanted = list(owners)
        return {row[0] for row in self._rows("alive", wanted)} if wanted else set()

    @property
    def me(self) -> str:
        return self._name

    def slots(self, clock: Callable[[], float]) -> Slots:  # noqa: ARG002  the database has its own
        """See `noetl.slots.KeepsSlots`."""
        return self._slots

    def listen(self, heard: Callable[[str], None]) -> None:
        """See the port."""
        self._ears = Ears(lambda: connect(self._url), heard)

    # --- executions that nobody has in memory (see `server.dormitory.Beds`) ------------------------------------------------

    async def attend(self) -> None:
        """Be known as one who wakes executions, also while owning none."""
        await self._claims.appear()

    async def lay_down(self, sleepers: list[tuple[str, float | None]]) -> None:
        """Keep executions with the times at which they are due, and own them no longer."""
        names, times = [one[0] for one in sleepers], [one[1] for one in sleepers]

        def write(connection: psycopg.Connection[Any]) -> None:
            connection.execute(_SQL["lay_down"], (names, times, self._name))

        await self._desk.ask(write)

    def to_wake(self, ahead_s: float, most: int) -> list[str]:
        """Those that are due within so many seconds, and those that somebody asks something of."""
        return [row[0] for row in self._rows("to_wake", ahead_s, most)]

    def left_behind(self, most: int) -> list[str]:
        """Executions that are under way and that no other process minds."""
        return [row[0] for row in self._rows("left_behind", self._name, most)]

    def not_owned(self, execution_ids: list[str]) -> list[str]:
        """Those that are not this process's, or not any more."""
        return [row[0] for row in self._rows("not_owned", execution_ids, self._name)]

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def damage(self) -> list[str]:
        """What is wrong with the store as a whole: that is for the database's own tools to say."""
        return []

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Inside of this, what this thread reads does not change."""
        reader = self._reader()
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            reader.execute("ROLLBACK")

    # --- connections -------------------------------------------------------------------------------------------------

    def _reader(self) -> psycopg.Connection[Any]:
        """This thread's connection. An id of a thread is used again only after its end, so is the connection."""
        if self._closed:
            raise StoreFailed("the database of executions is closed")
        found = self._readers.get(get_ident())
        if found is None or found.closed:
            found = self._readers[get_ident()] = connect(self._url)
        return found

    def _reader_is_gone(self) -> bool:
        found = self._readers.get(get_ident())
        return found is None or found.broken or found.closed

    async def close(self) -> None:
        """See the port."""
        if self._closed:
            return
        self._closed = True
        await self._desk.close()
        self._slots.close()
        if self._ears is not None:
            await asyncio.to_thread(self._ears.close)
        await self._claims.close()
        for connection in self._readers.values():
            connection.close()
        self._readers.clear()
