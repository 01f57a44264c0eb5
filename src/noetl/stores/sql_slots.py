"""Slots and starts in a SQL database; both dialects have queries of the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from noetl.model.wire import Key
from noetl.stores.limit_rules import FRESH_S, SlotLedger


class SqlSlotLedger(SlotLedger):
    """`SlotLedger` in a transaction that is under way, at one moment of the database's time."""

    def __init__(self, connection: Any, sql: Mapping[str, str], me: str, now: float) -> None:
        self._connection, self._sql, self._me, self._now = connection, sql, me, now

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(self._sql[name], params).fetchall()
        return found

    def _do(self, name: str, *params: Any) -> None:
        self._connection.execute(self._sql[name], params)

    def place(self, holder: Key) -> bool | None:
        """See `SlotLedger`."""
        found = self._rows("slot", *columns(holder))
        return bool(found[0][0]) if found else None

    def holders(self, key: str) -> list[tuple[Key, bool]]:
        """See `SlotLedger`."""
        return [(holder_of(row), bool(row[3])) for row in self._rows("slots_of_key", key)]

    def add(self, holder: Key, key: str) -> None:
        """See `SlotLedger`."""
        self._do("add_slot", *columns(holder), key)

    def displace(self, holders: Iterable[Key]) -> None:
        """See `SlotLedger`."""
        for holder in holders:
            self._do("displace_slot", *columns(holder))

    def ages(self, key: str, per_s: float) -> list[float]:
        """See `SlotLedger`. A clock that was put back must not hold anybody up for longer than a period."""
        rows = self._rows("starts", key, self._now - per_s, self._now + per_s)
        return [max(0.0, self._now - row[0]) for row in rows]

    def start(self, key: str, per_s: float) -> None:
        """See `SlotLedger`."""
        self._do("forget_starts", key, self._now)
        self._do("add_start", key, self._now, self._now + per_s)

    def ahead(self, key: str) -> int:
        """See `SlotLedger`."""
        mine = self._rows("turn", key, self._me)
        since = mine[0][0] if mine else self._now
        count: int = self._rows("turns_ahead", key, self._me, self._now - FRESH_S, since)[0][0]
        return count

    def wait(self, key: str) -> None:
        """See `SlotLedger`."""
        self._do("take_turn", key, self._me, self._now, self._now)

    def end_turn(self, key: str) -> None:
        """See `SlotLedger`."""
        self._do("end_turn", key, self._me)

    def sweep(self) -> None:
        """Forget what nobody will ask for: starts and turns that are past."""
        self._do("sweep_starts", self._now)
        self._do("sweep_turns", self._now - 60 * FRESH_S)


def columns(holder: Key) -> tuple[str, str, str]:
    """A holder as it is kept: an iteration may be a number, a text or none."""
    return holder[0], holder[1], msgspec.json.encode(holder[2]).decode()


def holder_of(row: tuple[Any, ...]) -> Key:
    """A holder as it was kept."""
    return row[0], row[1], msgspec.json.decode(row[2])
