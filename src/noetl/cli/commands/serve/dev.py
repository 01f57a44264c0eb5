"""noetl dev: server and workers in one process, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from noetl.cli.output.printing import note, note_with_time

if TYPE_CHECKING:
    from noetl.config import Settings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="0 is any that is free.")
@click.option("--postgres", is_flag=True, help="Record executions in a PostgreSQL that is started for it.")
@click.option("--nats", is_flag=True, help="Wake workers through a NATS that is started for it; others may join.")
@click.option(
    "--grace", default=10.0, show_default=True, metavar="SECONDS", help="What tasks are given to end when it is to end."
)
def command(*, host: str, port: int, postgres: bool, nats: bool, grace: float) -> None:
    """Serve the API and run what is started through it, in one process.

    Executions are recorded where `noetl run` records them, so both see the same. What was interrupted is gone on with. Ctrl-C
    or SIGTERM: tasks that run are given time to end, then it ends; everything else goes on at the next start.
    """
    from noetl.app import require_server_extra
    from noetl.config import settings

    require_server_extra()
    with _store(settings(), postgres=postgres) as kept, _bus(kept, nats=nats) as found:
        asyncio.run(_dev_cluster(found, host, port, grace) if nats else _dev(found, host, port, grace))


@contextlib.contextmanager
def _store(found: Settings, *, postgres: bool) -> Iterator[Settings]:
    """The settings, with a database of their own if that is wanted."""
    if not postgres:
        yield found
        return
    from msgspec.structs import replace

    from noetl.config import Secret
    from noetl.services import PostgresServer

    with PostgresServer(found.home / "postgres") as server:
        yield replace(found, store=Secret(server.url()))


@contextlib.contextmanager
def _bus(found: Settings, *, nats: bool) -> Iterator[Settings]:
    """The settings, with a bus of their own if that is wanted."""
    if not nats:
        yield found
        return
    from msgspec.structs import replace

    from noetl.config import Secret
    from noetl.services import NatsServer

    with NatsServer(found.home / "nats") as server:
        yield replace(found, bus=Secret(server.url()))


async def _dev_cluster(found: Settings, host: str, port: int, grace: float) -> None:
    """A server and a worker as they are in a cluster, in one process: other workers may join them."""
    from noetl.app import EndDeadline, WorkerNode, prepare_server, serve
    from noetl.bus import open_bus

    async with (
        prepare_server(found, host, port, print_line=note_with_time) as made,
        WorkerNode(found, [made.address], bus=open_bus(found), polls=False) as worker,
    ):

        async def drain() -> None:
            await worker.drain(grace)
            await made.node.drain(grace)

        lines = f"{made.ready_line}\nanother worker: NOETL_SERVER={made.address} noetl worker"
        on_signal = EndDeadline(2 * grace).on_signal
        await serve(made.api, made.listening, ready=lambda: note(lines), drain=drain, on_signal=on_signal)
    note("ended")


async def _dev(found: Settings, host: str, port: int, grace: float) -> None:
    from noetl.app import EndDeadline, prepare_local_server, serve

    async with prepare_local_server(found, host, port, print_line=note_with_time) as made:
        await serve(
            made.api,
            made.listening,
            ready=lambda: note(made.ready_line),
            drain=lambda: made.node.drain(grace),
            on_signal=EndDeadline(grace).on_signal,
        )
        left = len(made.node.service.live)
        note(f"ended; {left} unfinished, which go on at the next start" if left else "ended")
