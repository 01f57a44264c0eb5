"""Rows that the engine itself has or fetches: a value in hand, a stored result, the pages of an API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec.structs import replace

from noetl.expr.refs import is_reference
from noetl.model.output import failure
from noetl.ports import Call, World
from noetl.tools.datahost.hosts import CallFailed
from noetl.tools.transfer.finding import found, rows_found
from noetl.tools.transfer.plan import Plan, plain

_REQUEST = ("url", "method", "params", "headers", "json", "body")
_MOST_PAGES = 1_000_000


class Feed:
    """The rows of a source, some at a time."""

    def __init__(self, call: Call, world: World, plan: Plan) -> None:
        self._call, self._world, self._plan = call, world, plan
        #: rows in all, where they are known beforehand
        self.total: int | None = None
        self.stable = bool(plan.source.get("order_by"))
        self._hand: list[Any] | None = None
        if plan.source["kind"] == "data":
            self.stable = True
            data = plan.source.get("data")
            if data is not None and is_reference(data):
                self.total = data["meta"].get("rows")
            else:
                self._hand = rows_at(data, plan.source.get("path"), "data")
                self.total = len(self._hand)

    async def parts(self) -> AsyncIterator[list[Any]]:
        """The rows, in order."""
        if self._hand is not None:
            yield self._hand
        elif self._plan.source["kind"] == "data":
            async for part in self._stored():
                yield part
        else:
            async for part in self._pages():
                yield part

    async def _stored(self) -> AsyncIterator[list[Any]]:
        """A stored result, by ranges."""
        reference, size, start = self._plan.source["data"], self._plan.size, 0
        while part := await self._world.results.rows(reference, start, start + size):
            start += len(part)
            yield part

    async def _pages(self) -> AsyncIterator[list[Any]]:
        from noetl.tools import http

        source = self._plan.source
        config = {key: source[key] for key in _REQUEST if source.get(key) is not None}
        call = replace(self._call, kind="http", config=config)
        call = with_auth(call, source.get("auth"))
        for _ in range(_MOST_PAGES):
            output = await http.run(call, self._world)
            if output["error"] is not None:
                error = output["error"]
                raise CallFailed({**error, "message": f"the source: {error['message']}"})
            yield rows_at(output["data"], source.get("path"), "response")
            following = _next(output["data"], source.get("next"), call.config["url"])
            if following is None:
                return
            # The address of the next page says everything that the parameters said for the first.
            call = replace(call, config={**{k: v for k, v in call.config.items() if k != "params"}, "url": following})


def rows_at(data: Any, path: Any, what: str) -> list[Any]:
    """The rows in a value: a list, or what a JSONPath finds in it; a map is one row, null is none."""
    if path:
        rows = rows_found(data, str(path), what)
    elif data is None:
        rows = []
    else:
        rows = data if isinstance(data, list) else [data]
    if len(rows) == 1 and isinstance(rows[0], str):
        message = f"the {what} is text, and no rows: {rows[0][:80]!r}"
        raise CallFailed(failure("type", message))
    made: list[Any] = plain(rows)
    return made


def _next(data: Any, path: Any, url: str) -> str | None:
    """The address of the next page, if there is one."""
    if not path:
        return None
    from urllib.parse import urljoin

    there = found(data, str(path), "next")
    return urljoin(url, str(there[0])) if there and there[0] else None


def with_auth(call: Call, name: Any) -> Call:
    """The call with the credential that a source or target names."""
    auths: Mapping[str, Any] = getattr(call, "auths", {})
    return replace(call, auth=auths.get(str(name))) if name and hasattr(call, "auth") else call
