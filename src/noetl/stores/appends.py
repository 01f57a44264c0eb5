"""Append and Group: what callers want written, and what one transaction writes for all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from noetl.model.events import Event, encode
from noetl.ports import Conflict
from noetl.stores.chain import link, root
from noetl.stores.queries import queries

#: execution → seq and hash of its last event
Heads = dict[str, tuple[int, bytes]]

#: snapshots of an execution that are kept, so that a state of the near past need not be folded from the beginning
KEPT_SNAPSHOTS = 8

#: what a summary's status is at the end
OVER = frozenset({"completed", "failed", "cancelled"})

_SQL = queries("sqlite")
#: the driver lets other threads run at every statement, and a busy one keeps it waiting: so, many rows a statement
_ROWS = 64
_ADD_EVENTS = [_SQL["add_event"] + ", (?, ?, ?, ?)" * more for more in range(_ROWS)]


class Append(msgspec.Struct, frozen=True, gc=False):
    """One call of `EventLog.append`, its events already in bytes: the caller may change them meanwhile."""

    execution_id: str
    #: seq of the first
    first: int
    bodies: list[bytes]
    status: str
    updated_at: str
    snapshot: bytes | None
    #: path, playbook, parent and time of request, where the first event of the log is among these
    opening: tuple[str, str, str | None, str] | None


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


def opening_of(event: Event) -> tuple[str, str, str | None, str]:
    """What a summary takes from the first event: path, playbook, parent and time of request."""
    parent = event.payload.get("parent") or {}
    return event.entity_id, event.payload.get("playbook", ""), parent.get("execution_id"), event.timestamp


def behind(last: int, execution_id: str, first: int) -> Conflict:
    """The log does not end where an append wants to go on."""
    return Conflict(
        f"the log of {execution_id} ends at {last}, so {first} cannot be written: somebody else wrote to it"
    )


class Group:
    """The appends of one transaction, gathered and then written together."""

    def __init__(self, connection: sqlite3.Connection, heads: Heads) -> None:
        self._connection = connection
        self._known = heads
        #: where the logs end once this is committed
        self.heads: Heads = {}
        #: bytes of events
        self.weight = 0
        self._rows: list[str | int | bytes] = []
        self._openings: list[tuple[str | None, ...]] = []
        self._updates: dict[str, tuple[str, str, int, str]] = {}
        self._snapshots: list[tuple[str, int, bytes]] = []

    def add(self, append: Append) -> Conflict | None:
        """Take one in, unless the log has gone on without it."""
        execution_id = append.execution_id
        seq, digest = self._head(execution_id)
        if append.first != seq + 1:
            return behind(seq, execution_id, append.first)
        for body in append.bodies:
            seq += 1
            digest = link(digest, body)
            self._rows += (execution_id, seq, body, digest)
            self.weight += len(body)
        self.heads[execution_id] = seq, digest
        if append.opening is not None:
            self._openings.append((execution_id, *append.opening))
        self._updates[execution_id] = append.status, append.updated_at, seq, execution_id
        if append.snapshot is not None:
            self._snapshots.append((execution_id, seq, append.snapshot))
            self.weight += len(append.snapshot)
        return None

    def _head(self, execution_id: str) -> tuple[int, bytes]:
        head = self.heads.get(execution_id) or self._known.get(execution_id)
        if head is None:
            head = self._connection.execute(_SQL["head"], (execution_id,)).fetchone()
        return head or (0, root(execution_id))

    def write(self) -> None:
        """Write all that was taken in."""
        execute, rows = self._connection.execute, self._rows
        for start in range(0, len(rows), 4 * _ROWS):
            chunk = rows[start : start + 4 * _ROWS]
            execute(_ADD_EVENTS[len(chunk) // 4 - 1], chunk)
        for opening in self._openings:
            execute(_SQL["add_execution"], opening)
        for update in self._updates.values():
            execute(_SQL["update_execution"], update)
            if update[0] in OVER:
                execute(_SQL["end_execution"], update[3:])
        for snapshot in self._snapshots:
            execute(_SQL["add_snapshot"], snapshot)
            execute(_SQL["forget_snapshots"], (snapshot[0], KEPT_SNAPSHOTS))
