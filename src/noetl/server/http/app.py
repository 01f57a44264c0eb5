"""The API as one ASGI application, over any control plane."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Mounted
from starlette.types import Receive, Scope, Send

from noetl.errors import NoetlError, UsageError
from noetl.server.core import ControlPlane
from noetl.server.http import events, executions, inspection, payloads, server_info, start
from noetl.server.http.api_tokens import ApiTokens
from noetl.server.http.bodies import HttpProblem
from noetl.server.http.guard import AccessGuard, GuardedRoute, ServerNames, is_loopback
from noetl.server.http.openapi import describe_api
from noetl.server.http.routes import ApiContext, PayloadReader, Route, json

#: the table of all routes that every server has; workers have their own, see `more` of `app`
ROUTES: list[Route] = [
    *start.ROUTES,
    *executions.ROUTES,
    *events.ROUTES,
    *inspection.ROUTES,
    *payloads.ROUTES,
    *server_info.ROUTES,
]


def build_app(
    control_plane: ControlPlane,
    *,
    tokens: ApiTokens,
    host: str = "127.0.0.1",
    hosts: Sequence[str] = (),
    results: PayloadReader | None = None,
    more: Sequence[Route] = (),
) -> Starlette:
    """The API of a control plane; `app.state.context` is its context. `host` is what is bound, `hosts` other names it goes by.

    NoetlError: a route says not who may call it. UsageError: the server would be open to others.
    """
    context = ApiContext(control_plane, tokens, results)
    routes = [*ROUTES, *more]
    routes.append(_description(routes))
    undeclared = [f"{route.method} {route.path}" for route in routes if route.permission is None]
    if undeclared:
        raise NoetlError(f"routes without a permission: {', '.join(undeclared)}")
    if not is_loopback(host) and not tokens.all():
        raise UsageError(
            f"without a token a server answers its own machine alone, and {host} is open to others; "
            f"`noetl token add NAME --role admin` makes one"
        )
    door = AccessGuard(tokens, ServerNames(host, hosts))
    guarded = [(one, GuardedRoute(one, context, door)) for one in routes]
    mounted = [Mounted(one.path, at, methods=[one.method]) for one, at in guarded]
    made = _Api(routes=mounted, exception_handlers={HTTPException: _handle_http_error})
    made.plain = {(one.method, one.path): at for one, at in guarded if "{" not in one.path}
    made.state.context = context
    return made


class _Api(Starlette):
    """Routes whose paths are plain are found at once, and not by trying one after the other: workers come often."""

    plain: dict[tuple[str, str], GuardedRoute]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = self.plain.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        await (super().__call__ if found is None else found)(scope, receive, send)


async def _handle_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing at this address", 405: "this address does not know the method"}
    return HttpProblem(
        error.status_code, details.get(error.status_code, error.detail), dict(error.headers or {})
    ).response()


def _description(routes: list[Route]) -> Route:
    async def serve_description(_context: ApiContext, _request: Request) -> Response:
        return json(describe_api(routes))

    about_it = "This description."
    return Route("GET", "/api/openapi.json", "open", serve_description, about_it, gives="application/openapi+json")
