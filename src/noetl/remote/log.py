"""RemoteLog: the log of a server, as far as commands read it and leave requests in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import quote

import msgspec

from noetl.errors import NoetlError, UsageError
from noetl.model.events import Event
from noetl.model.requests import Cancel, Pause, Signal, decode_request
from noetl.ports import OVER, EventLog, Line, Source, Summary
from noetl.remote.client import Client, Refused

_PAGE: Final = 10_000
_LIST: Final = 1_000
#: seconds that servers have that need not be there
_OTHERS_S: Final = 2.0


class Page(msgspec.Struct):
    """Some events."""

    events: list[Event]
    after: int
    over: bool


class _List(msgspec.Struct):
    executions: list[Summary]
    cursor: str | None = None


class _Numbered(msgspec.Struct):
    at: int
    line: Line


class _Lines(msgspec.Struct):
    lines: list[_Numbered]
    after: int
    more: bool


_page, _list, _lines = msgspec.json.Decoder(Page), msgspec.json.Decoder(_List), msgspec.json.Decoder(_Lines)
_summary, _source = msgspec.json.Decoder(Summary), msgspec.json.Decoder(Source)


def _waits(client: Client, execution_id: str) -> list[str]:
    try:
        found: list[str] = msgspec.json.decode(client.get(f"{_one(execution_id)}/waits").body)["waits"]
    except NoetlError:  # it is said beside something else, which is told all the same
        return []
    return found


class RemoteLog(EventLog):
    """An `EventLog` that only servers write to."""

    def __init__(self, client: Client) -> None:
        self.client = client

    # --- reading -----------------------------------------------------------------------------------------------------

    def page(self, execution_id: str, *, after: int, limit: int = _PAGE, wait: int = 0) -> Page:
        """Some events; where there are none yet, some seconds are waited for them."""
        query = {"after": after, "limit": limit, "wait": wait or None}
        found: Page = _page.decode(self.client.get(f"{_one(execution_id)}/events", query, wait=wait).body)
        return found

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port."""
        found: list[Event] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self.page(execution_id, after=after, limit=wanted)
            found += page.events
            after = page.after
            if len(page.events) < wanted:
                break
        return found

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        answer = self.client.get(f"{_one(execution_id)}/snapshot", {"upto": upto})
        seq = {name.lower(): value for name, value in answer.headers.items()}.get("noetl-seq")
        return (int(seq), answer.body) if answer.status == 200 and seq is not None else None

    def summaries(
        self, *, limit: int = 50, unfinished: bool = False, parent: str | None = None, before: str | None = None
    ) -> list[Summary]:
        """See the port."""
        found: list[Summary] = []
        while len(found) < limit:
            query = {"limit": min(_LIST, limit - len(found)), "unfinished": unfinished, "parent": parent}
            page: _List = _list.decode(self.client.get("/api/executions", {**query, "cursor": before}).body)
            found += page.executions
            before = page.cursor
            if before is None:
                break
        return found

    def summary(self, execution_id: str) -> Summary | None:
        """See the port."""
        body = self._there(_one(execution_id), {"view": "summary"}) if execution_id else None
        found: Summary | None = None if body is None else _summary.decode(body)
        return found

    def waits(self, execution_id: str) -> list[str]:
        """What an execution waits for that is no part of it, in words. Only the server that runs it knows."""
        found = _waits(self.client, execution_id)
        for client in self.client.others(_OTHERS_S) if not found else ():
            found = found or _waits(client, execution_id)
            client.close()
        return found

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """See the port. From elsewhere it is one question each."""
        found = (self.summary(name) for name in execution_ids)
        return {one.execution_id for one in found if one is not None and one.status not in OVER} & set(execution_ids)

    def source(self, content_hash: str) -> Source | None:
        """See the port."""
        body = self._there(f"/api/sources/{quote(content_hash, safe='')}") if content_hash else None
        found: Source | None = None if body is None else _source.decode(body)
        return found

    def latest(self, path: str) -> Source | None:
        """See the port."""
        body = self._there("/api/sources", {"path": path})
        found: Source | None = None if body is None else _source.decode(body)
        return found

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, Line]]:
        """See the port."""
        found: list[tuple[int, Line]] = []
        more = True
        while more:
            page: _Lines = _lines.decode(self.client.get(f"{_one(execution_id)}/logs", {"after": after}).body)
            found += [(one.at, one.line) for one in page.lines]
            after, more = page.after, page.more
        return found

    def _there(self, path: str, query: dict[str, Any] | None = None) -> bytes | None:
        """The answer; None: there is no such thing."""
        try:
            return self.client.get(path, query).body
        except Refused as error:
            if error.status == 404:
                return None
            if error.status == 400:
                raise UsageError(str(error.problem.get("detail"))) from None
            raise

    # --- acting ------------------------------------------------------------------------------------------------------

    def post(self, execution_id: str, body: bytes) -> None:
        """See the port. The server lets it take effect, whoever runs the execution, or nobody."""
        request = decode_request(body)
        if isinstance(request, Signal):
            verb, given = "signal", {"name": request.name, "data": request.data}
        elif isinstance(request, Cancel):
            verb, given = "cancel", {"why": request.why}
        else:
            verb, given = "pause" if isinstance(request, Pause) else "unpause", {}
        self.client.post(f"{_one(execution_id)}/{verb}", given)

    @property
    def me(self) -> str:
        """See the port: whoever looks from elsewhere owns nothing."""
        return ""

    async def claim(self, execution_id: str) -> bool:  # noqa: ARG002  the port's
        """See the port. What a server keeps is run by servers."""
        return False

    async def close(self) -> None:
        """See the port."""
        self.client.close()

    # --- what servers do for themselves ------------------------------------------------------------------------------

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    async def keep_source(self, source: Source) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port."""
        return []

    def settle(self, number: int) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    async def forget(self, execution_id: str) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()

    def write_lines(self, execution_id: str, lines: Sequence[Line]) -> None:  # noqa: ARG002
        """See the port."""
        _not_here()


def _one(execution_id: str) -> str:
    return f"/api/executions/{quote(execution_id, safe='')}"


def _not_here() -> NoReturn:
    raise NoetlError("only the server itself writes to its log")
