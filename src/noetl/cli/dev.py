"""noetl dev: server and workers in one process, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from noetl.cli.printing import note, stamped

if TYPE_CHECKING:
    from noetl.config import Settings
    from noetl.wiring import House


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
    from noetl.cli.serving import installed
    from noetl.config import settings

    installed()
    with _store(settings(), postgres=postgres) as kept, _bus(kept, nats=nats) as found:
        asyncio.run(_dev_apart(found, host, port, grace) if nats else _dev(found, host, port, grace))


@contextlib.contextmanager
def _store(found: Settings, *, postgres: bool) -> Iterator[Settings]:
    """The settings, with a database of their own if that is wanted."""
    if not postgres:
        yield found
        return
    from msgspec.structs import replace

    from noetl.config import Secret
    from noetl.services.postgres import Postgres

    with Postgres(found.home / "postgres") as server:
        yield replace(found, store=Secret(server.url()))


@contextlib.contextmanager
def _bus(found: Settings, *, nats: bool) -> Iterator[Settings]:
    """The settings, with a bus of their own if that is wanted."""
    if not nats:
        yield found
        return
    from msgspec.structs import replace

    from noetl.config import Secret
    from noetl.services.nats import Nats

    with Nats(found.home / "nats") as server:
        yield replace(found, bus=Secret(server.url()))


async def _dev_apart(found: Settings, host: str, port: int, grace: float) -> None:
    """A server and a worker as they are in a cluster, in one process: other workers may join them."""
    from noetl.bus.opening import open_bus
    from noetl.cli.server import standing
    from noetl.cli.serving import serve
    from noetl.outpost import Outpost

    token = found.token.reveal() if found.token is not None else None
    async with standing(found, host, port) as made:
        bus = open_bus(found)
        async with Outpost(found, [made.address], token=token, bus=bus, polls=False) as outpost:

            async def drain() -> None:
                await outpost.drain(grace)
                await made.station.drain()

            said = f"{made.told}\nanother worker: NOETL_SERVER={made.address} noetl worker"
            await serve(made.api, made.listening, ready=lambda: note(said), drain=drain)
    note("ended")


async def _dev(found: Settings, host: str, port: int, grace: float) -> None:
    from noetl.cli.serving import address_of, bound, kept_in, serve, tokens_of
    from noetl.results.sending import Sender
    from noetl.server.http.app import app
    from noetl.wiring import House, open_log

    tokens, listening = tokens_of(found), bound(host, port)
    with contextlib.closing(listening):
        async with House(found, open_log(found)) as house:
            api = app(house, tokens=tokens, host=host, hosts=found.hosts, results=Sender(house.results))
            house.say = stamped
            await _go_on(house)
            await serve(
                api,
                listening,
                ready=lambda: note(f"listening on {address_of(listening)}; executions are kept in {kept_in(found)}"),
                drain=lambda: house.drain(grace),
            )
            left = len(house.service.hot)
            note(f"ended; {left} unfinished, which go on at the next start" if left else "ended")


async def _go_on(house: House) -> None:
    """Resume what nobody runs."""
    from noetl.server.office import resume_left

    for execution_id, error in await resume_left(house):
        house.say(f"{execution_id} is left as it is: {error}")
