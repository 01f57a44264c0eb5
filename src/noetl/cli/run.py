"""noetl run: a playbook from its file to its end, with progress for people and one document for programs."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.files import one_file, read
from noetl.cli.loading import FILE, collector_off, refuse
from noetl.cli.printing import note, out
from noetl.errors import NoetlError, UsageError

if TYPE_CHECKING:
    from noetl.model.state import Execution
    from noetl.server.service import Hot
    from noetl.wiring import House


@click.command()
@click.argument("file", type=FILE)
@click.option("--payload", metavar="JSON|@FILE", help="What the run is given: laid over the playbook's workload.")
@click.option("--set", "settings", metavar="a.b=1", multiple=True, help="One value of the payload; may be repeated.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document at the end and nothing else.")
def command(*, file: str, payload: str | None, settings: tuple[str, ...], legacy: bool, as_document: bool) -> int:
    """Run a playbook to its end.

    Every step is recorded as it happens: a run that is killed goes on with `noetl resume`. Ctrl-C cancels it cleanly, a
    second one ends it at once. The exit code is 0 when the run completed, 1 when it failed, 2 when the playbook is
    invalid, 130 when it was interrupted.
    """
    from noetl.cli.payload import payload_of

    given = payload_of(payload, settings)
    data = read(one_file(file))
    return asyncio.run(_run(Path(file), data, given, legacy=legacy, as_document=as_document))


async def _run(file: Path, data: bytes, payload: dict[str, Any], *, legacy: bool, as_document: bool) -> int:
    from noetl.cli.payload import check_payload
    from noetl.wiring import open_house

    async with open_house() as house:
        with collector_off():
            source, loaded = house.catalog.read(file.absolute(), data, legacy=legacy)
        if loaded.net is None:
            refuse(loaded, json=as_document)
        refused = check_payload(loaded.net, loaded.source, payload)
        if refused is not None:
            refuse(refused, json=as_document)
        hot = await house.start(source, loaded.net, payload)
        return await follow(house, hot, as_document=as_document)


async def follow(house: House, hot: Hot, *, as_document: bool) -> int:
    """Stay with a run until it is over; tell how it ended."""
    from noetl.cli.progress import progress
    from noetl.model.requests import Cancel

    interrupted = 0

    def on_interrupt() -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted > 1:
            house.kill()
            note(f"killed; `noetl resume {hot.id}` goes on where it was")
            sys.stdout.flush()
            sys.stderr.flush()
            import os

            os._exit(130)
        note("cancelling; press Ctrl-C again to kill it (it can be resumed then)")
        house.service.post(hot.id, [Cancel("it was interrupted")])

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, on_interrupt)
    with progress(house, hot, quiet=as_document):
        try:
            await asyncio.shield(hot.finished)
        except NoetlError as error:
            raise UsageError(f"{error}; `noetl resume {hot.id}` goes on when that is mended") from None
    if as_document:
        out(document(hot.state))
    return exit_code(hot.state, interrupted=bool(interrupted))


def exit_code(state: Execution, *, interrupted: bool) -> int:
    """0 completed, 1 failed or cancelled, 130 interrupted."""
    if state.status == "completed":
        return 0
    return 130 if interrupted and state.status == "cancelled" else 1


def document(state: Execution) -> str:
    """The one JSON document of a run."""
    import msgspec

    from noetl.engine.fold import seconds

    steps = {
        name: {"status": info.status, "runs": info.runs} for name, info in state.steps.items() if info.status != ""
    }
    took = seconds(state.timestamp) - state.started if state.started else 0.0
    return (
        msgspec.json.encode(
            {
                "execution_id": state.execution_id,
                "status": state.status,
                "output": state.output,
                "ctx": state.ctx,
                "error": state.error,
                "steps": steps,
                "stalled": state.stalled,
                "duration_ms": int(took * 1000),
            }
        ).decode()
        + "\n"
    )
