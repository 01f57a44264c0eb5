"""Route and ApiContext: what can be called and by whom, and what every route may use.

`app` and the description of the API read the same table of routes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from noetl.history import state_at
from noetl.model.access import Permission
from noetl.model.events import Event
from noetl.model.state import Execution
from noetl.ports import EventLog, Summary
from noetl.server.core import ControlPlane, LiveExecution
from noetl.server.http.access import AuditTrail, Caller, KnownTokens
from noetl.server.http.bodies import no_execution

# What the routes share: the control plane, tokens, threads for slow reads, and wakeups for new events.


T = TypeVar("T")
#: threads that read the log; each has a connection to the store
_READERS = 4


class PayloadBody(Protocol):
    """A payload on its way out."""

    content_type: str
    blocks: Iterator[bytes]


class PayloadReader(Protocol):
    """The result store, as far as the API shows it."""

    def open(self, reference: Mapping[str, Any], start: int, stop: int | None) -> PayloadBody:
        """A payload, or some elements of a list; nothing is held in memory that need not be."""

    def owner(self, reference: Mapping[str, Any]) -> str | None:
        """The execution that has stored a payload; None: it is outside of the result store. UsageError: it is no reference."""

    def small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        """A payload of no more than so many bytes; None: it is larger, or gone."""


class ApiContext:
    """One for each app."""

    def __init__(
        self,
        control_plane: ControlPlane,
        tokens: KnownTokens,
        trail: AuditTrail,
        results: PayloadReader | None,
        recheck: Callable[[Caller], Awaitable[None]],
    ) -> None:
        self.control_plane = control_plane
        self.tokens = tokens
        #: where refused calls are noted
        self.trail = trail
        self.results = results
        #: refuses a caller whose token is no longer valid, in an answer that takes its time
        self.recheck = recheck
        #: it takes no new executions, because it is about to end
        self.draining = False
        #: method, route and status → how many
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="noetl-api")
        self._wakeups: dict[str, set[asyncio.Event]] = {}
        self._alone: dict[str, asyncio.Lock] = {}
        #: how many have a lock, or wait for it
        self._asking: Counter[str] = Counter()
        control_plane.service.watchers.append(self._on_events)

    @property
    def log(self) -> EventLog:
        """Where executions are read."""
        return self.control_plane.log

    def drain(self) -> None:
        """Take no new executions, and end what follows others."""
        self.draining = True
        for wakeup in [wakeup for wakeups in self._wakeups.values() for wakeup in wakeups]:
            wakeup.set()

    async def close(self) -> None:
        """Let go of the threads, and write what is left of the audit log."""
        await self.trail.close()
        if self._on_events in self.control_plane.service.watchers:
            self.control_plane.service.watchers.remove(self._on_events)
        self._pool.shutdown(wait=True, cancel_futures=True)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, ask: Callable[..., T], *given: Any, **named: Any) -> T:
        """Do what takes its time in a thread: others are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: ask(*given, **named))

    async def execution(self, request: Request) -> Summary:
        """The execution that is meant by the `id` in the path; what the caller may not see is not there."""
        found = await self.find(request, request.path_params["id"])
        request.state.object = f"{found.execution_id} {found.path}"
        return found

    async def find(self, request: Request, execution_id: str) -> Summary:
        """An execution; what the caller may not see is not there."""
        paths = caller_of(request).paths
        found = await self.read(self.log.summary, execution_id, paths=paths) if execution_id.isascii() else None
        if found is None:
            raise no_execution(execution_id)
        return found

    async def state(self, execution_id: str, upto: int | None = None) -> Execution:
        """The state of an execution, now or at an earlier event; one that runs here is at hand."""
        live = self.control_plane.service.live.get(execution_id)
        # While a decision is being written, the state in memory is ahead of the log.
        if live is not None and upto is None and not live.busy:
            return live.state
        return await self.read(state_at, self.log, execution_id, upto=upto)

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _on_events(self, live: LiveExecution, _events: tuple[Event, ...]) -> None:
        for wakeup in self._wakeups.get(live.id, ()):
            wakeup.set()

    @contextmanager
    def subscribe(self, execution_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever this process has made something of the execution durable."""
        wakeup = asyncio.Event()
        self._wakeups.setdefault(execution_id, set()).add(wakeup)
        try:
            yield wakeup
        finally:
            self._wakeups[execution_id].discard(wakeup)
            if not self._wakeups[execution_id]:
                del self._wakeups[execution_id]

    @asynccontextmanager
    async def lock_name(self, name: str) -> AsyncIterator[None]:
        """One after the other, of those in this process that ask for the same name."""
        lock = self._alone.setdefault(name, asyncio.Lock())
        self._asking[name] += 1
        try:
            async with lock:
                yield
        finally:  # not by whether it is locked: it is free for a moment when the next one is about to have it
            self._asking[name] -= 1
            if not self._asking[name]:
                del self._alone[name], self._asking[name]


JSON = "application/json"
Endpoint = Callable[[ApiContext, Request], Awaitable[Response]]


def caller_of(request: Request) -> Caller:
    """Who calls."""
    caller: Caller = request.state.caller
    return caller


class Route(msgspec.Struct, frozen=True):
    """One way into the API."""

    method: str
    path: str
    #: what a caller must be allowed; the app does not start with a route that has none
    permission: Permission | None
    #: how a token that is for some playbooks only is held to them: the endpoint looks at these alone (`checked`), it is about
    #: more than these, and refused (`whole`), or about none (`none`); the app does not start with a route that does not say
    paths: Literal["checked", "whole", "none"] | None
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
    #: what the audit log calls it, if it changes something
    action: str = ""


def json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)
