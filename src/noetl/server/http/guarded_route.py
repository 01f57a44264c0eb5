"""GuardedRoute: a route behind its checks; how errors are answered, and which calls are recorded."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from noetl.errors import NoetlError
from noetl.model.access import AuditEntry
from noetl.server.http.access import REFUSED, AccessGuard, AuditTrail, Caller
from noetl.server.http.bodies import HttpProblem, problem_of
from noetl.server.http.routes import ApiContext, Route


class GuardedRoute:
    """A route as an ASGI application."""

    def __init__(self, route: Route, context: ApiContext, guard: AccessGuard, trail: AuditTrail) -> None:
        self._route, self._context, self._guard, self._trail = route, context, guard, trail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(Request(scope, receive), scope, receive, send)
        except asyncio.CancelledError:
            if not self._context.draining:  # the server ends, and waits for this no longer
                raise

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(request)
        # What is shown may be of one token and not of another, and is out of date in a moment.
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        self._context.requests[self._route.method, self._route.path, response.status_code] += 1
        with suppress(ClientDisconnect):
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        problem: HttpProblem | None = None
        permission = self._route.permission
        assert permission is not None
        try:
            request.state.caller = await self._guard.admit(request, permission, whole=self._route.paths == "whole")
            response = await self._route.endpoint(self._context, request)
        except HttpProblem as error:
            problem, response = error, error.response()
        except ClientDisconnect:
            response = HttpProblem(400, "the request broke off").response()
        except NoetlError as error:
            response = problem_of(error).response()
        except Exception:  # noqa: BLE001  a mistake of ours: its words are for the server's own log, not for callers
            traceback.print_exc()
            response = HttpProblem(500, "something went wrong here; the server's log has more").response()
        await self._record(request, response.status_code, problem)
        return response

    async def _record(self, request: Request, status: int, problem: HttpProblem | None) -> None:
        """Record a call that changed something, or was refused."""
        action = self._route.action
        if status < 400:
            if action:
                await self._trail.record(self._entry(request, status))
        elif status in REFUSED or action:
            reason = problem.detail if problem is not None and status in REFUSED else ""
            self._trail.refuse(self._entry(request, status, reason))

    def _entry(self, request: Request, status: int, reason: str = "") -> AuditEntry:
        caller: Caller | None = getattr(request.state, "caller", None)
        known = getattr(request.state, "object", None)
        return AuditEntry(
            self._trail.stamp(),
            caller.name if caller is not None else "",
            self._route.action or f"{self._route.method} {self._route.path}",
            known if known is not None else " ".join(map(str, request.path_params.values())),
            request.client.host if request.client is not None else "",
            "done" if status < 400 else "refused" if status in REFUSED else "failed",
            status,
            reason,
        )
