"""The API as one ASGI application, over any control plane."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Mounted
from starlette.types import Receive, Scope, Send

from noetl.errors import NoetlError, UsageError
from noetl.model.access import ApiToken
from noetl.ports import HasAccess
from noetl.server.core import ControlPlane
from noetl.server.http import access_routes, events, executions, inspection, payloads, server_info, start
from noetl.server.http.access import (
    AccessGuard,
    AuditTrail,
    KnownTokens,
    RequestLimits,
    ServerNames,
    TokenFile,
    is_loopback,
)
from noetl.server.http.bodies import HttpProblem
from noetl.server.http.guarded_route import GuardedRoute
from noetl.server.http.openapi import describe_api
from noetl.server.http.routes import ApiContext, PayloadReader, Route, json

#: the table of all routes that every server has; workers have their own, see `more` of `build_app`
ROUTES: list[Route] = [
    *start.ROUTES,
    *executions.ROUTES,
    *events.ROUTES,
    *inspection.ROUTES,
    *payloads.ROUTES,
    *server_info.ROUTES,
    *access_routes.ROUTES,
]


class AccessSettings(msgspec.Struct, frozen=True):
    """Who is admitted to a server, beside those whose tokens are in the store; and how often."""

    #: tokens of a file
    file: TokenFile
    #: the token that the server has made for its owner
    owner: ApiToken | None = None
    #: what is bound, and other names that the server goes by
    host: str = "127.0.0.1"
    hosts: Sequence[str] = ()
    #: calls a second, of a token and of an address; zero: no limit
    token_rate: float = 0.0
    address_rate: float = 0.0
    #: days for which the audit log is kept; zero: for ever
    audit_days: float = 0.0


def build_app(
    control_plane: ControlPlane,
    access: AccessSettings,
    *,
    results: PayloadReader | None = None,
    more: Sequence[Route] = (),
) -> Starlette:
    """The API of a control plane; `app.state.context` is its context.

    NoetlError: a route does not say who may call it. UsageError: others would reach the server, and nobody is admitted.
    """
    assert isinstance(control_plane.log, HasAccess)
    clock, store = control_plane.effects.clock, control_plane.log.access()
    tokens = KnownTokens(store, access.file, clock, access.owner)
    routes = [*ROUTES, *more]
    routes.append(_description(routes))
    _check(routes, access, tokens)
    limits = RequestLimits(access.token_rate, access.address_rate, monotonic)
    guard = AccessGuard(tokens, ServerNames(access.host, access.hosts), limits)
    trail = AuditTrail(store, clock, days=access.audit_days, warn=control_plane.warn)
    context = ApiContext(control_plane, tokens, trail, results, guard.recheck)
    guarded = [(one, GuardedRoute(one, context, guard, trail)) for one in routes]
    mounted = [Mounted(one.path, at, methods=[one.method]) for one, at in guarded]
    made = _Api(routes=mounted, exception_handlers={HTTPException: _handle_http_error})
    made.plain = {(one.method, one.path): at for one, at in guarded if "{" not in one.path}
    made.state.context = context
    return made


def _check(routes: Sequence[Route], access: AccessSettings, tokens: KnownTokens) -> None:
    undeclared = [f"{one.method} {one.path}" for one in routes if one.permission is None or one.paths is None]
    if undeclared:
        raise NoetlError(f"routes without a permission: {', '.join(undeclared)}")
    if not is_loopback(access.host) and not tokens.are_configured():
        raise UsageError(
            f"{access.host} is open to other machines, and there is no token that admits anybody; "
            f"`noetl token add NAME --role admin` makes one"
        )


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
    return Route(
        "GET", "/api/openapi.json", "open", "none", serve_description, about_it, gives="application/openapi+json"
    )
