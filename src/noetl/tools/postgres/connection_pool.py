"""The connections of one execution to one database: as many as are wanted at once, up to a number, and kept warm."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection

from noetl.drivers.exhaustion import check_machine
from noetl.drivers.postgres import NoAddress, PostgresFailed, connection_arguments, from_connect_error
from noetl.tools.postgres.parameters import SETTINGS, prepare

#: so many statements are remembered with what was found out about them
_REMEMBERED = 1_000
_ELEMENTS = "SELECT oid, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END FROM pg_type WHERE oid = ANY(%s)"
_SETTINGS = "; ".join(f"SET {name} = '{value}'" for name, value in SETTINGS.items()).encode()


class PgPool:
    """Connections with one credential. One that broke is replaced by another when it is wanted."""

    def __init__(self, auth: Mapping[str, Any], size: int) -> None:
        self._auth = auth
        self._free: list[AsyncConnection[Any]] = []
        self._slots = asyncio.Semaphore(size)
        #: of statements with parameters whose types the server was asked for, what it said
        self.inferred: dict[str, list[int]] = {}
        #: statements whose texts and lists need a type of their own
        self.typed: set[str] = set()
        #: statements in which all equal expressions have to be one parameter
        self.shared: set[str] = set()
        #: types that are no part of PostgreSQL itself → the type of their elements; 0: they are no arrays
        self.elements: dict[int, int] = {}

    @classmethod
    async def open(cls, auth: Mapping[str, Any], size: int) -> PgPool:
        """A pool without connections: they are made when they are wanted."""
        return cls(auth, size)

    async def close(self) -> None:
        """Close the connections."""
        while self._free:
            await _close_quietly(self._free.pop())

    @asynccontextmanager
    async def connection(self, credential: str, connect_s: float | None = None) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection for a while; it is kept if it is open and idle after that. Failing: there is none to be had."""
        async with self._slots:
            found = await self._take_idle() or await self._connect(credential, connect_s)
            try:
                yield found
            finally:
                if not found.closed and found.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    self._free.append(found)
                else:
                    await _close_quietly(found)

    async def _take_idle(self) -> AsyncConnection[Any] | None:
        """One that is free and still there: a server that has something to say to an idle client says goodbye."""
        while self._free:
            found = self._free.pop()
            if not found.closed and not _has_input(found):
                return found
            await _close_quietly(found)
        return None

    async def _connect(self, credential: str, connect_s: float | None) -> AsyncConnection[Any]:
        try:
            given = connection_arguments(self._auth)
            if connect_s is not None:
                given["connect_timeout"] = max(1, round(connect_s))
            made = await AsyncConnection.connect(given.pop("conninfo", ""), autocommit=True, **given)
        except (psycopg.Error, OSError, UnicodeError, NoAddress) as error:
            check_machine(error)
            raise from_connect_error(error, credential) from None
        try:
            await configure(made)
        except psycopg.Error as error:
            await _close_quietly(made)
            raise from_connect_error(error, credential) from None
        prepare(made)
        return made

    async def learn_arrays(self, kinds: set[int]) -> None:
        """Find out which types are arrays; by the way, for the connection that has met them has its hands full."""
        with suppress(PostgresFailed, psycopg.Error):
            beside = await self._connect("its credential", None)
            try:
                found = await beside.execute(_ELEMENTS, [list(kinds)])
                self.elements |= {kind: int(element) async for kind, element in found}
            finally:
                await _close_quietly(beside)
        # Those that nobody else sees yet are left as the texts they are.
        self.elements |= dict.fromkeys(kinds - self.elements.keys(), 0)

    def remember(self, text: str, types: list[int]) -> None:
        """Keep what the server said of a statement."""
        if len(self.inferred) >= _REMEMBERED:
            self.inferred.pop(next(iter(self.inferred)))
        self.inferred[text] = types


async def configure(connection: AsyncConnection[Any]) -> None:
    """Have a session's texts written as they are read here."""
    await connection.execute(_SETTINGS)


def _has_input(connection: AsyncConnection[Any]) -> bool:
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


async def _close_quietly(connection: AsyncConnection[Any]) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.close()
