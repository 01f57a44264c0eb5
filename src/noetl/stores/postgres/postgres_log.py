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
from contextlib import contextmanager, suppress
from threading import Event as Flag, Thread, get_ident
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from noetl.drivers.postgres import is_lost
from noetl.ports import AccessStore, Slots, StoreFailed
from noetl.stores.access import SqlAccess
from noetl.stores.appends import queries
from noetl.stores.commit_queue import Job
from noetl.stores.postgres.claims import ClaimQueue, DatabaseClock
from noetl.stores.postgres.postgres_slots import PgSlots
from noetl.stores.postgres.postgres_writer import PgWriter
from noetl.stores.postgres.schema import Session, connect, explain_error, prepare
from noetl.stores.sql_log import SqlLog

if TYPE_CHECKING:
    import psycopg


# Ears: a thread that hears at once what others say through PostgreSQL. What it misses, looking now and then finds.


#: seconds after which it is looked whether to go on, and after which a connection that broke is made anew
_TURN_S = 0.5


class NotifyListener:
    """Listens to one channel, from the first time that somebody wants to know."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], heard: Callable[[str], None]) -> None:
        self._connect, self._on_notify = connect, heard
        self._over = Flag()
        self._thread = Thread(target=self._run, name="noetl-ears", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            # A database that is away is tried again; whatever was said meanwhile is found by looking.
            with suppress(Exception), self._connect() as connection:
                connection.execute("LISTEN noetl")
                self._on_notify("asked")
                while not self._over.is_set():
                    for one in connection.notifies(timeout=_TURN_S, stop_after=1):
                        self._on_notify(one.payload)
            self._over.wait(_TURN_S)

    def close(self) -> None:
        """Hear nothing more."""
        self._over.set()
        self._thread.join()


_SQL = queries("postgres")
#: queries whose parameters have names, in the order of `SqlLog`
_LISTED = ("limit", "parent", "before", "paths")
_NAMED = {"summaries": _LISTED, "unfinished": _LISTED, "summaries_between": ("first", "last", "limit", "paths")}


class PostgresLog(SqlLog):
    """An `EventLog`; an append survives what the database survives."""

    def __init__(self, url: str, *, lease_s: float = 10.0, clock: Callable[[], float] = time) -> None:
        self._url, self._lease_s = url, lease_s
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(6)}"
        #: thread → its session. An id of a thread is used again only after its end, so is the session
        self._readers: dict[int, Session] = {}
        self._closed = False
        try:
            prepare(self._reader())
        except BaseException:
            self._close_readers()
            raise
        self._claims = ClaimQueue(lambda: connect(url), self._name, lease_s, DatabaseClock(clock))
        self._slots = PgSlots(url, self._name)
        self._listener: NotifyListener | None = None
        self._set_clock()
        super().__init__(PgWriter(lambda: connect(url)))

    # --- what PostgreSQL does in its own way ------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        given: Any = params
        if (names := _NAMED.get(name)) is not None:
            given = dict(zip(names, params, strict=True))
        return self._ask(name, given, changes=False).fetchall()

    def _ask(self, name: str, given: Any, *, changes: bool) -> psycopg.Cursor[Any]:
        """Ask with this thread's session; if that is of no use any more, and nothing can have come of it, with another."""
        import psycopg

        again = True
        while True:
            try:
                return self._reader().execute(_SQL[name], given)
            except psycopg.Error as error:
                is_replaced = self._readers[get_ident()].note(error)
                if not (again and is_replaced) or (changes and is_lost(error)):
                    raise explain_error(error) from error
                again = False

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        def write(connection: psycopg.Connection[Any]) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(_SQL[name], rows)

        return write

    async def probe(self) -> None:
        """See the port. What claims and what appends have connections of their own: both write."""
        row = (self._name, self._lease_s)

        def write(connection: psycopg.Connection[Any]) -> None:
            connection.execute(_SQL["enrol"], row)

        await asyncio.gather(self._claims.register(), self._queue.submit(write))

    async def claim(self, execution_id: str) -> bool:
        """See the port."""
        return await self._claims.claim(execution_id)

    def post(self, execution_id: str, body: bytes) -> int:
        """See the port. Not along with what else is written: who waits for the lock of an inbox must hold no other."""
        row = self._write_now("add_request", (execution_id, body)).fetchone()
        assert row is not None
        return int(row[0])

    def _write_now(self, name: str, params: Any) -> psycopg.Cursor[Any]:
        """Write in this thread, in a transaction of its own."""
        self._rows("moment")  # finds out whether the connection still stands: after a statement nobody could tell
        return self._ask(name, params, changes=True)

    def access(self) -> AccessStore:
        """See `noetl.ports.access.HasAccess`."""
        return SqlAccess(self._rows, self._write_rows, self._append_audit, self._prune_audit)

    async def _write_rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement returns which writes. Not along with what else is written: it must hold no locks."""
        return await asyncio.to_thread(lambda: self._write_now(name, params).fetchall())

    async def _append_audit(self, row: tuple[Any, ...]) -> None:
        at, who, action, body = row
        await self._write_rows("append_audit", body, at, who, action)

    async def _prune_audit(self, before: str) -> int:
        return len(await self._write_rows("prune_audit", before))

    def _alive(self, owners: Iterable[str]) -> set[str]:
        wanted = list(owners)
        return {row[0] for row in self._rows("alive", wanted)} if wanted else set()

    @property
    def me(self) -> str:
        return self._name

    def _set_clock(self) -> None:
        asked = monotonic()
        now = self._rows("moment")[0][0]
        self._claims.clock.set(now, took=monotonic() - asked)

    def clock_offset(self) -> float:
        """See `noetl.ports.log.HasClock`."""
        return self._claims.clock.offset

    def slots(self, clock: Callable[[], float]) -> Slots:  # noqa: ARG002  the database has its own
        """See `noetl.ports.cluster.HasSlots`."""
        return self._slots

    def listen(self, heard: Callable[[str], None]) -> None:
        """See the port."""
        self._listener = NotifyListener(lambda: connect(self._url), heard)

    # --- executions that nobody has in memory (see `server.cluster.eviction.EvictionStore`) ------------------------------------------------

    async def register_waker(self) -> None:
        """Be known as one who wakes executions, also while owning none."""
        await self._claims.register()

    async def evict(self, idle: list[tuple[str, float | None]]) -> None:
        """Keep executions with the seconds until they are due, if ever, and own them no longer."""
        names, times = [one[0] for one in idle], [one[1] for one in idle]

        def write(connection: psycopg.Connection[Any]) -> None:
            connection.execute(_SQL["lay_down"], (names, times, self._name))

        await self._queue.submit(write)

    def find_due(self, ahead_s: float, most: int) -> list[str]:
        """Those that are due within so many seconds, and those that somebody asks something of."""
        return [row[0] for row in self._rows("to_wake", ahead_s, most)]

    def find_unowned(self, most: int) -> list[str]:
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
    def consistent_read(self) -> Iterator[None]:
        """Inside of this, what this thread reads does not change."""
        reader = self._reader()
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            reader.execute("ROLLBACK")

    # --- connections -------------------------------------------------------------------------------------------------

    def _reader(self) -> psycopg.Connection[Any]:
        """This thread's connection."""
        if self._closed:
            raise StoreFailed("the database of executions is closed")
        found = self._readers.get(get_ident())
        if found is None:
            found = self._readers[get_ident()] = Session(lambda: connect(self._url, reads=True))
        return found.open()

    def _close_readers(self) -> None:
        for session in self._readers.values():
            session.close()
        self._readers.clear()

    async def close(self) -> None:
        """See the port."""
        if self._closed:
            return
        self._closed = True
        await self._queue.close()
        self._slots.close()
        if self._listener is not None:
            await asyncio.to_thread(self._listener.close)
        await self._claims.close()
        self._close_readers()
