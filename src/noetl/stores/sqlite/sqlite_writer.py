"""What writes to a SQLite file: whatever is wanted at the same time is committed in one transaction.

To hand work to a thread and to be woken by it takes as long as to write a few events. So where nothing has to be waited
for (no fsync, no other process, nothing queued, not much to write), what callers want in one turn of the event loop is
written right at its end.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from noetl.ports import StoreFailed
from noetl.stores.appends import Append, Heads, SqliteBatch
from noetl.stores.commit_queue import CommitQueue, Job, Ticket, answer, no_op, settle
from noetl.stores.sqlite.database_file import FATAL, explain_error, name_of
from noetl.stores.sqlite.locks import WriteLock

#: bytes written until they are moved from the WAL into the database proper
_CHECKPOINT = 16 << 20
#: what a commit writes to the WAL on top of the events
_COMMIT = 16 << 10
#: bytes that are written without the thread at most
_SMALL = 128 << 10
#: seconds to wait for other programs
_PATIENCE = 5.0


class SqliteWriter(CommitQueue):
    """The commit queue of one file."""

    def __init__(
        self, path: Path, lock: WriteLock, connect: Callable[[], sqlite3.Connection], *, at_once: bool
    ) -> None:
        super().__init__(str(path))
        self._path = path
        self._lock = lock
        self._connect = connect
        #: whether small things may be written without the thread
        self._at_once = at_once
        self._connection: sqlite3.Connection | None = None
        #: why nothing more is written
        self._refused: str | None = None
        self._heads: Heads = {}
        self._version = 0
        self._weight = 0

    def _write_inline(self, tickets: list[Ticket], loop: asyncio.AbstractEventLoop) -> list[Ticket]:  # noqa: ARG002
        return [] if self._try_write_now(tickets) else tickets

    def _try_write_now(self, tickets: list[Ticket]) -> bool:
        """Write something small here and now, if nothing has to be waited for."""
        if not self._at_once or self._queued or self._refused is not None:
            return False
        if sum(work.weight for work, _ in tickets if isinstance(work, Append)) > _SMALL or not self._lock.try_acquire():
            return False
        try:
            outcomes = self._transaction([work for work, _ in tickets])
        except Exception:  # noqa: BLE001  the thread will meet it again, and say so
            return False
        finally:
            self._lock.release()
        settle([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])
        if self._weight > _CHECKPOINT:
            self._enqueue([(no_op, None)])
        return True

    def _write(self, tickets: list[Ticket]) -> None:
        """All in one transaction; if that fails and the fault may be one ticket's, each in its own."""
        if self._refused is not None:
            answer([(reply, StoreFailed(self._refused)) for _, reply in tickets])
            return
        try:
            with self._lock:
                outcomes = self._transaction([work for work, _ in tickets], patience=_PATIENCE)
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            if len(tickets) > 1 and not isinstance(error, sqlite3.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            failure = self._to_failure(error)
            outcomes = [StoreFailed(*failure.args) for _ in tickets]
        answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(self, works: list[Append | Job], patience: float = 0) -> list[Any]:
        connection = self._begin(patience)
        try:
            self._notice_others(connection)
            group = SqliteBatch(connection, self._heads)
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
            self._to_failure(error)

    def _to_failure(self, error: Exception) -> StoreFailed:
        failure = error if isinstance(error, StoreFailed) else explain_error(error, self._path)
        if isinstance(error, sqlite3.Error) and name_of(error) in FATAL:
            self._refused = str(failure)
        return failure

    def _maintain(self) -> None:
        if self._weight > _CHECKPOINT:
            self._checkpoint()

    def _on_stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
