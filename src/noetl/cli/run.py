"""noetl run: a playbook from its file to its end, with progress for people and one document for programs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.files import STDIN, is_unicode, near, one_file, read
from noetl.cli.loading import FILE, as_given, collector_off, refuse
from noetl.cli.printing import note, out
from noetl.errors import NoetlError, UsageError

if TYPE_CHECKING:
    from noetl.cli.progress import Quiet, Screen
    from noetl.model.state import Execution
    from noetl.ports import Source
    from noetl.server.service import Hot
    from noetl.wiring import House

#: what a shell reports of a program that was ended by SIGINT, and by SIGTERM
INTERRUPTED = 130
TERMINATED = 143


@click.command()
@click.argument("file", metavar="FILE|PATH", type=FILE)
@click.option("--payload", metavar="JSON|@FILE", help="What the run is given: laid over the playbook's workload.")
@click.option("--set", "settings", metavar="a.b=1", multiple=True, help="One value of the payload; may be repeated.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document at the end and nothing else.")
def command(
    *, file: str, payload: str | None, settings: tuple[str, ...], legacy: bool, only_plan: bool, as_document: bool
) -> int:
    """Run a playbook to its end, with progress on stderr.

    FILE is a playbook's file; PATH is that of a playbook that was run before, which is run as it was then.

    Every step is recorded as it happens: a run that is killed goes on with `noetl resume`. Ctrl-C cancels it for good, a
    second one ends everything at once. The exit code is 0 when the run completed, 1 when it failed, 2 when the playbook is
    invalid, 130 when it was interrupted.
    """
    from noetl.cli.payload import payload_of

    given = payload_of(payload, settings)
    known = _recorded(file)
    if known is None:
        data, path, name = _read(file), Path(file).absolute(), file
    else:
        data, path, name, legacy = known.text.encode(), Path(known.file), near(known.file), known.legacy
        if not as_document:
            _tell(known, name)
    if only_plan:
        from noetl.cli.plan import plan

        return plan(data, name, given, legacy=legacy, as_data=as_document)
    return asyncio.run(_run(name, path, data, given, legacy=legacy, as_document=as_document))


def _recorded(path: str) -> Source | None:
    """The playbook that was last run under a path; None: a file is meant."""
    from noetl.cli.executions import opened_log
    from noetl.config import settings

    if path == STDIN or os.path.lexists(path):
        if not is_unicode(path):
            raise UsageError(f"{path!a}: the name of this file is not UTF-8, so it cannot be recorded; rename it")
        return None
    if not settings().home.is_dir() or not is_unicode(path):
        return None
    with opened_log() as log:
        return log.latest(path)


def _read(file: str) -> bytes:
    try:
        return read(one_file(file))
    except UsageError as error:
        if file == STDIN or Path(file).suffix or os.path.lexists(file):
            raise
        raise UsageError(f"{error}, nor was a playbook run under that path") from None


def _tell(known: Source, name: str) -> None:
    from noetl.cli.executions import was_edited

    edited = f"; it was edited since, `noetl run {name}` runs it as it is now" if was_edited(known) else ""
    note(f"runs what was recorded of {name}{edited}")


async def _run(name: str, file: Path, data: bytes, payload: dict[str, Any], *, legacy: bool, as_document: bool) -> int:
    from noetl.cli.calls import warn
    from noetl.cli.payload import check_payload, strangers
    from noetl.cli.progress import progress
    from noetl.wiring import open_house

    async with open_house() as house:
        with collector_off():
            source, loaded = house.catalog.read(file, data, legacy=legacy)
        loaded = as_given(loaded, name)
        if loaded.net is None:
            refuse(loaded, json=as_document)
        refused = check_payload(loaded, payload)
        if refused is not None:
            refuse(refused, json=as_document)
        if not as_document:
            warn(loaded, file)
        for stranger in strangers(loaded.net.playbook.workload, payload):
            note(stranger)
        with progress(house, quiet=as_document) as shown:
            shown.roots.append(await house.start(source, loaded.net, payload))
            interrupted = await follow(house, shown)
        return await ended(house, shown.roots, interrupted=interrupted, as_document=as_document)


async def follow(house: House, shown: Screen | Quiet) -> bool:
    """Stay with executions until they are over; whether that was at the wish of somebody who pressed Ctrl-C."""
    from noetl.model.requests import Cancel

    interrupted = False
    hots: list[Hot] = shown.roots

    def on_interrupt() -> None:
        nonlocal interrupted
        if interrupted or all(hot.finished.done() for hot in hots):
            _kill(house, shown, INTERRUPTED)
        interrupted = True
        note("cancelling; Ctrl-C again ends everything at once")
        for hot in hots:
            house.service.post(hot.id, [Cancel("it was interrupted")])

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    # Who stops a machine or a container wants an end now, not a decision about the run.
    loop.add_signal_handler(signal.SIGTERM, _kill, house, shown, TERMINATED)
    ends = await asyncio.gather(*(asyncio.shield(hot.finished) for hot in hots), return_exceptions=True)
    for hot, error in zip(hots, ends, strict=True):
        if isinstance(error, NoetlError):
            raise NoetlError(f"{error}; `noetl resume {hot.id}` goes on when that is mended") from None
        if isinstance(error, BaseException):
            raise error
    if interrupted:
        # Not over before their tools are: until then a second Ctrl-C has something to end.
        await house.shop.settle()
    return interrupted


def _kill(house: House, shown: Screen | Quiet, code: int) -> None:
    """End this process at once, and what it started; the log stays as it is."""
    shown.stop()
    house.kill()
    for hot in shown.roots:
        # The state in memory may be ahead of the log; what is over there is over.
        if hot.finished.done():
            note(f"ended at once; {hot.id} is {hot.state.status} already")
        else:
            note(f"killed; `noetl resume {hot.id}` goes on where it was")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def ended(house: House, hots: list[Hot], *, interrupted: bool, as_document: bool) -> int:
    """Tell how executions ended; the exit code."""
    if as_document:
        import msgspec

        from noetl.cli.placing import placed

        for hot in hots:
            error = placed(hot.state.error, house.log.source(hot.state.playbook))
            told = document(hot.state) | {"output": await house.output(hot), "error": error}
            out(f"{msgspec.json.encode(told).decode()}\n")
    else:
        from noetl.cli.closing import closing

        for hot in hots:
            closing(hot.state, hot.net, house.log)
    return max((exit_code(hot.state, interrupted=interrupted) for hot in hots), default=0)


def exit_code(state: Execution, *, interrupted: bool) -> int:
    """0 completed, 1 failed or cancelled, 130 interrupted."""
    if state.status == "completed":
        return 0
    return INTERRUPTED if interrupted and state.status == "cancelled" else 1


def document(state: Execution) -> dict[str, Any]:
    """The one document of a run."""
    steps = {
        name: {"status": info.status, "runs": info.runs} for name, info in state.steps.items() if info.status != ""
    }
    return {
        "execution_id": state.execution_id,
        "status": state.status,
        "output": state.output,
        "ctx": state.ctx,
        "error": state.error,
        "steps": steps,
        "stalled": state.stalled,
        "duration_ms": int(state.took * 1000),
    }
