"""Payloads of the result store, by reference. What lies there went through redaction, so there is no secret in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from noetl.expr import is_reference
from noetl.server.http.bodies import HttpProblem, decode_body, number, value_of
from noetl.server.http.routes import ApiContext, PayloadBody, Route, caller_of

_BINARY = "application/octet-stream"
#: executions above each other that are looked at
_DEEPEST = 100


class PayloadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A payload, or some elements of a list."""

    ref: dict[str, Any]
    start: int = 0
    stop: int | None = None


async def by_query(context: ApiContext, request: Request) -> Response:
    """GET /api/results."""
    given = value_of(request.query_params.get("ref", "").encode() or b"null", "reference")
    return await _send_payload(context, request, given, number(request, "start", 0), number(request, "stop", 0) or None)


async def by_body(context: ApiContext, request: Request) -> Response:
    """POST /api/results: a reference may be too long for an address."""
    wish = await decode_body(request, PayloadRequest)
    return await _send_payload(context, request, wish.ref, wish.start, wish.stop)


async def _send_payload(
    context: ApiContext, request: Request, reference: Any, start: int, stop: int | None
) -> Response:
    if context.results is None:
        raise HttpProblem(404, "this server has no result store")
    if not isinstance(reference, dict) or not is_reference(reference):
        raise HttpProblem(400, "`ref` is no reference: one has `type`, `locator`, `auth_reference` and `meta`")
    caller = caller_of(request)
    if caller.paths and not await context.read(_may_see, context, reference, caller.paths):
        raise HttpProblem(404, "there is no such payload")
    sent = await context.read(context.results.open, reference, start, stop)
    first = await context.read(next, sent.blocks, b"")
    headers = {"Content-Disposition": "attachment"}
    return StreamingResponse(_blocks(context, first, sent), headers=headers, media_type=sent.content_type)


def _may_see(context: ApiContext, reference: Mapping[str, Any], paths: Sequence[str]) -> bool:
    """Whether a payload was stored by an execution of one of these playbooks, or by one that such an execution has started."""
    assert context.results is not None
    owner = context.results.owner(reference)
    if owner is None:  # rows that a transfer wrote: their reference is sealed, so it was shown to the caller
        return True
    for _ in range(_DEEPEST):
        if owner is None or context.log.summary(owner, paths=paths) is not None:
            return owner is not None
        summary = context.log.summary(owner)
        owner = summary.parent if summary is not None else None
    return False


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
        "checked",
        by_query,
        _ABOUT,
        gives=_BINARY,
        query={
            "ref": "the reference, in JSON",
            "start": "of a list, the first element",
            "stop": "of a list, the first element that is not wanted",
        },
    ),
    Route("POST", "/api/results", "read", "checked", by_body, _ABOUT, PayloadRequest, _BINARY),
]
