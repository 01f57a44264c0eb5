"""Payloads of the result store, by reference. What lies there went through redaction, so there is no secret in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from noetl.expr import is_reference
from noetl.server.http.bodies import HttpProblem, decode_body, number, value_of
from noetl.server.http.routes import ApiContext, PayloadBody, Route

_BINARY = "application/octet-stream"


class PayloadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A payload, or some elements of a list."""

    ref: dict[str, Any]
    start: int = 0
    stop: int | None = None


async def by_query(context: ApiContext, request: Request) -> Response:
    """GET /api/results."""
    given = value_of(request.query_params.get("ref", "").encode() or b"null", "reference")
    return await _send_payload(context, given, number(request, "start", 0), number(request, "stop", 0) or None)


async def by_body(context: ApiContext, request: Request) -> Response:
    """POST /api/results: a reference may be too long for an address."""
    wish = await decode_body(request, PayloadRequest)
    return await _send_payload(context, wish.ref, wish.start, wish.stop)


async def _send_payload(context: ApiContext, reference: Any, start: int, stop: int | None) -> Response:
    if context.results is None:
        raise HttpProblem(404, "this server has no result store")
    if not isinstance(reference, dict) or not is_reference(reference):
        raise HttpProblem(400, "`ref` is no reference: one has `type`, `locator`, `auth_reference` and `meta`")
    sent = await context.read(context.results.open, reference, start, stop)
    first = await context.read(next, sent.blocks, b"")
    headers = {"Content-Disposition": "attachment"}
    return StreamingResponse(_blocks(context, first, sent), headers=headers, media_type=sent.content_type)


async def _blocks(context: ApiContext, first: bytes, sent: PayloadBody) -> AsyncIterator[bytes]:
    block: bytes | None = first
    while block is not None:
        yield block
        block = await context.read(next, sent.blocks, None)


_ABOUT = "A stored payload: JSON, lines of JSON or Parquet, as it lies there; of a range, lines of JSON."
ROUTES = [
    Route(
        "GET",
        "/api/results",
        "read",
        by_query,
        _ABOUT,
        gives=_BINARY,
        query={
            "ref": "the reference, in JSON",
            "start": "of a list, the first element",
            "stop": "of a list, the first element that is not wanted",
        },
    ),
    Route("POST", "/api/results", "read", by_body, _ABOUT, PayloadRequest, _BINARY),
]
