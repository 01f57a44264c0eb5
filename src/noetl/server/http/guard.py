"""The checks before every route: the host, the caller, its permissions, and how errors are answered."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import traceback
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from noetl.errors import NoetlError, UsageError
from noetl.server.http.api_tokens import MAY, ApiToken, ApiTokens, Permission, roles_with
from noetl.server.http.bodies import HttpProblem, problem_of
from noetl.server.http.routes import ApiContext, Route

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared with, not bound to
#: what proxies add: whoever is behind one seems to be on this machine
_PASSED_ON = ("forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")
_WAY_IN = "set NOETL_TOKEN; `noetl token add NAME --role ROLE` at the server makes one"
#: who calls without a token, where that is allowed
NOBODY = ApiToken("", "admin", "", "", "")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerNames:
    """The names this server goes by. Another name for its address may be one that somebody else gave it, to trick browsers."""

    def __init__(self, bound: str, more: Iterable[str] = ()) -> None:
        named = frozenset(one.lower() for one in more)
        self._names = _LOOPBACK_NAMES | named | {bound.lower()}
        self._any = "*" in named
        # Who listens everywhere is called by any of its addresses; an address, unlike a name, cannot be made to lie.
        self._addresses = bound in _EVERYWHERE
        self._names |= {socket.gethostname().lower()} if self._addresses else frozenset()

    def is_known(self, authority: str) -> bool:
        """Whether the host of a header `Host`, or of an address, is this server."""
        try:
            name = urlsplit(f"//{authority}").hostname or ""
        except ValueError:
            return False
        return self._any or name in self._names or (self._addresses and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class AccessGuard:
    """Who may come in."""

    def __init__(self, tokens: ApiTokens, hosts: ServerNames) -> None:
        self._tokens, self._hosts = tokens, hosts
        #: nobody needs a token, as long as there is none; once there was one, it stays needed
        self._unlocked = not tokens.all()

    def admit(self, request: Request, permission: Permission) -> ApiToken:
        """Whoever calls, if they may; a Problem otherwise."""
        if not self._hosts.is_known(request.headers.get("host", "")):
            raise HttpProblem(421, "this server does not go by that name; NOETL_HOSTS names others that it goes by")
        origin = request.headers.get("origin")
        if origin is not None and not self._hosts.is_known(urlsplit(origin).netloc):
            raise HttpProblem(403, "pages of another site may not call this server")
        if permission == "open":
            return NOBODY
        try:
            who = self._caller(request)
        except UsageError as error:  # the tokens cannot be read: that is no fault of the request, which may come again
            raise HttpProblem(503, str(error), {"Retry-After": "1"}) from None
        if permission not in MAY[who.role]:
            raise HttpProblem(403, f"the role `{who.role}` may not do this; {roles_with(permission)}")
        return who

    def _caller(self, request: Request) -> ApiToken:
        self._unlocked = self._unlocked and not self._tokens.all()
        if self._unlocked:
            if any(name in request.headers for name in _PASSED_ON):
                raise _unknown(
                    "without a token this server answers its own machine alone, and nothing that a proxy passes on; "
                    "`noetl token add NAME --role admin` makes one"
                )
            if request.client is not None and is_loopback(request.client.host):
                return NOBODY
            raise _unknown("without a token this server answers its own machine alone")
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not presented.strip():
            raise _unknown(f"this server wants a token (Authorization: Bearer …): {_WAY_IN}")
        found = self._tokens.of(presented.strip())
        if found is None:
            raise _unknown(f"the token is not known, or holds no longer: {_WAY_IN}")
        return found


def _unknown(detail: str) -> HttpProblem:
    return HttpProblem(401, detail, {"WWW-Authenticate": "Bearer"})


class GuardedRoute:
    """A route as an ASGI application."""

    def __init__(self, route: Route, context: ApiContext, door: AccessGuard) -> None:
        assert route.permission is not None
        self._route, self._context, self._door = route, context, door
        self._permission: Permission = route.permission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(Request(scope, receive), scope, receive, send)
        except asyncio.CancelledError:
            if not self._context.draining:  # the server ends, and waits for this no longer
                raise

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._response(request)
        # What is shown may be of one token and not of another, and is out of date in a moment.
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        self._context.requests[self._route.method, self._route.path, response.status_code] += 1
        with suppress(ClientDisconnect):
            await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        try:
            request.state.caller = self._door.admit(request, self._permission)
            return await self._route.endpoint(self._context, request)
        except HttpProblem as problem:
            return problem.response()
        except ClientDisconnect:
            return HttpProblem(400, "the request broke off").response()
        except NoetlError as error:
            return problem_of(error).response()
        except Exception:  # noqa: BLE001  a mistake of ours: its words are for the server's own log, not for callers
            traceback.print_exc()
            return HttpProblem(500, "something went wrong here; the server's log has more").response()
