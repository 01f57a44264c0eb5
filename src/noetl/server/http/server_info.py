"""About the server itself: whether it lives, whether it is ready, its figures, its workers; and playbooks, held against the language."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.lang import load_bytes
from noetl.server.http.bodies import MOST_TEXT, HttpProblem, decode_body
from noetl.server.http.routes import ApiContext, Route, caller_of, json
from noetl.server.http.start import diagnostics

#: seconds within which the store has to answer
_TIMEOUT_S = 2.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class ValidationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A playbook to be checked."""

    playbook: str
    file: str = "playbook.yaml"
    legacy: bool = False
    strict: bool = False


class ValidationResult(msgspec.Struct):
    """What is wrong with it."""

    valid: bool
    diagnostics: list[dict[str, Any]]


class Health(msgspec.Struct):
    """It answers."""

    status: str = "ok"


async def health(_context: ApiContext, _request: Request) -> Response:
    """GET /health. Whoever answers lives; nothing is asked of anybody else."""
    return json(Health())


async def ready(context: ApiContext, _request: Request) -> Response:
    """GET /ready. Whether work is admitted and recorded, which is found out by writing and reading."""
    if context.draining:
        raise HttpProblem(503, "it is about to end")
    if trouble := await context.control_plane.store_watch.check(_TIMEOUT_S):
        raise HttpProblem(503, f"nothing can be recorded: {trouble}", {"Retry-After": "1"})
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await context.read(context.log.summaries, limit=1)
    except TimeoutError:
        raise HttpProblem(503, f"the store has not answered within {_TIMEOUT_S:g} s") from None
    return json(Health())


async def metrics(context: ApiContext, _request: Request) -> Response:
    """GET /metrics."""
    statuses = Counter(live.state.status for live in context.control_plane.service.live.values())
    lines = [
        "# HELP noetl_executions Executions that this process runs.",
        "# TYPE noetl_executions gauge",
        *(f'noetl_executions{{status="{status}"}} {count}' for status, count in sorted(statuses.items())),
        "# HELP noetl_store_writable Whether executions can be recorded, as far as is known.",
        "# TYPE noetl_store_writable gauge",
        f"noetl_store_writable {int(not context.control_plane.store_watch.trouble)}",
        "# HELP noetl_http_requests_total Requests that were answered.",
        "# TYPE noetl_http_requests_total counter",
        *(
            f'noetl_http_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
            for (method, route, status), count in sorted(context.requests.items())
        ),
    ]
    return Response("\n".join(lines) + "\n", media_type=_TEXT)


async def workers(context: ApiContext, _request: Request) -> Response:
    """GET /api/workers."""
    return json({"workers": await context.read(context.control_plane.workers)})


async def dead_letters(context: ApiContext, request: Request) -> Response:
    """GET /api/dead-letters."""
    found = await context.read(context.control_plane.dead_letters, caller_of(request).paths)
    return json({"dead_letters": found})


async def validate(context: ApiContext, request: Request) -> Response:
    """POST /api/validate."""
    wish = await decode_body(request, ValidationRequest, 2 * MOST_TEXT)
    data = wish.playbook.encode("utf-8", "surrogatepass")
    if len(data) > MOST_TEXT:
        raise HttpProblem(413, f"the playbook has {len(data):,} bytes; {MOST_TEXT:,} are allowed")
    kinds = context.control_plane.catalog.kinds
    loaded = await context.read(load_bytes, data, kinds, name=wish.file, legacy=wish.legacy, strict=wish.strict)
    return json({"valid": loaded.net is not None, **diagnostics(loaded)})


ROUTES = [
    Route("GET", "/health", "open", "none", health, "Whether the server lives.", gives=Health),
    Route("GET", "/ready", "open", "none", ready, "Whether it takes work; if not, why.", gives=Health),
    Route("GET", "/metrics", "read", "whole", metrics, "Figures for Prometheus.", gives="text/plain"),
    Route(
        "GET",
        "/api/workers",
        "read",
        "whole",
        workers,
        "The workers of this server.",
        gives=dict[str, list[dict[str, Any]]],
    ),
    Route(
        "GET",
        "/api/dead-letters",
        "read",
        "checked",
        dead_letters,
        "Pipelines that no worker brought to an end, with the reason.",
        gives=dict[str, list[dict[str, Any]]],
    ),
    Route(
        "POST",
        "/api/validate",
        "read",
        "none",
        validate,
        "All problems of a playbook.",
        ValidationRequest,
        ValidationResult,
    ),
]
