"""Slots in PostgreSQL, by its clock. They have a connection of their own: who waits for a key holds up no append."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from noetl.model.wire import Answer, Ask, Key
from noetl.ports import Slots, StoreFailed
from noetl.stores.appends import queries
from noetl.stores.limit_rules import admit
from noetl.stores.postgres.schema import Session, connect, explain_error
from noetl.stores.sql_log import SqlSlotLedger, columns, holder_of

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_SQL = queries("postgres")


class _PgSlotLedger(SqlSlotLedger):
    """The books of a database, which knows itself who lives and what workers hold."""

    def forget_dead(self, key: str) -> None:
        """See `SlotLedger`."""
        self._do("forget_dead_slots", key)

    def sweep(self) -> None:
        """Forget the slots of executions that are over, too."""
        super().sweep()
        self._do("sweep_slots")


class PgSlots(Slots):
    """`Slots`; each key is locked while somebody asks for it, all keys of a question in one order."""

    def __init__(self, url: str, me: str) -> None:
        self._me = me
        self._lock = Lock()
        self._session = Session(lambda: connect(url))
        self._closed = False
        self._swept = False

    def _do(self, what: Callable[[psycopg.Connection[Any]], T]) -> T:
        import psycopg

        with self._lock:
            if self._closed:
                raise StoreFailed("the database of executions is closed")
            try:
                connection = self._session.open()
                with connection.transaction():
                    return what(connection)
            except psycopg.Error as error:
                self._session.note(error)
                raise explain_error(error) from error

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """See the port."""
        keys = sorted({one.key for ask in asks for one in (ask.cap, ask.pace) if one is not None})

        def judge(connection: psycopg.Connection[Any]) -> list[Answer]:
            connection.execute(_SQL["lock_keys"], (keys,))
            # Asked when the keys are locked: time passed meanwhile.
            row = connection.execute(_SQL["moment"]).fetchone()
            assert row is not None
            books = _PgSlotLedger(connection, _SQL, self._me, row[0])
            if not self._swept:
                self._swept = True
                books.sweep()
            return admit(asks, books)

        return await asyncio.to_thread(self._do, judge)

    async def release(self, holders: Collection[Key]) -> None:
        """See the port."""
        rows = [columns(holder) for holder in holders]
        given = [[row[at] for row in rows] for at in range(3)]
        await asyncio.to_thread(self._do, lambda it: it.execute(_SQL["release_slots"], given) and None)

    async def list_holders(self, execution_id: str) -> list[Key]:
        """See the port."""
        rows = await asyncio.to_thread(
            self._do, lambda it: it.execute(_SQL["slots_of_execution"], (execution_id,)).fetchall()
        )
        return [holder_of(row) for row in rows]

    def close(self) -> None:
        """Let go."""
        with self._lock:
            self._closed = True
            self._session.close()
