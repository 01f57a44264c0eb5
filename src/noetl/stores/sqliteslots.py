"""Slots in the file of executions: judged under its lock for writing, by the clock of the machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence

from noetl.model.limits import Answer, Ask
from noetl.model.wire import Key
from noetl.slots import Slots
from noetl.stores.admitting import admit
from noetl.stores.desk import Desk
from noetl.stores.queries import queries
from noetl.stores.sqlbooks import SqlBooks, columns, holder_of

_SQL = queries("sqlite")


class _Books(SqlBooks):
    """The books of a file: the kernel knows which owners live."""

    def __init__(self, connection: sqlite3.Connection, me: str, now: float, alive: Callable[[str], bool]) -> None:
        super().__init__(connection, _SQL, me, now)
        self._alive = alive

    def forget_dead(self, key: str) -> None:
        """See `Books`."""
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
    """`Slots` over the desk that writes the file."""

    def __init__(self, desk: Desk, me: str, alive: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._desk, self._me, self._alive, self._clock = desk, me, alive, clock
        #: whether what other processes have left was cleared away
        self._swept = False

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """See the port."""
        sweeps, self._swept = not self._swept, True

        def judge(connection: sqlite3.Connection) -> list[Answer]:
            books = _Books(connection, self._me, self._clock(), self._alive)
            if sweeps:
                books.sweep()
            return admit(asks, books)

        answers: list[Answer] = await self._desk.ask(judge)
        return answers

    async def release(self, holders: Collection[Key]) -> None:
        """See the port."""
        rows = [columns(holder) for holder in holders]
        await self._desk.ask(lambda connection: connection.executemany(_SQL["release_slot"], rows) and None)

    async def held(self, execution_id: str) -> list[Key]:
        """See the port."""
        rows = await self._desk.ask(lambda it: it.execute(_SQL["slots_of_execution"], (execution_id,)).fetchall())
        return [holder_of(row) for row in rows]
