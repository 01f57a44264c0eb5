"""Staying with executions to their end: what is wrong with them before, what happens, how they ended, the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noetl.cli.loading import as_given, collector_off, refuse
from noetl.cli.printing import note, out
from noetl.errors import NoetlError

if TYPE_CHECKING:
    from noetl.cli.progress import Quiet, Screen
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog, Source
    from noetl.server.catalog import Catalog
    from noetl.server.service import Hot

#: what a shell reports of a program that was ended by SIGINT, and by SIGTERM
INTERRUPTED = 130
TERMINATED = 143


def checked(
    catalog: Catalog, file: Path, data: bytes, name: str, payload: dict[str, Any], *, legacy: bool, as_document: bool
) -> tuple[Source, Net]:
    """A playbook that can be run with its payload; what is wrong with either is told, and the command ends."""
    from noetl.cli.calls import warn
    from noetl.cli.payload import check_payload, strangers

    with collector_off():
        source, loaded = catalog.read(file, data, legacy=legacy)
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
    return source, loaded.net


class Runs(Protocol):
    """Who runs executions that are followed: this process, or a server."""

    @property
    def log(self) -> EventLog:
        """Where they are recorded."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether they go on when this process ends."""

    def cancel(self, execution_id: str, why: str) -> None:
        """End one for good."""

    async def settle(self) -> None:
        """Wait until the tools of those that were ended have ended."""

    def kill(self) -> None:
        """End the processes that tools started, at once, as far as they are here."""

    async def output(self, hot: Hot) -> Any:
        """What one yielded, in full as far as its playbook wants that."""


async def follow(house: Runs, shown: Screen | Quiet) -> bool:
    """Stay with executions until they are over; whether that was at the wish of somebody who pressed Ctrl-C."""
    interrupted = False
    hots: list[Hot] = shown.roots

    def on_interrupt() -> None:
        nonlocal interrupted
        if interrupted or all(hot.finished.done() for hot in hots):
            _kill(house, shown, INTERRUPTED)
        interrupted = True
        note("cancelling; Ctrl-C again ends everything at once")
        for hot in hots:
            house.cancel(hot.id, "it was interrupted")

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
        await house.settle()
    return interrupted


def _kill(house: Runs, shown: Screen | Quiet, code: int) -> None:
    """End this process at once, and what it started; the log stays as it is."""
    shown.stop()
    house.kill()
    for hot in shown.roots:
        # The state in memory may be ahead of the log; what is over there is over.
        if hot.finished.done():
            note(f"ended at once; {hot.id} is {hot.state.status} already")
        elif house.is_elsewhere:
            note(f"left; {hot.id} goes on at the server, `noetl events {hot.id} --follow` follows it")
        else:
            note(f"killed; `noetl resume {hot.id}` goes on where it was")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def ended(house: Runs, hots: list[Hot], *, interrupted: bool, as_document: bool) -> int:
    """Tell how executions ended; the exit code."""
    if as_document:
        import msgspec

        from noetl.cli.placing import placed
        from noetl.server.document import document

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
