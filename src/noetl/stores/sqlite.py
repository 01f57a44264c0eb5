"""SqliteLog: executions in one SQLite file, which any number of processes may use side by side.

Beside the file lie `<name>.lock`, held by whoever writes, and `owners/`, a lock per process that runs executions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import get_ident
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec

from noetl.errors import UsageError
from noetl.model.events import Event, decode
from noetl.ports import EventLog, Line, Source, StoreFailed, Summary
from noetl.stores.appends import append_of
from noetl.stores.chain import link, root
from noetl.stores.desk import Job, nothing
from noetl.stores.failures import explained
from noetl.stores.files import connect, prepared
from noetl.stores.locks import Owners
from noetl.stores.queries import queries
from noetl.stores.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")

_SQL = queries("sqlite")
_ALL = 1 << 62
_line = msgspec.json.Decoder(Line)


def _event(body: bytes) -> Event:
    try:
        return decode(body)
    except msgspec.MsgspecError as error:
        raise StoreFailed(f"an event is of a shape this version does not know ({error}): use a later one") from error


def _source(row: tuple[str, str, str, int] | None) -> Source | None:
    return Source(row[0], row[1], row[2], bool(row[3])) if row is not None else None


def _writing(name: str, rows: list[tuple[Any, ...]]) -> Job:
    def write(connection: sqlite3.Connection) -> None:
        connection.executemany(_SQL[name], rows)

    return write


def _explaining(read: Callable[P, T]) -> Callable[P, T]:
    """Let a method that reads report SQLite's errors as the port does."""

    @wraps(read)
    def explaining(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except sqlite3.Error as error:
            log = args[0]
            assert isinstance(log, SqliteLog)
            raise explained(error, log.path) from error

    return explaining


class SqliteLog(EventLog):
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
        self._writer = Writer(path, self._lock, self._connect_writer, at_once=durability == "process")
        #: requests that this process was given
        self._handed: set[int] = set()
        #: whether lines, or the end of requests, may still have to be written
        self._left_lines = False

    # --- events ------------------------------------------------------------------------------------------------------

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """See the port. Who is cancelled while waiting does not know whether it was written."""
        if events:
            await self._writer.ask(append_of(events, status, snapshot))

    @_explaining
    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port. Events that were tampered with are not handed out."""
        count = _ALL if limit is None else limit + 1
        rows = self._reader().execute(_SQL["events"], (execution_id, after, count)).fetchall()
        # The row before the first one wanted is read along: the chain goes on from its hash.
        digest = rows.pop(0)[2] if after and rows and rows[0][0] == after else root(execution_id)
        events = []
        for expected, (seq, body, digest_there) in enumerate(rows[:limit], after + 1):
            digest = link(digest, body)
            if seq != expected or digest != digest_there:
                raise StoreFailed(f"the log of {execution_id} is damaged at event {expected}: see `noetl fsck`")
            events.append(_event(body))
        return events

    @_explaining
    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        upto = _ALL if upto is None else upto
        found: tuple[int, bytes] | None = self._reader().execute(_SQL["snapshot"], (execution_id, upto)).fetchone()
        return found

    # --- summaries and owners ----------------------------------------------------------------------------------------

    @_explaining
    def summaries(self, *, limit: int = 50, unfinished: bool = False, parent: str | None = None) -> list[Summary]:
        """See the port; the latest is the one that was requested last."""
        query = _SQL["unfinished" if unfinished else "summaries"]
        return self._summaries(self._reader().execute(query, (limit, parent)).fetchall())

    @_explaining
    def summary(self, execution_id: str) -> Summary | None:
        """See the port."""
        between = execution_id, execution_id + "\U0010ffff", 6
        found = self._reader().execute(_SQL["summaries_between"], between).fetchall() if execution_id else []
        if len(found) > 1 and found[0][0] != execution_id:
            names = ", ".join(row[0] for row in found[:5]) + (" …" if len(found) > 5 else "")
            raise UsageError(f"{execution_id} is the beginning of several executions: {names}")
        return self._summaries(found[:1])[0] if found else None

    def _summaries(self, rows: list[tuple[Any, ...]]) -> list[Summary]:
        alive = {owner: self._owners.alive(owner) for owner in {row[8] for row in rows} if owner is not None}
        return [msgspec.structs.replace(Summary(*row), alive=alive.get(row[8], False)) for row in rows]

    async def claim(self, execution_id: str) -> bool:
        """See the port. What a process that has died owned is free at once."""
        mine: bool = await self._writer.ask(lambda connection: self._claim(connection, execution_id))
        return mine

    def _claim(self, connection: sqlite3.Connection, execution_id: str) -> bool:
        self._owners.enrol()
        row = connection.execute(_SQL["owner"], (execution_id,)).fetchone()
        if row is not None and row[0] != self._owners.id and self._owners.alive(row[0]):
            return False
        connection.execute(_SQL["own"], (execution_id, self._owners.id))
        return True

    # --- playbooks ---------------------------------------------------------------------------------------------------

    async def keep_source(self, source: Source) -> None:
        """See the port. The same text from another file: the later one counts."""
        if self.source(source.hash) != source:
            row = source.hash, source.text, source.file, source.legacy
            await self._writer.ask(_writing("add_source", [row]))

    @_explaining
    def source(self, content_hash: str) -> Source | None:
        """See the port."""
        return _source(self._reader().execute(_SQL["source"], (content_hash,)).fetchone())

    @_explaining
    def latest(self, path: str) -> Source | None:
        """See the port."""
        return _source(self._reader().execute(_SQL["latest_source"], (path,)).fetchone())

    # --- requests ----------------------------------------------------------------------------------------------------

    def post(self, execution_id: str, body: bytes) -> None:
        """See the port."""
        self._writer.put(_writing("add_request", [(execution_id, body)])).result()

    @_explaining
    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port. Costs next to nothing while nobody writes to the file."""
        reader, seen = self._reader(), self._readers[get_ident()][1]
        version = reader.execute("PRAGMA data_version").fetchone()[0]
        if version == seen[0]:
            return []
        rows = reader.execute(_SQL["requests"], (self._owners.id,)).fetchall()
        # Not before: if they could not be read, they still wait.
        seen[0] = version
        new = [row for row in rows if row[0] not in self._handed]
        self._handed.update(row[0] for row in new)
        return new

    def settle(self, number: int) -> None:
        """See the port. Does not wait: should it be lost, the log knows that the request took effect."""
        self._writer.leave(_writing("forget_request", [(number,)]))
        self._left_lines = True

    # --- lines -------------------------------------------------------------------------------------------------------

    def write_lines(self, execution_id: str, lines: Sequence[Line]) -> None:
        """See the port. Does not wait: they are written along with the next events."""
        rows = [(execution_id, msgspec.json.encode(line)) for line in lines]
        self._writer.leave(_writing("add_line", rows))
        self._left_lines = True

    @_explaining
    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, Line]]:
        """See the port."""
        if self._left_lines:
            self._writer.put(nothing).result()
            self._left_lines = False
        rows = self._reader().execute(_SQL["lines"], (execution_id, after)).fetchall()
        return [(number, _line.decode(body)) for number, body in rows]

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    @_explaining
    def execution_ids(self) -> list[str]:
        """Of which there is anything at all."""
        return [row[0] for row in self._reader().execute(_SQL["execution_ids"])]

    def stored(self, execution_id: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The events as they lie there: seq, body and hash, in order; nothing is checked."""
        after = 0
        while rows := self._page(execution_id, after):
            yield from rows
            after = rows[-1][0] + 1

    @_explaining
    def _page(self, execution_id: str, start: int) -> list[tuple[int, bytes, bytes]]:
        return self._reader().execute(_SQL["events"], (execution_id, start, 1000)).fetchall()

    @_explaining
    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        found = [row[0] for row in self._reader().execute("PRAGMA integrity_check")]
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
        await self._writer.close()
        for connection, _ in self._readers.values():
            connection.close()
        self._readers.clear()
        self._owners.resign()
        self._lock.close()
