"""What writes to PostgreSQL: whatever waits is one transaction, and the database decides between those who write at once.

A group locks the executions it appends to, in one order, and finds where their logs end; all its events then go in one
statement. A connection that breaks is made anew for the next group: whoever waited is told that it failed, and looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.ports import OVER, Conflict, StoreFailed
from noetl.stores.appends import KEPT_SNAPSHOTS, Append, behind
from noetl.stores.chain import link, root
from noetl.stores.desk import Desk, Ticket, answer
from noetl.stores.pgfiles import explained
from noetl.stores.queries import queries

if TYPE_CHECKING:
    import psycopg

_SQL = queries("postgres")


class PgWriter(Desk):
    """The desk of one database."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        super().__init__("the database of executions")
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None

    def _write(self, tickets: list[Ticket]) -> None:
        """All in one transaction; if that fails and the fault may be one ticket's, each in its own."""
        import psycopg

        try:
            outcomes = self._transaction([work for work, _ in tickets])
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            if len(tickets) > 1 and not isinstance(error, psycopg.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            outcomes = [self._failed(error, work) for work, _ in tickets]
        answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(self, works: Sequence[Any]) -> list[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        try:
            with self._connection.transaction():
                group = _Group(self._connection, [work for work in works if isinstance(work, Append)])
                outcomes = [group.add(work) if isinstance(work, Append) else work(self._connection) for work in works]
                group.write()
        except BaseException:
            if self._connection.broken:
                with suppress(Exception):
                    self._connection.close()
                self._connection = None
            raise
        return outcomes

    def _failed(self, error: Exception, work: Any) -> Exception:
        import psycopg

        if isinstance(error, psycopg.errors.UniqueViolation) and isinstance(work, Append):
            return Conflict(f"somebody else wrote event {work.first} of {work.execution_id}")
        return StoreFailed(str(error if isinstance(error, StoreFailed) else explained(error)))

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()


class _Group:
    """The appends of one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], appends: list[Append]) -> None:
        self._connection = connection
        self._heads: dict[str, tuple[int, bytes]] = {}
        ids = sorted({append.execution_id for append in appends})
        if ids:
            rows = connection.execute(_SQL["heads"], (ids,)).fetchall()
            self._heads = {row[0]: (row[1], row[2]) for row in rows}
        self._events: list[tuple[str, int, bytes, bytes]] = []
        self._openings: list[tuple[Any, ...]] = []
        self._updates: dict[str, tuple[Any, ...]] = {}
        self._snapshots: list[tuple[str, int, bytes]] = []

    def add(self, append: Append) -> Conflict | None:
        """Take one in, unless the log has gone on without it."""
        execution_id = append.execution_id
        seq, digest = self._heads.get(execution_id) or (0, root(execution_id))
        if append.first != seq + 1:
            return behind(seq, execution_id, append.first)
        for body in append.bodies:
            seq += 1
            digest = link(digest, body)
            self._events.append((execution_id, seq, body, digest))
        self._heads[execution_id] = seq, digest
        if append.opening is not None:
            self._openings.append((execution_id, *append.opening))
        over = append.status in OVER
        self._updates[execution_id] = execution_id, append.status, append.updated_at, seq, digest, over
        if append.snapshot is not None:
            self._snapshots.append((execution_id, seq, append.snapshot))
        return None

    def write(self) -> None:
        """Write all that was taken in; the answers are waited for once."""
        if not self._events:
            return
        with self._connection.pipeline():
            if self._openings:
                self._connection.execute(_SQL["add_executions"], _columns(self._openings))
            self._connection.execute(_SQL["add_events"], _columns(self._events))
            self._connection.execute(_SQL["update_executions"], _columns(list(self._updates.values())))
            for snapshot in self._snapshots:
                self._connection.execute(_SQL["add_snapshot"], snapshot)
                kept = {"id": snapshot[0], "kept": KEPT_SNAPSHOTS}
                self._connection.execute(_SQL["forget_snapshots"], kept)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
