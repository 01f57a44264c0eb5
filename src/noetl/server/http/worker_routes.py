"""The routes for workers. Their bodies are those of `model.wire`, with larger limits than other routes have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.errors import NoetlError
from noetl.model.access import AuditEntry
from noetl.model.wire import (
    UNDECODABLE,
    Heartbeat,
    ServerReply,
    WorkerMessage,
    decode_heartbeat,
    decode_message,
    encode,
)
from noetl.server.cluster import WorkerApi, WorkerCall
from noetl.server.http.bodies import HttpProblem, body_of
from noetl.server.http.routes import JSON, ApiContext, Route, caller_of

T = TypeVar("T")
#: of a message: outputs travel in it up to the size that the log takes, several at once
_MOST = 256 << 20


def build_worker_routes(worker_api: WorkerApi) -> list[Route]:
    """The routes for workers, over one worker API."""

    async def work(context: ApiContext, request: Request) -> Response:
        """POST /api/work."""

        async def serve(message: WorkerMessage) -> ServerReply:
            caller_of(request).check_worker(message.worker, message.pools)
            return await worker_api.serve(message, _call_of(context, request, message.worker))

        return await _serve_message(request, decode_message, serve)

    async def alive(context: ApiContext, request: Request) -> Response:
        """POST /api/pulse."""

        async def serve(heartbeat: Heartbeat) -> ServerReply:
            caller_of(request).check_worker(heartbeat.worker, _pools_of(heartbeat))
            return await worker_api.alive(heartbeat, _call_of(context, request, heartbeat.worker))

        return await _serve_message(request, decode_heartbeat, serve)

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
            "whole",
            source,
            "The playbook of a pipeline that a worker is to run.",
            gives=JSON,
        ),
        Route("POST", "/api/work", "work", "whole", work, "A worker reports, and is given more to do.", JSON, JSON),
        Route("POST", "/api/pulse", "work", "whole", alive, "A worker lives, and says what it has.", JSON, JSON),
    ]


def _pools_of(heartbeat: Heartbeat) -> list[str]:
    """The pools that a worker says it serves, for lists."""
    pools = heartbeat.about.get("pools", [])
    return [str(one) for one in pools] if isinstance(pools, list) else []


def _call_of(context: ApiContext, request: Request, worker: str) -> WorkerCall:
    caller = caller_of(request)

    async def gone() -> bool:
        try:
            await context.recheck(caller)
        except (HttpProblem, NoetlError):
            return True
        return await request.is_disconnected()

    def refuse(action: str, about: str) -> None:
        entry = AuditEntry(
            context.trail.stamp(), caller.name, action, about, caller.address, "refused", reason=f"worker {worker}"
        )
        context.trail.refuse(entry)

    return WorkerCall(caller.name, gone, refuse)


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
    except msgspec.ValidationError as error:
        raise HttpProblem(400, f"the message cannot be read: {error}") from None
    except NoetlError as error:
        raise HttpProblem(503, str(error), {"Retry-After": "1"}) from None
    return Response(encode(reply), media_type=JSON)
