"""Append and Group: what callers want written, and what one transaction writes for all of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from noetl.model.events import Event, encode
from noetl.ports import OVER, Conflict

# SQL out of `sql/`: a schema, and queries by their names.


_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def queries(dialect: str) -> dict[str, str]:
    """The named queries of a dialect."""
    _, *parts = _NAME.split(_text(dialect, "queries"))
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def schema(dialect: str, version: int = 1) -> str:
    """The statements that make the tables, or what a later version has more than the one before."""
    return _text(dialect, "schema" if version == 1 else f"schema-{version}")


def _text(dialect: str, name: str) -> str:
    return (Path(__file__).parent / "sql" / dialect / f"{name}.sql").read_text(encoding="utf-8")


# The hash chain over an execution's log: no event can be changed, left out or moved unnoticed.


def root(execution_id: str) -> bytes:
    """What stands before the first event."""
    return sha256(execution_id.encode()).digest()


def link(before: bytes, body: bytes) -> bytes:
    """The hash of an event, from that of the event before it and its own stored bytes."""
    return sha256(before + body).digest()


#: execution → seq and hash of its last event
Heads = dict[str, tuple[int, bytes]]

#: snapshots of an execution that are kept, so that a state of the near past need not be folded from the beginning
KEPT_SNAPSHOTS = 8

_SQL = queries("sqlite")
#: The driver lets other threads run at every statement, and a busy one then keeps it for 5 ms: so, many rows a statement.
_ROWS = 64


def _batch_statements(sql: str) -> list[str]:
    """A statement for 1, 2, 3 … rows of values."""
    row = sql[sql.index("VALUES (") + 7 :].partition(")")[0] + ")"
    return [sql.replace(row, ", ".join([row] * count)) for count in range(1, _ROWS + 1)]


_ADD_EVENTS = _batch_statements(_SQL["add_event"])
_ADD_EXECUTIONS = _batch_statements(_SQL["add_execution"])
# The form for many takes twice as long for one.
_UPDATE_EXECUTIONS = [_SQL["update_execution"], *_batch_statements(_SQL["update_executions"])[1:]]


class Opening(NamedTuple):
    """What a store keeps of an execution from its first event."""

    path: str
    playbook: str
    parent: str | None
    requested_at: str
    #: who started it with a key, and that key
    caller: str | None
    key: str | None

    @property
    def start_key(self) -> tuple[str, str] | None:
        """The caller and the key, of which there is one execution at most."""
        return (self.caller or "", self.key) if self.key is not None else None


class Append(msgspec.Struct, frozen=True, gc=False):
    """One call of `EventLog.append`, its events already in bytes: the caller may change them meanwhile."""

    execution_id: str
    #: seq of the first
    first: int
    bodies: list[bytes]
    status: str
    updated_at: str
    snapshot: bytes | None
    #: what the first event of the log says of the execution, where it is among these
    opening: Opening | None

    @property
    def weight(self) -> int:
        """How many bytes there are to write."""
        return sum(map(len, self.bodies)) + len(self.snapshot or b"")


def append_of(events: Sequence[Event], status: str, snapshot: bytes | None) -> Append:
    """Events as they are to be written; they must be of one execution and follow one another."""
    first = events[0]
    for seq, event in enumerate(events, first.seq):
        if event.seq != seq or event.execution_id != first.execution_id:
            raise Conflict(
                f"event {event.seq} of {event.execution_id} does not follow {seq - 1} of {first.execution_id}"
            )
    return Append(
        first.execution_id,
        first.seq,
        [encode(event) for event in events],
        status,
        events[-1].timestamp,
        snapshot,
        opening_of(first) if first.seq == 1 else None,
    )


def opening_of(event: Event) -> Opening:
    """What the first event of a log says of its execution."""
    payload = event.payload
    parent, asked = payload.get("parent") or {}, payload.get("asked") or {}
    key = asked.get("key")
    caller = asked.get("by", "") if key is not None else None
    return Opening(
        event.entity_id, payload.get("playbook", ""), parent.get("execution_id"), event.timestamp, caller, key
    )


def append_conflict(last: int, execution_id: str, first: int) -> Conflict:
    """The log does not end where an append wants to go on."""
    return Conflict(
        f"the log of {execution_id} ends at {last}, so {first} cannot be written: somebody else wrote to it"
    )


def key_conflict(key: str, execution_id: str) -> Conflict:
    """A key has started another execution."""
    return Conflict(f"the key {key!r} of {execution_id} has started another execution")


class AppendBatch:
    """Appends that are to be written together: each goes on where the log ends, or is refused."""

    def __init__(self) -> None:
        #: where the logs end once this is committed
        self.heads: Heads = {}
        #: bytes to write
        self.weight = 0
        self.events: list[tuple[str, int, bytes, bytes]] = []
        self.openings: list[tuple[str | None, ...]] = []
        #: the keys among them
        self._keys: set[tuple[str, str]] = set()
        #: execution → the last of its appends
        self.last: dict[str, Append] = {}
        self.snapshots: list[tuple[str, int, bytes]] = []

    def sort_openings(self) -> None:
        """Put them in the order of their keys, in which those who write at the same time wait for each other."""
        self.openings.sort(key=lambda row: (row[-2] or "", row[-1] or ""))

    def _head(self, execution_id: str) -> tuple[int, bytes]:
        """Where a log ends now."""
        raise NotImplementedError

    def _is_taken(self, start_key: tuple[str, str]) -> bool:  # noqa: ARG002
        """Whether a key is known to have started an execution; where it is not known, the store refuses it."""
        return False

    def add(self, append: Append) -> Conflict | None:
        """Take one in, unless the log has grown without it, or its key has started another execution."""
        execution_id = append.execution_id
        seq, digest = self.heads.get(execution_id) or self._head(execution_id)
        if append.first != seq + 1:
            return append_conflict(seq, execution_id, append.first)
        start_key = append.opening.start_key if append.opening is not None else None
        if start_key is not None:
            if start_key in self._keys or self._is_taken(start_key):
                return key_conflict(start_key[1], execution_id)
            self._keys.add(start_key)
        for body in append.bodies:
            seq += 1
            digest = link(digest, body)
            self.events.append((execution_id, seq, body, digest))
        self.weight += append.weight
        self.heads[execution_id] = seq, digest
        self.last[execution_id] = append
        if append.opening is not None:
            self.openings.append((execution_id, *append.opening))
        if append.snapshot is not None:
            self.snapshots.append((execution_id, seq, append.snapshot))
        return None


class SqliteBatch(AppendBatch):
    """The appends of one transaction in SQLite."""

    def __init__(self, connection: sqlite3.Connection, heads: Heads) -> None:
        super().__init__()
        self._connection = connection
        self._known = heads

    def _head(self, execution_id: str) -> tuple[int, bytes]:
        head = self._known.get(execution_id)
        if head is None:
            head = self._connection.execute(_SQL["head"], (execution_id,)).fetchone()
        return head or (0, root(execution_id))

    def _is_taken(self, start_key: tuple[str, str]) -> bool:
        return self._connection.execute(_SQL["execution_of_key"], start_key).fetchone() is not None

    def write(self) -> None:
        """Write all that was taken in."""
        execute = self._connection.execute
        self._write(_ADD_EVENTS, self.events)
        self._write(_ADD_EXECUTIONS, self.openings)
        ends = [(one.status, one.updated_at, self.heads[name][0], name) for name, one in self.last.items()]
        self._write(_UPDATE_EXECUTIONS, ends)
        for execution_id, one in self.last.items():
            if one.status in OVER:
                execute(_SQL["end_execution"], (execution_id,))
        for snapshot in self.snapshots:
            execute(_SQL["add_snapshot"], snapshot)
            execute(_SQL["forget_snapshots"], (snapshot[0], KEPT_SNAPSHOTS))

    def _write(self, statements: list[str], rows: Sequence[tuple[object, ...]]) -> None:
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            self._connection.execute(statements[len(chunk) - 1], tuple(chain.from_iterable(chunk)))
