"""noetl server: the control plane of a cluster, or one of its servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from noetl.cli.commands.serve.daemons import Daemons, add_verbs
from noetl.cli.output.printing import note, note_with_time

if TYPE_CHECKING:
    from noetl.config import Settings

_PORT = 8090


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 is any that is free.")
@click.option("--url", metavar="URL", help="What workers call it, if not HOST and PORT.")
@click.option(
    "--grace",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="What decisions under way get to be recorded at SIGTERM or SIGHUP.",
)
@click.pass_context
def command(context: click.Context, *, host: str, port: int, url: str | None, grace: float) -> None:
    """Admit executions, decide what follows, and hand pipelines to workers.

    Executions are recorded where NOETL_STORE says: any number of servers may share a PostgreSQL database, and each takes over
    what another one leaves. Without a verb it stays in the foreground; Ctrl-C or SIGTERM ends it, and nothing is lost.
    """
    if context.invoked_subcommand is not None:
        words = ["--host", host, "--port", str(port), "--grace", str(grace)]
        context.obj = [*words, *(["--url", url] if url else [])]
        return
    from noetl.app import require_server_extra
    from noetl.config import settings

    require_server_extra()
    asyncio.run(_serve(settings(), host, port, url, grace))


add_verbs(command, Daemons("server"))


async def _serve(found: Settings, host: str, port: int, url: str | None, grace: float) -> None:
    from noetl.app import EndDeadline, prepare_server, serve, warn_root

    async with prepare_server(found, host, port, url, print_line=note_with_time) as made:

        def ready() -> None:
            note(made.ready_line)
            warn_root("server", note)

        await serve(
            made.api,
            made.listening,
            ready=ready,
            drain=lambda: made.node.drain(grace),
            on_signal=EndDeadline(grace).on_signal,
        )
    note_with_time("ended; what is unfinished goes on at another server, or at the next start")
