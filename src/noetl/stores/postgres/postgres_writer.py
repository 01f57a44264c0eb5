"""What writes to PostgreSQL: whatever waits is one transaction, and the database decides between those who write at once.

A group locks the executions it appends to, in one order, and finds where their logs end; all its events then go in one
statement. What is small and goes on where its log is known to end needs no thread (see `quick_append`). A connection that breaks is made anew for the next group: whoever waited is told that it failed, and looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from noetl.ports import OVER, Conflict, StoreFailed
from noetl.stores.appends import KEPT_SNAPSHOTS, Append, AppendBatch, Heads, key_conflict, queries, root
from noetl.stores.commit_queue import CommitQueue, Ticket, answer
from noetl.stores.postgres.quick_append import InlineWriter, record_heads
from noetl.stores.postgres.schema import Session, explain_error

if TYPE_CHECKING:
    import psycopg

_SQL = queries("postgres")
#: so many events are copied, not inserted
_MANY = 64
#: logs whose ends are remembered
_KNOWN = 10_000
#: refuses a second execution of one key
_KEY_INDEX = "execution_key"
_TYPES = ("text", "int8", "bytea", "bytea")


class PgWriter(CommitQueue):
    """The commit queue of one database."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        super().__init__("the database of executions")
        self._connect, self._session = connect, Session(connect)
        #: where logs end that this process writes to
        self._heads: Heads = {}
        self._inline: InlineWriter | None = None

    def _write_inline(self, tickets: list[Ticket], loop: asyncio.AbstractEventLoop) -> list[Ticket]:
        quick = self._inline
        if quick is None or not quick.takes(loop):
            return tickets
        # What was wanted before, and waits for the thread, is done before.
        behind = self._queued > 0 or any(not isinstance(work, Append) for work, _ in tickets)
        return quick.take(tickets, behind=behind)

    def _maintain(self) -> None:
        """Have a connection for what is small, as soon as the database is there; behind the answers, for it takes a while."""
        if len(self._heads) > _KNOWN:
            self._heads.clear()
        if self._session.is_open and self._inline is None:
            with suppress(Exception):  # the thread writes as well
                self._inline = InlineWriter(self._connect(), self._heads, self._hand_back)

    def _hand_back(self, tickets: list[Ticket]) -> None:
        """Have the thread write what could not be written without it."""
        with self._gate:
            self._enqueue(tickets)

    async def close(self) -> None:
        """Do what waits, and end."""
        if self._inline is not None:
            await self._inline.wait_idle()
        await super().close()
        if self._inline is not None:
            self._inline.close()

    def _write(self, tickets: list[Ticket]) -> None:
        """All in one transaction; if that fails and the fault may be one ticket's, each in its own."""
        import psycopg

        try:
            outcomes = self._transaction([work for work, _ in tickets])
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            spent = self._session.note(error)
            if len(tickets) > 1 and not spent and not isinstance(error, psycopg.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            outcomes = [self._to_failure(error, work) for work, _ in tickets]
        answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(self, works: Sequence[Any]) -> list[Any]:
        if self._inline is not None and self._inline.broken:  # so is this one, most likely
            self._inline = None
            self._session.close()
        connection = self._session.open()
        appends = [work for work in works if isinstance(work, Append)]
        few = sum(len(append.bodies) for append in appends) < _MANY
        try:
            # What only appends, and not much, takes two round trips: to where the logs end, and to the end of it.
            with connection.pipeline() if few and len(appends) == len(works) else nullcontext():
                connection.execute("BEGIN")
                group = _PgBatch(connection, appends)
                outcomes = [group.add(work) if isinstance(work, Append) else work(connection) for work in works]
                group.write()
                connection.execute("COMMIT")
            record_heads(self._heads, group)
        except BaseException:
            with suppress(Exception):  # one that is broken cannot, and need not
                connection.rollback()
            raise
        return outcomes

    def _to_failure(self, error: Exception, work: Any) -> Exception:
        import psycopg

        if isinstance(error, psycopg.errors.UniqueViolation) and isinstance(work, Append):
            key = work.opening.key if work.opening is not None else None
            if key is not None and error.diag.constraint_name == _KEY_INDEX:
                return key_conflict(key, work.execution_id)
            return Conflict(f"somebody else wrote event {work.first} of {work.execution_id}")
        return StoreFailed(str(error if isinstance(error, StoreFailed) else explain_error(error)))

    def _on_stop(self) -> None:
        self._session.close()


class _PgBatch(AppendBatch):
    """The appends of one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], appends: list[Append]) -> None:
        super().__init__()
        self._connection = connection
        ids = sorted({append.execution_id for append in appends})
        rows = connection.execute(_SQL["heads"], (ids,)).fetchall() if ids else []
        self._known: Heads = {row[0]: (row[1], row[2]) for row in rows}

    def _head(self, execution_id: str) -> tuple[int, bytes]:
        return self._known.get(execution_id) or (0, root(execution_id))

    def write(self) -> None:
        """Write all that was taken in; the answers are waited for once."""
        if not self.events:
            return
        execute = self._connection.execute
        ends = [
            (name, one.status, one.updated_at, *self.heads[name], one.status in OVER) for name, one in self.last.items()
        ]
        many = len(self.events) >= _MANY
        if many:
            self._copy()
        with self._connection.pipeline():
            if self.openings:
                self.sort_openings()
                execute(_SQL["add_executions"], _columns(self.openings))
            if not many:
                execute(_SQL["add_events"], _columns(self.events))
            execute(_SQL["update_executions"], _columns(ends))
            for snapshot in self.snapshots:
                execute(_SQL["add_snapshot"], snapshot)
                execute(_SQL["forget_snapshots"], {"id": snapshot[0], "kept": KEPT_SNAPSHOTS})

    def _copy(self) -> None:
        """Write the events as PostgreSQL takes them most easily; which costs a round trip more."""
        with self._connection.cursor() as cursor, cursor.copy(_SQL["copy_events"]) as copy:
            copy.set_types(_TYPES)
            for event in self.events:
                copy.write_row(event)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
