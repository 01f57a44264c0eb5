"""AccessGuard: the checks before every route: the host, the caller, what they may do and how often."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request

from noetl.errors import NoetlError
from noetl.model.access import ApiToken, Permission, roles_with
from noetl.server.http.access.caller import Caller
from noetl.server.http.access.request_limits import RequestLimits
from noetl.server.http.access.tokens import KnownTokens
from noetl.server.http.bodies import HttpProblem

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared with, not bound to
_HINT = "set NOETL_TOKEN; `noetl token add NAME --role ROLE` at the server makes one"
#: statuses of calls that are refused because of who calls
REFUSED = frozenset({401, 403, 421, 429})


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
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
    """Decides who is admitted."""

    def __init__(self, tokens: KnownTokens, hosts: ServerNames, limits: RequestLimits) -> None:
        self.tokens, self._hosts, self._limits = tokens, hosts, limits

    async def admit(self, request: Request, permission: Permission, *, whole: bool = False) -> Caller:
        """Return who calls, if they may; `whole`: it is about more than some playbooks. HttpProblem: they may not."""
        address = request.client.host if request.client is not None else ""
        try:
            self._check_site(request)
            if permission == "open":
                _check_wait(self._limits.wait_for_anonymous(address))
                return Caller(address)
            caller = Caller(address, await self._identify(request, address))
            request.state.caller = caller  # known from here on, though they may be refused
            _check_permission(caller, permission, whole=whole)
        except HttpProblem as problem:
            if problem.status in REFUSED - {429}:
                _check_wait(self._limits.wait_for_anonymous(address))
            raise
        if permission != "work":  # what workers report is asked for by servers
            _check_wait(self._limits.wait_for_call(caller.name, address))
        return caller

    def _check_site(self, request: Request) -> None:
        if not self._hosts.is_known(request.headers.get("host", "")):
            raise HttpProblem(421, "this server does not go by that name; NOETL_HOSTS names others that it goes by")
        origin = request.headers.get("origin")
        if origin is not None and not self._hosts.is_known(urlsplit(origin).netloc):
            raise HttpProblem(403, "pages of another site may not call this server")

    async def _identify(self, request: Request, address: str) -> ApiToken:
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        presented = presented.strip()
        if scheme.lower() != "bearer" or not presented:
            raise _unknown(f"this server requires a token (Authorization: Bearer …): {_HINT}")
        if not self.tokens.was_valid(presented):
            _check_wait(self._limits.wait_for_guess(address))
        try:
            found = await self.tokens.find(presented)
        except NoetlError as error:  # the tokens cannot be read: that is no fault of the request, which may come again
            raise HttpProblem(503, str(error), {"Retry-After": "1"}) from None
        if found is None:
            self._limits.count_guess(address)
            raise _unknown(f"the token is unknown, expired or removed: {_HINT}")
        return found

    async def recheck(self, caller: Caller) -> None:
        """Refuse a caller whose token was removed, or has expired, since they were admitted."""
        if caller.token is not None and not await self.tokens.is_valid(caller.token):
            raise _unknown(f"the token is no longer valid: {_HINT}")


def _check_permission(caller: Caller, permission: Permission, *, whole: bool) -> None:
    assert caller.token is not None
    if not caller.may(permission):
        raise HttpProblem(403, f"the role `{caller.token.role}` may not do this; {roles_with(permission)}")
    if whole and caller.paths:
        raise HttpProblem(403, "this is about the whole server, and the token is for some playbooks only")


def _check_wait(seconds: float) -> None:
    if seconds > 0:
        wait = math.ceil(seconds)
        raise HttpProblem(429, f"too many requests: try again in {wait} s", {"Retry-After": str(wait)})


def _unknown(detail: str) -> HttpProblem:
    return HttpProblem(401, detail, {"WWW-Authenticate": "Bearer"})
