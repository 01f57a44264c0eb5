"""noetl server: the control plane of a cluster, or one of its servers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from noetl import collector
from noetl.cli.daemons import Daemons, verbs
from noetl.cli.printing import note, stamped
from noetl.ports import Unreachable

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette

    from noetl.config import Settings
    from noetl.server.station import Station

T = TypeVar("T")

_PORT = 8090
_PATIENCE_S, _PAUSE_S = 60.0, 0.3


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 is any that is free.")
@click.option("--url", metavar="URL", help="What workers call it, if not HOST and PORT.")
@click.pass_context
def command(context: click.Context, *, host: str, port: int, url: str | None) -> None:
    """Admit executions, decide what follows, and hand pipelines to workers.

    Executions are recorded where NOETL_STORE says: any number of servers may share a PostgreSQL database, and each takes over
    what another one leaves. Without a verb it stays in the foreground; Ctrl-C or SIGTERM ends it, and nothing is lost.
    """
    if context.invoked_subcommand is not None:
        context.obj = ["--host", host, "--port", str(port), *(["--url", url] if url else [])]
        return
    from noetl.cli.serving import installed
    from noetl.config import settings

    installed()
    asyncio.run(_serve(settings(), host, port, url))


verbs(command, Daemons("server"))


class Standing(NamedTuple):
    """A server that is about to listen."""

    station: Station
    api: Starlette
    listening: socket.socket
    address: str
    #: what is said when it listens
    told: str


@contextlib.asynccontextmanager
async def standing(found: Settings, host: str, port: int, url: str | None = None) -> AsyncIterator[Standing]:
    """All of a server but that it listens."""
    from noetl.bus.opening import open_bus
    from noetl.cli.serving import address_of, bound, kept_in, tokens_of, woken_by
    from noetl.results.sending import Sender
    from noetl.server.http.app import app
    from noetl.server.http.work import routes
    from noetl.server.station import Station
    from noetl.wiring import catalog, open_log, open_registry, open_results

    collector.calm()
    tokens, listening = tokens_of(found), bound(host, port)
    address = (url or address_of(listening)).rstrip("/")
    bus = open_bus(found) if found.bus is not None else None
    with contextlib.closing(listening):
        log, results = await _patiently(open_log, found), open_results(found)
        beds: Any = log if found.store is not None else None
        registry = await _patiently(open_registry, found)
        async with Station(log, catalog(), registry, lease_s=found.lease_s, bus=bus, url=address, beds=beds) as station:
            station.say = station.counter.roll.say = stamped
            if bus is not None:
                await bus.open()
            more = routes(station.counter)
            api = app(station, tokens=tokens, host=host, hosts=found.hosts, results=Sender(results), more=more)
            told = f"listening on {address}; executions are kept in {kept_in(found)}{woken_by(found)}"
            yield Standing(station, api, listening, address, told)
        results.close()
        if bus is not None:
            await bus.close()


async def _patiently(opening: Callable[[Settings], T], found: Settings) -> T:
    """Open what is in the database, which may be starting as well, or again."""
    until, told = time.monotonic() + _PATIENCE_S, False
    while True:
        try:
            return opening(found)
        except Unreachable as error:
            if time.monotonic() > until:
                raise
            if not told:
                stamped(f"{error}; it is asked again for {_PATIENCE_S:g} s")
                told = True
        await asyncio.sleep(_PAUSE_S)


async def _serve(found: Settings, host: str, port: int, url: str | None) -> None:
    from noetl.cli.serving import serve

    async with standing(found, host, port, url) as made:
        await serve(made.api, made.listening, ready=lambda: note(made.told), drain=made.station.drain)
    stamped("ended; what is unfinished goes on at another server, or at the next start")
