"""noetl server: the control plane of a cluster, or one of its servers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from noetl.app import gc_tuning
from noetl.cli.commands.serve.daemons import Daemons, add_verbs
from noetl.cli.output.printing import note, note_with_time
from noetl.ports import StoreUnreachable

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette

    from noetl.config import Settings
    from noetl.server.cluster import ServerNode

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
    from noetl.cli.commands.serve.http_server import require_server_extra
    from noetl.config import settings

    require_server_extra()
    asyncio.run(_serve(settings(), host, port, url))


add_verbs(command, Daemons("server"))


class PreparedServer(NamedTuple):
    """A server that is about to listen."""

    station: ServerNode
    api: Starlette
    listening: socket.socket
    address: str
    #: what is said when it listens
    told: str


@contextlib.asynccontextmanager
async def prepare_server(
    found: Settings, host: str, port: int, url: str | None = None
) -> AsyncIterator[PreparedServer]:
    """All of a server but that it listens."""
    from noetl.app import open_catalog, open_log, open_registry, open_results
    from noetl.bus import open_bus
    from noetl.cli.commands.serve.http_server import address_of, bind_socket, describe_bus, describe_store, tokens_of
    from noetl.results import PayloadSender
    from noetl.server.cluster import ServerNode
    from noetl.server.http import build_app, build_worker_routes

    gc_tuning.tune_gc()
    tokens, listening = tokens_of(found), bind_socket(host, port)
    address = (url or address_of(listening)).rstrip("/")
    bus = open_bus(found) if found.bus is not None else None
    with contextlib.closing(listening):
        log, results = await _open_with_retries(open_log, found), open_results(found)
        beds: Any = log if found.store is not None else None
        registry = await _open_with_retries(open_registry, found)
        async with ServerNode(
            log, open_catalog(), registry, lease_s=found.lease_s, bus=bus, url=address, beds=beds
        ) as station:
            station.print_line = station.counter.roll.print_line = note_with_time
            if bus is not None:
                await bus.open()
            more = build_worker_routes(station.counter)
            api = build_app(
                station, tokens=tokens, host=host, hosts=found.hosts, results=PayloadSender(results), more=more
            )
            told = f"listening on {address}; executions are kept in {describe_store(found)}{describe_bus(found)}"
            yield PreparedServer(station, api, listening, address, told)
        results.close()
        if bus is not None:
            await bus.close()


async def _open_with_retries(opening: Callable[[Settings], T], found: Settings) -> T:
    """Open what is in the database, which may be starting as well, or again."""
    until, told = time.monotonic() + _PATIENCE_S, False
    while True:
        try:
            return opening(found)
        except StoreUnreachable as error:
            if time.monotonic() > until:
                raise
            if not told:
                note_with_time(f"{error}; it is asked again for {_PATIENCE_S:g} s")
                told = True
        await asyncio.sleep(_PAUSE_S)


async def _serve(found: Settings, host: str, port: int, url: str | None) -> None:
    from noetl.cli.commands.serve.http_server import serve

    async with prepare_server(found, host, port, url) as made:
        await serve(made.api, made.listening, ready=lambda: note(made.told), drain=made.station.drain)
    note_with_time("ended; what is unfinished goes on at another server, or at the next start")
