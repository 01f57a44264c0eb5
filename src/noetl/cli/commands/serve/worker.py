"""noetl worker: runs the pipelines that servers hand out."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from noetl.app import list_end_signals, tune_gc
from noetl.cli.commands.serve.daemons import Daemons, add_verbs
from noetl.cli.executions import json_option
from noetl.cli.output.printing import note, note_with_time
from noetl.errors import AccessDenied, UsageError

if TYPE_CHECKING:
    from noetl.app import WorkerNode
    from noetl.client import Client
    from noetl.config import Settings

_SERVER = "http://127.0.0.1:8090"


@click.group(invoke_without_command=True)
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="Run steps of this pool; may be repeated.")
@click.option("--slots", default=8, show_default=True, type=click.IntRange(1, 1000), help="Pipelines at once.")
@click.option("--name", metavar="NAME", help="How its name begins, if not with that of the machine.")
@click.option(
    "--grace",
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="What pipelines get to end at SIGTERM or SIGHUP.",
)
@click.pass_context
def command(context: click.Context, *, pools: tuple[str, ...], slots: int, name: str | None, grace: float) -> None:
    """Run pipelines for the servers that --server or NOETL_SERVER name (http://127.0.0.1:8090 if none is named).

    It has no port and needs no database; credentials are looked up where it runs. Ctrl-C or SIGTERM: it takes nothing more,
    finishes what it has or gives it back, and ends.
    """
    from noetl.cli.target import read_server_names, servers

    if context.invoked_subcommand is not None:
        named = ["--server", ",".join(read_server_names())] if read_server_names() else []
        chosen = [word for pool in pools for word in ("--pool", pool)]
        called = ["--name", name] if name else []
        context.obj = [*named, *chosen, *called, "--slots", str(slots), "--grace", str(grace)]
        return
    from noetl.config import settings

    asyncio.run(_work(settings(), servers() or (_SERVER,), pools or ("default",), slots, name, grace))


_daemons = Daemons("worker")
add_verbs(command, _daemons)


@command.command("drain")
def drain() -> None:
    """Let all workers that were started here finish what they have, and end."""
    _daemons.stop(wait_s=None)


@command.command("scale")
@click.argument("number", type=click.IntRange(0, 1000))
@click.pass_obj
def scale(arguments: list[str], number: int) -> None:
    """Have so many workers run in the background: more are started, or some are drained."""
    _daemons.scale(number, arguments)


@command.command("list")
@json_option
def list_workers(*, as_data: bool) -> None:
    """List the workers that the server knows, wherever they run."""
    shown = ("worker", "pools", "slots", "running", "draining", "heard_s_ago")
    _print_list(lambda client: client.workers(), shown, as_data=as_data)


@command.command("dead")
@json_option
def dead(*, as_data: bool) -> None:
    """List pipelines that no worker brought to an end: the dead letters, with the reason."""
    _print_list(
        lambda client: client.dead_letters(), ("at", "execution_id", "step_run_id", "tries", "why"), as_data=as_data
    )


def _print_list(read: Callable[[Client], list[dict[str, Any]]], shown: tuple[str, ...], *, as_data: bool) -> None:
    """A list that a server has."""
    from noetl.cli.output.printing import as_json, columns, out
    from noetl.cli.target import client

    there = client()
    if there is None:
        raise UsageError("name a server: --server http://HOST:PORT, or NOETL_SERVER")
    rows = read(there)
    if as_data:
        out(as_json(rows))
        return
    table = [[_word(row.get(name)) for name in shown] for row in rows]
    out(columns([[name.upper() for name in shown], *table]) if table else "none\n")


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


async def _work(
    found: Settings, urls: tuple[str, ...], pools: tuple[str, ...], slots: int, name: str | None, grace: float
) -> None:
    from noetl.app import WorkerNode, warn_root
    from noetl.bus import open_bus
    from noetl.config import mask_login

    tune_gc()
    bus = open_bus(found) if found.bus is not None else None
    if not found.polls and bus is None:
        raise UsageError("NOETL_POLL is off and NOETL_BUS names no NATS: this worker would never hear of any work")
    async with WorkerNode(found, urls, name=name, pools=pools, slots=slots, bus=bus, polls=found.polls) as node:
        node.print_line = note_with_time
        woken = "; woken by NATS" if bus is not None else ""
        note(
            f"worker {node.agent.name} of {', '.join(pools)}: {slots} slots, servers {', '.join(map(mask_login, urls))}{woken}"
        )
        warn_root("worker", note)
        working = asyncio.ensure_future(node.run())
        await _work_until_signal(node, working, grace)
    note("ended")


async def _work_until_signal(node: WorkerNode, working: asyncio.Future[None], grace: float) -> None:
    """Work until a signal comes, then drain; a second one ends it at once."""
    wanted, now, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def ask() -> None:
        (now if wanted.is_set() else wanted).set()

    for name in (*list_end_signals(), signal.SIGINT):
        loop.add_signal_handler(name, ask)
    waiting = asyncio.ensure_future(wanted.wait())
    ends: list[asyncio.Future[Any]] = [working, waiting]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    refused = working.done() and isinstance(working.exception(), AccessDenied)
    if working.done() and not refused:
        working.result()
    note_with_time(f"draining: finishing what is under way, for {grace:g} s at most")
    draining = asyncio.ensure_future(node.drain(grace))
    ends = [draining, asyncio.ensure_future(now.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        node.kill()
        draining.cancel()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
