"""The pages of an API, fetched one after the other while the targets are busy with those before."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace
from yarl import URL

from noetl.drivers.datahost import CallFailed
from noetl.drivers.text import as_text
from noetl.errors import MachineExhausted, TemplateError
from noetl.expr import failure_of
from noetl.model.output import Failure, Output, failure
from noetl.ports import Call, NoCredential, World
from noetl.tools.http.request import SECRET_NAME, HttpClient, InvalidRequest
from noetl.tools.transfer.data_sources import Feed, FeedBatch, find_rows
from noetl.tools.transfer.paging import BadPage, CycleDetector, PageResponse, State
from noetl.tools.transfer.plan import TransferPlan

_REQUEST = ("url", "method", "params", "headers", "json", "body")
_MOST_PAGES = 1_000_000
#: rows are handed over when there is a chunk of them, or so many bytes; twice as much is held while nobody wants them
_AT_ONCE = 4 * 1024 * 1024
_UNAUTHORIZED = 401
#: what a server says of a page that it does not know any more
_FORGOTTEN = frozenset({400, 404, 410, 422})
#: headers that say who asks
_WHO = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "api-key", "x-auth-token"})
#: parameters of an address that look like secrets, and only say which page is wanted
_PLACE = re.compile(r"page|next|cont|cursor|skip|start|after|before|sync", re.IGNORECASE)


class PageFeed(Feed):
    """The rows of an API's pages."""

    def __init__(self, call: Call, world: World, plan: TransferPlan) -> None:
        source = plan.source
        self._call, self._world, self._size = call, world, plan.size
        self._config = {key: source[key] for key in _REQUEST if source.get(key) is not None}
        self._path = str(source["path"]) if source.get("path") else None
        self._paging = source["paging"]
        self.stable = bool(source.get("order_by"))
        #: rows to leave out, of the page that comes first
        self._skip = 0
        self._state: State = {}
        self._rows = 0
        #: the pages that are not behind all targets yet: their first row, and what leads to them
        self._places: deque[tuple[int, State]] = deque()
        self._held: list[bytes | Raw] = []
        self._bytes = 0
        self._over: Failure | bool = False
        self._changed = asyncio.Condition()
        self._fetching: asyncio.Task[None] | None = None

    # --- where it is -----------------------------------------------------------------------------------------------------

    def begin(self, position: Mapping[str, Any]) -> None:
        self._rows = int(position.get("rows", 0))
        self._state = dict(position.get("page") or {})
        self._skip = int(position.get("skip", self._rows if not self._state else 0))
        self._places.append((self._rows - self._skip, self._state))
        self._fetching = asyncio.ensure_future(self._fetch_all())

    def position_after(self, rows: int) -> dict[str, Any]:
        while len(self._places) > 1 and self._places[1][0] <= rows:
            self._places.popleft()
        first, state = self._places[0]
        if not state or self._is_secret(state):
            return {"rows": rows}
        return {"rows": rows, "page": state, "skip": rows - first}

    def _is_secret(self, state: State) -> bool:
        if self._world.is_secret(as_text(next(iter(state.values())))):
            return True
        names = URL(state["url"]).query if "url" in state else ()
        return any(SECRET_NAME.search(name) and not _PLACE.search(name) for name in names)

    # --- handing over ----------------------------------------------------------------------------------------------------

    async def take(self) -> FeedBatch:
        async with self._changed:
            await self._changed.wait_for(lambda: self._over or self._is_plenty(1))
            held, self._held, self._bytes = self._held, [], 0
            self._changed.notify_all()
        over = self._over
        return FeedBatch(b"\n".join(held), over is True, over if isinstance(over, dict) else None)

    def _is_plenty(self, times: int) -> bool:
        return len(self._held) >= times * self._size or self._bytes >= times * _AT_ONCE

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    # --- fetching --------------------------------------------------------------------------------------------------------

    async def _fetch_all(self) -> None:
        over: Failure | bool = failure("tool-crashed", "the pages could not be fetched")
        try:
            await self._pages()
            over = True
        except (CallFailed, BadPage, InvalidRequest) as error:
            over = {**error.failure, "message": f"the source: {error.failure['message']}"}
        except TemplateError as error:
            over = failure_of(error)
        except MachineExhausted as error:
            over = failure("http-transport", f"the source: {error}", retryable=True)
        except OSError as error:
            over = failure("http-transport", f"the source: {error}", retryable=True)
        finally:
            async with self._changed:
                self._over = over
                self._changed.notify_all()

    async def _pages(self) -> None:
        client = await HttpClient.of(self._call, self._world)
        trail, state, first = CycleDetector(), self._state, True
        trail.visit(str(self._config["url"]))
        for number in range(1, _MOST_PAGES + 1):
            url, output = await self._request_page(client, state)
            if first and state and self.stable and _is_page_expired(output):
                # What leads there has run out; all pages before lead there too.
                state, self._skip = {}, self._rows
                self._places = deque([(0, state)])
                url, output = await self._request_page(client, state)
            first = False
            following = await self._take_page(url, output, state, number)
            if following is None:
                return
            state, answer = following
            if trail.visit(self._paging.mark(state, answer)):
                raise BadPage("fail", f"page {number:,} ({_bare_url(url)}) {self._describe_cycle()}", page=number)
        raise BadPage("limit", f"the source has more than {_MOST_PAGES:,} pages")

    def _describe_cycle(self) -> str:
        if self._paging.by in ("next", "link", "cursor"):
            return "leads to a page that was there before: the pages go round in a circle"
        return (
            "has the rows of a page before it: the server may not know the parameter "
            f"`{self._paging.param}`; if it does, `page.more` says when it is over"
        )

    async def _take_page(
        self, url: str, output: Output, state: State, number: int
    ) -> tuple[State, PageResponse] | None:
        """Take the rows of an answer; the page that follows."""
        if output["error"] is not None:
            http = {"http": output["http"]} if "http" in output else {}
            raise CallFailed({**output["error"], **http})
        try:
            answer = PageResponse(output["data"], output["http"]["headers"])
            rows = answer.rows(self._path)
            if number == 1 and self._path and not rows:
                find_rows(msgspec.json.decode(answer.body), self._path, "response")  # says so if it leads nowhere
            following = self._paging.after(state, answer, len(rows), url)
        except BadPage as error:
            told = {**error.failure, "message": f"page {number:,} ({_bare_url(url)}): {error}", "page": number}
            raise CallFailed(told) from None
        await self._buffer_rows(rows, len(answer.body), following)
        return None if following is None else (following, answer)

    async def _buffer_rows(self, rows: Sequence[bytes | Raw], size: int, following: State | None) -> None:
        passed = min(self._skip, len(rows))
        self._skip -= passed
        async with self._changed:
            self._held += rows[passed:] if passed else rows
            self._bytes += size
            self._rows += len(rows) - passed
            if following is not None:
                self._places.append((self._rows - self._skip, following))
            self._changed.notify_all()
            await self._changed.wait_for(lambda: not self._is_plenty(2))

    async def _request_page(self, client: HttpClient, state: State) -> tuple[str, Output]:
        """Ask for a page, once more with a new token if the one we had was refused."""
        config = self._paging.request(self._config, state)
        url, own = str(config["url"]), str(self._config["url"])
        call = replace(self._call, kind="http", config=config)
        if "url" in state:
            await client.admit(own, url, call.spec)
        if "url" in state and URL(url).origin() != URL(own).origin():
            config["headers"] = self._without_credentials(config.get("headers"))
            call = replace(call, auth=None, config=config)
        output = await client.run(call, self._world, raw=True)
        if call.auth is None or output.get("http", {}).get("status") != _UNAUTHORIZED:
            return url, output
        renewed = await self._renew_auth()
        return url, output if renewed is None else await client.run(replace(call, auth=renewed), self._world, raw=True)

    def _without_credentials(self, headers: Any) -> dict[str, Any]:
        """The headers that may go to another host than the author wrote them for."""
        given = headers if isinstance(headers, Mapping) else {}
        return {
            name: value
            for name, value in given.items()
            if name.lower() not in _WHO and not self._world.is_secret(as_text(value))
        }

    async def _renew_auth(self) -> Mapping[str, Any] | None:
        used, name = self._call.auth, self._call.auth_name
        if used is None or name is None:
            return None
        try:
            renewed = await self._world.renew_credential(name, used)
        except NoCredential as error:
            raise CallFailed(failure("credential", str(error), retryable=error.retryable)) from None
        if renewed is not None:
            self._call = replace(self._call, auth=renewed)
        return renewed


def _is_page_expired(output: Output) -> bool:
    return output["error"] is not None and output.get("http", {}).get("status") in _FORGOTTEN


def _bare_url(url: str) -> str:
    """An address without what nobody should read."""
    return str(URL(url).with_query(None).with_fragment(None).with_user(None))
