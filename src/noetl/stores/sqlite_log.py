"""SqliteLog: executions in one SQLite file, which any number of processes may share; its writer and its slots.

Beside the file are `<name>.lock`, held by the process that writes, and a folder with a lock per process that runs
executions, see `owners_folder`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import get_ident
from time import monotonic, sleep
from typing import Any, Literal

from noetl.model.wire import Answer, Ask, Key
from noetl.ports import AccessStore, Slots, StoreFailed
from noetl.stores.access import SqlAccess
from noetl.stores.appends import Append, Heads, SqliteBatch, link, queries
from noetl.stores.commit_queue import CommitQueue, Job, Ticket, answer, no_op, settle
from noetl.stores.limit_rules import admit
from noetl.stores.sql_log import SqlLog, SqlSlotLedger, columns, holder_of
from noetl.stores.sqlite_file import (
    FATAL,
    VERSION,
    Owners,
    WriteLock,
    connect,
    connect_to_read,
    explain_error,
    name_of,
    owners_folder,
    prepare_database,
    read_hash,
)
from noetl.stores.sqlite_mark import WrittenMark
from noetl.stores.sqlite_read_only import ReadOnlyFile, RefusingQueue, find_reason

# What writes to a SQLite file: whatever is wanted at the same time is committed in one transaction.
#
# To hand work to a thread and to be woken by it takes as long as to write a few events. So where nothing has to be waited
# for (no fsync, no other process, nothing queued, not much to write), what callers want in one turn of the event loop is
# written right at its end.


_SQL = queries("sqlite")
#: bytes written until they are moved from the WAL into the database proper
_CHECKPOINT = 16 << 20
#: what a commit writes to the WAL on top of the events
_COMMIT = 16 << 10
#: bytes that are written without the thread at most
_SMALL = 128 << 10
#: seconds to wait for other programs
_TIMEOUT_S = 5.0


class SqliteWriter(CommitQueue):
    """The commit queue of one file."""

    def __init__(
        self,
        path: Path,
        lock: WriteLock,
        connect: Callable[[], sqlite3.Connection],
        mark: WrittenMark,
        *,
        at_once: bool,
    ) -> None:
        super().__init__(str(path))
        self._path = path
        self._lock = lock
        self._connect = connect
        self._mark = mark
        #: whether small things may be written without the thread
        self._at_once = at_once
        self._connection: sqlite3.Connection | None = None
        #: why nothing more is written
        self._refused: str | None = None
        self._heads: Heads = {}
        self._version = 0
        self._weight = 0

    def _write_inline(self, tickets: list[Ticket], loop: asyncio.AbstractEventLoop) -> list[Ticket]:
        return [] if self._try_write_now(tickets, loop) else tickets

    def _try_write_now(self, tickets: list[Ticket], loop: asyncio.AbstractEventLoop) -> bool:
        """Write something small here and now, if nothing has to be waited for."""
        if not self._at_once or self._queued or self._refused is not None:
            return False
        if sum(work.weight for work, _ in tickets if isinstance(work, Append)) > _SMALL or not self._lock.try_acquire():
            return False
        try:
            outcomes = self._transaction([work for work, _ in tickets], loop=loop)
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
                outcomes = self._transaction([work for work, _ in tickets], patience=_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  whatever it is: callers wait, and the thread must live
            if len(tickets) > 1 and not isinstance(error, sqlite3.OperationalError | StoreFailed):
                for ticket in tickets:
                    self._write([ticket])
                return
            failure = self._to_failure(error)
            outcomes = [StoreFailed(*failure.args) for _ in tickets]
        answer([(reply, outcome) for (_, reply), outcome in zip(tickets, outcomes, strict=True)])

    def _transaction(
        self, works: list[Append | Job], patience: float = 0, *, loop: asyncio.AbstractEventLoop | None = None
    ) -> list[Any]:
        connection = self._begin(patience)
        try:
            self._notice_others(connection)
            group = SqliteBatch(connection, self._heads)
            outcomes = [group.add(work) if isinstance(work, Append) else work(connection) for work in works]
            group.write()
            connection.execute("COMMIT")
            self._heads.update(group.heads)
            if group.events:
                execution_id, seq, _, digest = group.events[-1]
                if loop is not None:
                    self._mark.note_soon(execution_id, seq, digest, loop)
                else:
                    self._mark.note(execution_id, seq, digest)
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
            self._mark.keep_loss(partial(read_hash, self._connection))
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
            self._mark.note_others()

    def _checkpoint(self) -> None:
        """Done here and not by SQLite, which would not tell of an fsync that failed; and behind the answers."""
        self._weight = 0
        try:
            with self._lock:
                assert self._connection is not None
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._mark.note_sync()
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


# Slots in the file of executions: judged under its lock for writing, by the clock of the machine.


class _SqliteSlotLedger(SqlSlotLedger):
    """The books of a file: the kernel knows which owners live."""

    def __init__(self, connection: sqlite3.Connection, me: str, now: float, alive: Callable[[str], bool]) -> None:
        super().__init__(connection, _SQL, me, now)
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
        await self._queue.submit(lambda connection: connection.executemany(_SQL["release_slot"], rows) and None)

    async def list_holders(self, execution_id: str) -> list[Key]:
        """See the port."""
        rows = await self._queue.submit(lambda it: it.execute(_SQL["slots_of_execution"], (execution_id,)).fetchall())
        return [holder_of(row) for row in rows]


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
        self._owners = Owners(owners_folder(path))
        self._mark = WrittenMark(path.with_name(path.name + ".mark"), synced=durability == "power")
        #: what is closed at the end
        self._held: ReadOnlyFile | WriteLock
        why = find_reason(path)
        if why is not None:
            self._held = file = ReadOnlyFile(path, why)
            self._connect_reader: Callable[[], sqlite3.Connection] = file.connect
            super().__init__(RefusingQueue(file.refusal))
            return
        self._connect_reader = partial(connect_to_read, path)
        self._held, first = prepare_database(path)
        self._readers[get_ident()] = first, [-1]
        at_once = durability == "process"
        super().__init__(SqliteWriter(path, self._held, self._connect_writer, self._mark, at_once=at_once))

    # --- what SQLite does in its own way --------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        try:
            return self._reader().execute(_SQL[name], params).fetchall()
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        return lambda connection: connection.executemany(_SQL[name], rows) and None

    def post(self, execution_id: str, body: bytes) -> int:
        """See the port."""
        number: int = self._queue.put(
            lambda it: it.execute(_SQL["add_request"], (execution_id, body)).lastrowid
        ).result()
        return number

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

    async def probe(self) -> None:
        """See the port."""
        await self._queue.submit(lambda connection: connection.execute(f"PRAGMA user_version = {VERSION}") and None)

    def _alive(self, owners: Iterable[str]) -> set[str]:
        return {owner for owner in owners if self._owners.alive(owner)}

    @property
    def me(self) -> str:
        return self._owners.id

    def slots(self, clock: Callable[[], float]) -> Slots:
        """See `noetl.ports.cluster.HasSlots`."""
        return SqliteSlots(self._queue, self.me, self._owners.alive, clock)

    def access(self) -> AccessStore:
        """See `noetl.ports.access.HasAccess`."""
        return SqlAccess(self._rows, self._write_rows, self._append_audit, self._prune_audit)

    async def _write_rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        """The rows that a query returns which writes."""
        found: list[tuple[Any, ...]] = await self._queue.submit(lambda it: it.execute(_SQL[name], params).fetchall())
        return found

    async def _append_audit(self, row: tuple[Any, ...]) -> None:
        await self._queue.submit(lambda connection: _append_audit(connection, row))

    async def _prune_audit(self, before: str) -> int:
        count: int = await self._queue.submit(lambda connection: _prune_audit(connection, before))
        return count

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

    async def forget(self, execution_id: str) -> None:
        """See the port."""
        self._mark.forget(execution_id)
        await super().forget(execution_id)

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        try:
            found = [row[0] for row in self._reader().execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error
        lost = self.find_loss()
        return ([] if found == ["ok"] else found) + ([lost] if lost is not None else [])

    def find_loss(self) -> str | None:
        """See `noetl.ports.log.ReportsLoss`."""
        try:
            return self._mark.find_loss(partial(read_hash, self._reader()))
        except sqlite3.Error as error:
            raise explain_error(error, self.path) from error

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
            entry = self._readers[get_ident()] = self._connect_reader(), [-1]
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
        self._mark.close()
        self._held.close()


# The audit log: one writer at a time, so the chain goes on from the end that is stored.


def _append_audit(connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    _, _, number, digest = connection.execute(_SQL["audit_ends"]).fetchone()
    end = number + 1, link(digest, row[-1])
    connection.execute(_SQL["add_audit"], (end[0], *row, end[1]))
    connection.execute(_SQL["move_audit_end"], end)


def _prune_audit(connection: sqlite3.Connection, before: str) -> int:
    last = connection.execute(_SQL["audit_to_forget"], (before,)).fetchone()
    if last is None:
        return 0
    connection.execute(_SQL["move_audit_begin"], last)
    return len(connection.execute(_SQL["forget_audit"], (last[0],)).fetchall())
