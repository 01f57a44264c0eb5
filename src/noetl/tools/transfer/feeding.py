"""Rows that the engine itself has or fetches: a value in hand, a stored result, the pages of an API.

They are handed over as lines of JSON. A feed knows where it is, so that it can go on there in another attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.model.output import Failure, failure
from noetl.ports import Call, World
from noetl.tools.datahost.hosts import CallFailed
from noetl.tools.transfer.finding import rows_found
from noetl.tools.transfer.plan import plain


class Handed(NamedTuple):
    """Some rows. With a failure nothing comes behind them in this attempt."""

    lines: bytes
    ended: bool = False
    failure: Failure | None = None


class Feed:
    """The rows of a source, some at a time."""

    #: rows in all, where they are known beforehand
    total: int | None = None
    #: whether the same rows come again in the same order
    stable = True

    def begin(self, position: Mapping[str, Any]) -> None:
        """Set out, once: from the start with `{}`, else from a position that `located` gave."""
        raise NotImplementedError

    async def take(self) -> Handed:
        """The next rows."""
        raise NotImplementedError

    def located(self, rows: int) -> dict[str, Any]:
        """The position behind so many rows."""
        return {"rows": rows}

    async def close(self) -> None:
        """Let go of what is under way."""


class InHand(Feed):
    """A value in hand."""

    def __init__(self, data: Any, path: Any) -> None:
        self._rows = rows_at(data, path)
        self._first = 0
        self.total = len(self._rows)

    def begin(self, position: Mapping[str, Any]) -> None:
        self._first = int(position.get("rows", 0))

    async def take(self) -> Handed:
        return Handed(_lines(self._rows[self._first :]), ended=True)


class Stored(Feed):
    """A stored result, by ranges."""

    def __init__(self, reference: Mapping[str, Any], size: int, world: World) -> None:
        self._reference, self._size, self._world = reference, size, world
        self._first = 0
        self.total = reference["meta"].get("rows")

    def begin(self, position: Mapping[str, Any]) -> None:
        self._first = int(position.get("rows", 0))

    async def take(self) -> Handed:
        part = await self._world.results.rows(self._reference, self._first, self._first + self._size)
        self._first += len(part)
        return Handed(_lines(plain(part)), ended=not part)


def rows_at(data: Any, path: Any) -> list[Any]:
    """The rows in a value: a list, or what a JSONPath finds in it; a map is one row, null is none."""
    if path:
        rows = rows_found(data, str(path), "data")
    elif data is None:
        rows = []
    else:
        rows = data if isinstance(data, list) else [data]
    if len(rows) == 1 and isinstance(rows[0], str):
        raise CallFailed(failure("type", f"the data is text, and no rows: {rows[0][:80]!r}"))
    made: list[Any] = plain(rows)
    return made


def _lines(rows: list[Any]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, rows))


def with_auth(call: Call, name: Any) -> Call:
    """The call with the credential that a source or target names."""
    auths: Mapping[str, Any] = getattr(call, "auths", {})
    return replace(call, auth=auths.get(str(name)), auth_name=str(name)) if name and hasattr(call, "auth") else call
