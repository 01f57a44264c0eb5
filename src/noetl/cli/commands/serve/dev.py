"""noetl dev: server and workers in one process, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from noetl.cli.output.printing import note, note_with_time

if TYPE_CHECKING:
    from noetl.app import LocalNode
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
    from noetl.cli.commands.serve.http_server import require_server_extra
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
    from noetl.app import WorkerNode
    from noetl.bus import open_bus
    from noetl.cli.commands.serve.http_server import serve
    from noetl.cli.commands.serve.server import prepare_server

    token = found.token.reveal() if found.token is not None else None
    async with prepare_server(found, host, port) as made:
        bus = open_bus(found)
        async with WorkerNode(found, [made.address], token=token, bus=bus, polls=False) as outpost:

            async def drain() -> None:
                await outpost.drain(grace)
                await made.station.drain()

            said = f"{made.told}\nanother worker: NOETL_SERVER={made.address} noetl worker"
            await serve(made.api, made.listening, ready=lambda: note(said), drain=drain)
    note("ended")


async def _dev(found: Settings, host: str, port: int, grace: float) -> None:
    from noetl.app import LocalNode, open_log
    from noetl.cli.commands.serve.http_server import address_of, bind_socket, describe_store, serve, tokens_of
    from noetl.results import PayloadSender
    from noetl.server.http import build_app

    tokens, listening = tokens_of(found), bind_socket(host, port)
    with contextlib.closing(listening):
        async with LocalNode(found, open_log(found)) as house:
            api = build_app(house, tokens=tokens, host=host, hosts=found.hosts, results=PayloadSender(house.results))
            house.print_line = note_with_time
            await _resume_all(house)
            await serve(
                api,
                listening,
                ready=lambda: note(
                    f"listening on {address_of(listening)}; executions are kept in {describe_store(found)}"
                ),
                drain=lambda: house.drain(grace),
            )
            left = len(house.service.hot)
            note(f"ended; {left} unfinished, which go on at the next start" if left else "ended")


async def _resume_all(house: LocalNode) -> None:
    """Resume what nobody runs."""
    from noetl.server.core import resume_unowned

    for execution_id, error in await resume_unowned(house):
        house.print_line(f"{execution_id} is left as it is: {error}")
