"""noetl server: the control plane of a cluster, or one of its servers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.daemons import Daemons, verbs
from noetl.cli.printing import note

if TYPE_CHECKING:
    from noetl.config import Settings

_PORT = 8090


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


async def _serve(found: Settings, host: str, port: int, url: str | None) -> None:
    from noetl.bus.opening import open_bus
    from noetl.cli.serving import address_of, bound, serve, tokens_of
    from noetl.results.sending import Sender
    from noetl.server.http.app import app
    from noetl.server.http.work import routes
    from noetl.server.station import Station
    from noetl.wiring import catalog, open_log, open_registry, open_results

    tokens, listening = tokens_of(found), bound(host, port)
    address = (url or address_of(listening)).rstrip("/")
    bus = open_bus(found) if found.bus is not None else None
    with contextlib.closing(listening):
        log = open_log(found)
        beds: Any = log if found.store is not None else None
        async with Station(
            log, catalog(), open_registry(found), lease_s=found.lease_s, bus=bus, url=address, beds=beds
        ) as station:
            if bus is not None:
                await bus.open()
            results = open_results(found)
            api = app(
                station,
                tokens=tokens,
                host=host,
                hosts=found.hosts,
                results=Sender(results),
                more=routes(station.counter),
            )
            where = "PostgreSQL" if found.store is not None else str(found.home)
            await serve(
                api,
                listening,
                ready=lambda: note(f"listening on {address}; executions are kept in {where}"),
                drain=station.drain,
            )
            results.close()
        if bus is not None:
            await bus.close()
        note("ended; what is unfinished goes on at another server, or at the next start")
