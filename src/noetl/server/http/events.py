"""Events: page by page, or as a stream that goes on until the execution is over (server-sent events)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from noetl.errors import NoetlError
from noetl.model.events import Event, encode
from noetl.ports import OVER
from noetl.server.http.access import Caller
from noetl.server.http.bodies import HttpProblem, number
from noetl.server.http.routes import ApiContext, Route, caller_of, json

STREAM = "text/event-stream"
#: events of a page, unless asked for otherwise, and at most
_PAGE, _MOST = 1_000, 10_000
#: events that are sent together
_RUN = 500
#: seconds between two looks at the log of an execution that another process runs, and at one that runs here
_ELSEWHERE, _HERE = 0.2, 5.0
#: seconds without an event after which a line says that the stream is alive
HEARTBEAT = 15.0
#: at most, that a page is waited for
_LONGEST_WAIT = 30


class EventPage(msgspec.Struct):
    """A page of a log."""

    events: list[Event]
    #: what `after` is for the next page
    after: int
    #: the execution is over, and this page has the last of it
    over: bool


async def events(context: ApiContext, request: Request) -> Response:
    """GET /api/executions/{id}/events."""
    summary = await context.execution(request)
    if STREAM in request.headers.get("accept", ""):
        return await _stream_response(context, request, summary.execution_id)
    after = number(request, "after", 0)
    limit = max(1, number(request, "limit", _PAGE, _MOST))
    until = time.monotonic() + number(request, "wait", 0, _LONGEST_WAIT)
    with context.subscribe(summary.execution_id) as wakeup:
        page, over = await _page(context, summary.execution_id, after, limit)
        while not page and not over and time.monotonic() < until and not context.draining:
            await _wait_for_events(context, summary.execution_id, wakeup, until - time.monotonic())
            page, over = await _page(context, summary.execution_id, after, limit)
    await context.recheck(caller_of(request))  # the token may have been removed meanwhile
    return json(EventPage(page, page[-1].seq if page else after, over))


async def _page(context: ApiContext, execution_id: str, after: int, limit: int) -> tuple[list[Event], bool]:
    """Some events, and whether there will be no more."""

    def look() -> tuple[list[Event], bool]:
        # The summary first: what it says is over has all of its events in the log.
        summary = context.log.summary(execution_id)
        found = context.log.read(execution_id, after=after, limit=limit)
        last = found[-1].seq if found else after
        return found, summary is None or (summary.status in OVER and last >= summary.seq)

    return await context.read(look)


async def _wait_for_events(context: ApiContext, execution_id: str, wakeup: asyncio.Event, most: float) -> None:
    """Wait until there may be something new."""
    patience = _HERE if execution_id in context.control_plane.service.live else _ELSEWHERE
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wakeup.wait(), min(patience, max(0.0, most)))
    wakeup.clear()


async def _stream_response(context: ApiContext, request: Request, execution_id: str) -> Response:
    given = request.headers.get("last-event-id")
    if given is not None and not (given.isdecimal() and len(given) <= 15):
        raise HttpProblem(400, f"Last-Event-ID is the number of an event, not {given!r}")
    after = int(given) if given is not None else number(request, "after", 0)
    page, over = await _page(context, execution_id, after, _RUN)
    if over and not page:
        # There is nothing to come: this is what makes a browser stop asking.
        return Response(status_code=204)
    return StreamingResponse(_stream(context, caller_of(request), execution_id, after), media_type=STREAM)


async def _stream(context: ApiContext, caller: Caller, execution_id: str, after: int) -> AsyncIterator[bytes]:
    """Events as they come, for as long as the token is valid."""
    with contextlib.suppress(HttpProblem, NoetlError):
        async for block in _follow(context, caller, execution_id, after):
            yield block


async def _follow(context: ApiContext, caller: Caller, execution_id: str, after: int) -> AsyncIterator[bytes]:
    spoke = time.monotonic()
    with context.subscribe(execution_id) as wakeup:
        while not context.draining:
            page, over = await _page(context, execution_id, after, _RUN)
            await context.recheck(caller)
            if page:
                after, spoke = page[-1].seq, time.monotonic()
                yield b"".join(b"id: %d\ndata: %b\n\n" % (one.seq, encode(one)) for one in page)
            if over:
                yield b"event: end\nid: %d\ndata: {}\n\n" % after
                return
            if not page:
                await _wait_for_events(context, execution_id, wakeup, HEARTBEAT)
                if time.monotonic() - spoke >= HEARTBEAT:
                    spoke = time.monotonic()
                    yield b": still here\n\n"


ROUTES = [
    Route(
        "GET",
        "/api/executions/{id}/events",
        "read",
        "checked",
        events,
        "What happened, in order: a page, or with `Accept: text/event-stream` a stream that ends with the execution. "
        "`Last-Event-ID` goes on behind an event.",
        gives=EventPage,
        query={
            "after": "only those behind this event",
            "limit": "how many, at most 10000",
            "wait": "seconds to wait for one, if there is none, at most 30",
        },
    )
]
