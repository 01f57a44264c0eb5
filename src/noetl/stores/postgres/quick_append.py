"""Small appends in one statement and one round trip, on the thread of the event loop.

Where the logs end is known from what this process wrote last, and the statement holds good only where they still do: an
execution that somebody else wrote to is not touched. Whatever is out of the ordinary is left to the thread that writes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.drivers.postgres import is_spent_code
from noetl.ports import OVER, StoreFailed
from noetl.stores.appends import Append, AppendBatch, Heads, queries, root
from noetl.stores.commit_queue import Ticket, settle
from noetl.stores.postgres.schema import explain_error

if TYPE_CHECKING:
    import psycopg

_SQL = {name.encode(): queries("postgres")[name].encode() for name in ("append", "open_append")}
#: more than these, and the thread is as quick: it copies, and others are served meanwhile
_MOST_EVENTS, _MOST_BYTES = 256, 128 << 10
_TEXT, _INT8, _BYTEA, _BOOL = 25, 20, 17, 16


class _InlineBatch(AppendBatch):
    """Appends that go on where a log is known to end."""

    def __init__(self, *, opening: bool) -> None:
        super().__init__()
        #: whether these are the first appends of executions, or none is
        self.opening = opening
        self._before: Heads = {}

    def has_room_for(self, append: Any) -> bool:
        """Whether this stays small with one more."""
        return len(self.events) + len(append.bodies) <= _MOST_EVENTS

    def take(self, append: Any, head: tuple[int, bytes]) -> bool:
        """Take in one that fits; False: its key is that of another one."""
        self._before[append.execution_id] = head
        return self.add(append) is None

    def _head(self, execution_id: str) -> tuple[int, bytes]:
        return self._before[execution_id]

    def statement(self) -> tuple[bytes, list[bytes]]:
        """What is to be executed, and what it is given."""
        self.sort_openings()
        names = [str(row[0]) for row in self.openings] if self.opening else list(self.last)
        last = [self.last[name] for name in names]
        before, after = [self._before[name] for name in names], [self.heads[name] for name in names]
        ends = [
            _texts([one.status for one in last]),
            _texts([one.updated_at for one in last]),
            _numbers([seq for seq, _ in after]),
            _array(_BYTEA, [digest for _, digest in after]),
            _array(_BOOL, [b"\1" if one.status in OVER else b"\0" for one in last]),
            _texts([event[0] for event in self.events]),
            _numbers([event[1] for event in self.events]),
            _array(_BYTEA, [event[2] for event in self.events]),
            _array(_BYTEA, [event[3] for event in self.events]),
        ]
        if self.opening:
            return b"open_append", [*(_texts(list(column)) for column in zip(*self.openings, strict=True)), *ends]
        known = [_numbers([seq for seq, _ in before]), _array(_BYTEA, [digest for _, digest in before])]
        return b"append", [_texts(names), *known, *ends]


class InlineWriter:
    """A connection that is never waited for; one group is under way at a time, and what comes meanwhile is the next."""

    def __init__(self, connection: psycopg.Connection[Any], heads: Heads, otherwise: Callable[[list[Ticket]], None]):
        from psycopg import pq

        self._connection, self._heads = connection, heads
        #: takes what cannot be written here
        self._otherwise = otherwise
        self._pq = connection.pgconn
        for name, sql in _SQL.items():
            prepared = self._pq.prepare(name, sql)
            if prepared.status != pq.ExecStatus.COMMAND_OK:
                connection.close()
                raise StoreFailed(prepared.get_error_message())
        self._pq.nonblocking = 1
        #: kept, for the library forgets it with the connection, and its number is soon another's
        self._socket = self._pq.socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: _InlineBatch | None = None
        self._sent: list[Ticket] = []
        self._next: list[Ticket] = []
        #: executions of both
        self._names: set[str] = set()
        self._rows: list[Any] = []
        self.broken = False
        self.idle = asyncio.Event()
        self.idle.set()

    def takes(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it can be used in an event loop: it is there for one at a time."""
        if self.broken or (self._loop is not loop and self._loop is not None and not self._loop.is_closed()):
            return False
        if self._loop is not loop and self._group is not None:  # nobody hears what became of it any more
            self._break()
            return False
        if self._loop is not loop:
            try:
                loop.add_reader(self._socket, self._readable)
            except NotImplementedError:  # not every kind of event loop looks at sockets
                return False
            self._loop = loop
        return True

    def take(self, tickets: list[Ticket], *, behind: bool) -> list[Ticket]:
        """Write what fits, now or behind that which is being written; what is left is for others.

        `behind` others only that is taken which has to wait for something that is under way here.
        """
        left = []
        for ticket in tickets:
            name = _name(ticket[0])
            if name in self._names or (not behind and self._head(ticket[0]) is not None):
                self._names.add(name)
                self._next.append(ticket)
            else:
                left.append(ticket)
        if self._next and self._group is None:
            self.idle.clear()
            self._send()
        return left

    def _head(self, work: Any) -> tuple[int, bytes] | None:
        """Where a log is known to end, if something is to go on there that is small and plain."""
        if not isinstance(work, Append) or work.snapshot is not None or work.weight > _MOST_BYTES:
            return None
        if work.opening is not None:
            return 0, root(work.execution_id)
        head = self._heads.get(work.execution_id)
        return head if head is not None and work.first == head[0] + 1 else None

    async def wait_idle(self) -> None:
        """Wait until all is answered; what was wanted in an event loop that has ended never is."""
        if self._loop is asyncio.get_running_loop():
            await self.idle.wait()

    def _send(self) -> None:
        import psycopg

        wanted, self._next = self._next, []
        group = _InlineBatch(opening=bool(wanted) and _opens(wanted[0][0]))
        tickets, rest = list[Ticket](), list[Ticket]()
        waiting: set[str] = set()
        for ticket in wanted:
            name, head = _name(ticket[0]), self._head(ticket[0])
            if name in group.last or name in waiting or _opens(ticket[0]) != group.opening:
                waiting.add(name)
                self._next.append(ticket)
            elif head is not None and group.has_room_for(ticket[0]) and group.take(ticket[0], head):
                tickets.append(ticket)
            else:
                rest.append(ticket)
        self._names = {*group.last, *waiting}
        if rest:
            self._otherwise(rest)
        if not tickets:
            if self._next:
                self._send()
            else:
                self.idle.set()
            return
        try:
            statement, given = group.statement()
            self._pq.send_query_prepared(statement, given, [1] * len(given), 1)
            self._group, self._sent, self._rows = group, tickets, []
            self._flush()
        except (psycopg.Error, ValueError):  # the connection was gone before: nothing was sent
            self._group, self._sent = None, []
            self._break()
            self._otherwise(tickets)
            self._hand_back_rest()

    def _flush(self) -> None:
        assert self._loop is not None
        if self._pq.flush():
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        import psycopg

        assert self._loop is not None
        self._loop.remove_writer(self._socket)
        try:
            self._flush()
        except psycopg.Error as error:
            self._fail(error)

    def _readable(self) -> None:
        import psycopg

        try:
            self._pq.consume_input()
            while not self._pq.is_busy():
                result = self._pq.get_result()
                if result is None:
                    break
                self._rows.append(result)
            else:
                return
        except psycopg.Error as error:
            self._fail(error)
            return
        if self._group is not None and self._rows:
            self._on_result()

    def _on_result(self) -> None:
        """The database is done, and has committed what it did: no result is looked at before there are no more."""
        from psycopg import pq

        group, sent, result = self._group, self._sent, self._rows[-1]
        assert group is not None
        if self._pq.status != pq.ConnStatus.OK:
            self._fail(StoreFailed(result.get_error_message()))
            return
        self._group, self._sent = None, []
        good = result.status == pq.ExecStatus.TUPLES_OK
        if not good and is_spent_code((result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()):
            self._break()  # before the thread sees it: nothing was written, and the thread finds out why
        written = {result.get_value(row, 0).decode() for row in range(result.ntuples)} if good else set()
        record_heads(self._heads, group)
        for name in group.last.keys() - written:  # nothing of it was: the thread finds out why
            self._heads.pop(name, None)
        settle([(reply, None) for work, reply in sent if _name(work) in written])
        if len(written) < len(group.last):
            self._otherwise([ticket for ticket in sent if _name(ticket[0]) not in written])
        if self.broken:
            self._hand_back_rest()
        else:
            self._send()

    def _fail(self, error: Exception) -> None:
        """The connection is gone, and nobody knows whether what was sent is written."""
        self._break()
        group, sent, self._sent = self._group, self._sent, []
        self._group = None
        for name in group.last if group is not None else ():
            self._heads.pop(name, None)
        message = str(error) if isinstance(error, StoreFailed) else str(explain_error(error))
        settle([(reply, StoreFailed(message)) for _, reply in sent])
        self._hand_back_rest()

    def _hand_back_rest(self) -> None:
        waiting, self._next, self._names = self._next, [], set()
        if waiting:
            self._otherwise(waiting)
        self.idle.set()

    def _break(self) -> None:
        self.broken = True
        self.close()

    def close(self) -> None:
        """Let go."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None
        with suppress(Exception):
            self._connection.close()


def record_heads(heads: Heads, group: AppendBatch) -> None:
    """Know where logs end once a group is committed; those that are over are not gone on with."""
    for name, head in group.heads.items():
        if group.last[name].status in OVER:
            heads.pop(name, None)
        else:
            heads[name] = head


def _name(work: Any) -> str:
    return work.execution_id if isinstance(work, Append) else ""


def _opens(work: Any) -> bool:
    return isinstance(work, Append) and work.opening is not None


def _array(kind: int, values: Sequence[bytes | None]) -> bytes:
    """A list as PostgreSQL takes it."""
    parts = [_HEAD.pack(1, None in values, kind, len(values), 1)]
    for value in values:
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def _texts(values: Sequence[str | None]) -> bytes:
    return _array(_TEXT, [None if value is None else value.encode() for value in values])


def _numbers(values: list[int]) -> bytes:
    return _array(_INT8, [_NUMBER.pack(value) for value in values])


_NULL = b"\xff\xff\xff\xff"
_HEAD, _LENGTH, _NUMBER = struct.Struct("!iiIii"), struct.Struct("!i"), struct.Struct("!q")
