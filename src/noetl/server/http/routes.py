"""Route: what can be called, by whom, and what it takes and answers. `app` and the description of the API read the same table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.server.http.api_tokens import Permission
from noetl.server.http.context import ApiContext

JSON = "application/json"
Endpoint = Callable[[ApiContext, Request], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """One way into the API."""

    method: str
    path: str
    #: what a caller must be allowed; the app does not start with a route that has none
    permission: Permission | None
    endpoint: Endpoint
    #: one line
    about: str
    #: what it takes: the type of a JSON body, or a content type
    takes: Any = None
    #: what it answers: the type of a JSON body, or content types
    gives: Any = None
    #: the status of success
    status: int = 200
    #: the query: name → what it means
    query: dict[str, str] = {}


def json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)
