"""The routes for workers. Their bodies are those of `model.wire`, with larger limits than other routes have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.errors import NoetlError
from noetl.model.wire import UNDECODABLE, ServerReply, decode_heartbeat, decode_message, encode
from noetl.server.cluster import WorkerApi
from noetl.server.http.bodies import HttpProblem, body_of
from noetl.server.http.routes import JSON, ApiContext, Route

T = TypeVar("T")
#: of a message: outputs travel in it up to the size that the log takes, several at once
_MOST = 256 << 20


def build_worker_routes(worker_api: WorkerApi) -> list[Route]:
    """The routes for workers, over one worker API."""

    async def work(_context: ApiContext, request: Request) -> Response:
        """POST /api/work."""
        return await _serve_message(
            request, decode_message, lambda message: worker_api.serve(message, request.is_disconnected)
        )

    async def alive(_context: ApiContext, request: Request) -> Response:
        """POST /api/pulse."""
        return await _serve_message(request, decode_heartbeat, worker_api.alive)

    async def source(context: ApiContext, request: Request) -> Response:
        """GET /api/assigned/{hash}."""
        found = await context.read(context.log.source, request.path_params["hash"])
        if found is None:
            raise HttpProblem(404, "there is no such playbook")
        return Response(msgspec.json.encode(found), media_type=JSON)

    return [
        Route(
            "GET",
            "/api/assigned/{hash}",
            "work",
            "none",
            source,
            "The playbook of a pipeline that a worker is to run.",
            gives=JSON,
        ),
        Route("POST", "/api/work", "work", "none", work, "A worker reports, and is given more to do.", JSON, JSON),
        Route("POST", "/api/pulse", "work", "none", alive, "A worker lives, and says what it has.", JSON, JSON),
    ]


async def _serve_message(
    request: Request, decode: Callable[[bytes], T], serve: Callable[[T], Awaitable[ServerReply]]
) -> Response:
    body = await body_of(request, _MOST)
    try:
        message = decode(body)
    except UNDECODABLE as error:  # it will never be read: a worker that is told so does not send it again
        raise HttpProblem(400, f"the message cannot be read: {error}") from None
    try:
        reply = await serve(message)
    except NoetlError as error:
        raise HttpProblem(503, str(error), {"Retry-After": "1"}) from None
    return Response(encode(reply), media_type=JSON)
