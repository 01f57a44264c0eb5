"""An ASGI application under uvicorn, served in the running event loop until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from noetl.app.end_signals import list_end_signals
from noetl.errors import NoetlError, UsageError

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from noetl.app.http_protocol import ConnectionLimits
    from noetl.config import Settings

_MISSING = "the server is not installed; it comes with: pip install 'noetl[server]'"
#: seconds that connections are given to end by themselves
_CLOSING_S = 3
#: seconds that a connection is kept for its next request: longer than clients keep theirs, who else find it closed as they use it
_KEPT_S = 75
#: what waits to be accepted when many come at once
_BACKLOG = 2048


def require_server_extra() -> None:
    """Refuse to go on where the packages of the extra `server` are missing."""
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise UsageError(_MISSING) from None
    del starlette, uvicorn


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free. UsageError: it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio does not know that answers are to go out at once, and each waits 40 ms for an acknowledgement.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        taken = error.errno == errno.EADDRINUSE
        way_out = "another program listens there; --port names another one" if taken else error.strerror
        raise UsageError(f"cannot listen on {host}:{port}: {way_out}") from None
    found.settimeout(0)
    return found


def describe_store(found: Settings) -> str:
    """Where executions are recorded, in words."""
    return "PostgreSQL" if found.store is not None else str(found.store_file or found.home)


def describe_bus(found: Settings) -> str:
    """How workers hear of work, if not by asking servers; to be said behind something else."""
    return "; workers are woken by NATS" if found.bus is not None else ""


def address_of(listening: socket.socket) -> str:
    """What clients call it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Starlette,
    listening: socket.socket,
    *,
    ready: Callable[[], None],
    drain: Callable[[], Awaitable[None]],
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve until a signal to end or SIGINT comes: then take nothing new, `drain`, and let connections end. A second signal ends it at once."""
    server = _server(app, limits)
    wanted, loop = asyncio.Event(), asyncio.get_running_loop()

    def ask() -> None:
        if wanted.is_set():
            server.force_exit = True
        wanted.set()

    signals = [*list_end_signals(), signal.SIGINT]
    for name in signals:
        loop.add_signal_handler(name, ask)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await _wait_until_started(server, serving)
        ready()
        await asyncio.wait([serving, asyncio.ensure_future(wanted.wait())], return_when=asyncio.FIRST_COMPLETED)
        app.state.context.drain()
        await drain()
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        await app.state.context.close()
        for name in signals:
            loop.remove_signal_handler(name)


def _server(app: Starlette, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    import uvicorn

    from noetl.app.http_protocol import make_protocol, read_limits

    class Server(uvicorn.Server):
        """One that leaves signals to us: what runs is to end before its connections do."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        http=make_protocol(limits or read_limits()),
        loop="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_CLOSING_S,
        timeout_keep_alive=_KEPT_S,
    )
    return Server(config)


async def _wait_until_started(server: uvicorn.Server, serving: asyncio.Future[None]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise NoetlError("the server did not start")
        await asyncio.sleep(0.01)
