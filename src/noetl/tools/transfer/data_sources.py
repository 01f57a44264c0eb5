"""Sources whose rows this process reads itself: a value in hand, a stored result, the pages of an API.

They are handed over as lines of JSON. A feed knows where it is, so that it can go on there in another attempt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from noetl.drivers.datahost import CallFailed, HostReply
from noetl.errors import TemplateError
from noetl.expr import Budget, Evaluation, find_jsonpath
from noetl.model.output import Failure, failure
from noetl.ports import Call, World
from noetl.tools.transfer.plan import plain

# Rows in a value, by a JSONPath: one that leads nowhere is a mistake, a list without rows is none.


#: the rows are there already, so that many of them are no reason to stop
_BUDGET = Budget(steps=2**62, size=2**62)
#: steps that lead to something, where a path is right; others (`[*]`, `[?…]`, `[1:]`) may lead to nothing
_STEPS = re.compile(r"""\.\.?[A-Za-z_]\w*|\['[^'\\]*'\]|\["[^"\\]*"\]|\[-?\d+\]""")


def find_values(data: Any, path: str, key: str) -> list[Any]:
    """What a path of the source's `key` finds. CallFailed: it is no path."""
    try:
        return find_jsonpath(Evaluation({}, _BUDGET, tolerant=False), data, path)
    except TemplateError as error:
        raise CallFailed(failure("template", f"`source.{key}` is {path!r}: {error.message}")) from None


def find_rows(data: Any, path: str, what: str) -> list[Any]:
    """The rows that a path finds. CallFailed: it leads nowhere, so that nobody can say that there are none."""
    rows = find_values(data, path, "path")
    if not rows:
        _refuse_dead_path(data, path, what)
    return [row for one in rows for row in (one if isinstance(one, list) else [] if one is None else [one])]


def _refuse_dead_path(data: Any, path: str, what: str) -> None:
    sure, here, value = "$", f"the {what}", data
    while step := _STEPS.match(path, len(sure)):
        there = find_values(data, sure + step[0], "path")
        if not there:
            message = (
                f"`source.path` is `{path}`, and `{sure}{step[0]}` matches nothing; {here} {_describe_value(value)}"
            )
            raise CallFailed(failure("type", message))
        sure, value = sure + step[0], there[0]
        here = f"`{sure}`"
    if not isinstance(value, list | Mapping | None):
        raise CallFailed(failure("type", f"`source.path` is `{path}`, and {here} {_describe_value(value)}"))


def _describe_value(value: Any) -> str:
    """What a value is, in few words."""
    if isinstance(value, Mapping):
        return "has " + (", ".join(f"`{key}`" for key in list(value)[:20]) or "no keys")
    if isinstance(value, list):
        return f"is a list of {len(value):,}"
    if isinstance(value, str):
        return f"is text, no JSON: {value[:80]!r}"
    return "is empty" if value is None else f"is {value!r}"


class FeedBatch(NamedTuple):
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

    async def take(self) -> FeedBatch:
        """The next rows."""
        raise NotImplementedError

    def position_after(self, rows: int) -> dict[str, Any]:
        """The position behind so many rows."""
        return {"rows": rows}

    async def close(self) -> None:
        """Let go of what is under way."""


class ValueFeed(Feed):
    """A value in hand."""

    def __init__(self, data: Any, path: Any) -> None:
        self._rows = rows_at(data, path)
        self._first = 0
        self.total = len(self._rows)

    def begin(self, position: Mapping[str, Any]) -> None:
        self._first = int(position.get("rows", 0))

    async def take(self) -> FeedBatch:
        return FeedBatch(_lines(self._rows[self._first :]), ended=True)


class StoredResultFeed(Feed):
    """A stored result, by ranges."""

    def __init__(self, reference: Mapping[str, Any], size: int, world: World) -> None:
        self._reference, self._size, self._world = reference, size, world
        self._first = 0
        self.total = reference["meta"].get("rows")

    def begin(self, position: Mapping[str, Any]) -> None:
        self._first = int(position.get("rows", 0))

    async def take(self) -> FeedBatch:
        part = await self._world.results.rows(self._reference, self._first, self._first + self._size)
        self._first += len(part)
        return FeedBatch(_lines(plain(part)), ended=not part)


def rows_at(data: Any, path: Any) -> list[Any]:
    """The rows in a value: a list, or what a JSONPath finds in it; a map is one row, null is none."""
    if path:
        rows = find_rows(data, str(path), "data")
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


# Requests that carry chunks to an API.


async def send(call: Call, world: World, reply: HostReply, *, key: str, auth: Any) -> None:
    """Send what a target made of a chunk, in order. A request that is sent again has the same key."""
    from noetl.tools import http

    requests, at = reply.value["requests"], 0
    for number, request in enumerate(requests):
        body = reply.blob[at : at + request["size"]]
        at += request["size"]
        config = {
            "url": request["url"],
            "method": request["method"],
            "headers": request["headers"],
            "body": body.decode(),
        }
        own = key if len(requests) == 1 else f"{key}/{number}"
        sent = with_auth(replace(call, kind="http", config=config, key=own), auth)
        output = await http.run(sent, world)
        if output["error"] is not None:
            raise CallFailed(output["error"])
