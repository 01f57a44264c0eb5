"""Staying with executions to their end: what is wrong with them before, what happens, how they ended, the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noetl.cli.output.printing import colorize, duration, in_colour, note, out
from noetl.cli.output.state_lines import error_words, output_line, place_line, trace_lines
from noetl.cli.playbook_files import pause_gc, refuse, rename_source
from noetl.errors import NoetlError

if TYPE_CHECKING:
    from noetl.cli.output.progress import QuietScreen, Screen
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog, PlaybookSource
    from noetl.server.core import Catalog, LiveExecution


# How a run ended, in a few lines.


_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "■"}


def print_ending(state: Execution, net: Net, log: EventLog) -> None:
    """Tell how an execution ended, and what to do next."""
    colour = in_colour(sys.stderr)
    took = duration(state.duration) if state.started else "no time"
    odd = bool(state.stalled) and state.status == "completed"
    head = f"{'⚠' if odd else _SIGNS[state.status]} {state.path} {state.status}"
    but = f", but tokens were left at {', '.join(state.stalled)}" if odd else ""
    style = "paused" if odd else state.status
    note(f"{colorize(head, style, colour=colour)} in {took}{but}  {state.execution_id}")
    if state.error is not None:
        note(f"  {error_words(state.error)}")
        if place := place_line(state.error, log.source(state.playbook)):
            note(f"  {place}")
        for line in trace_lines(state.error):
            note(f"  {line}")
    if state.stalled:
        from noetl.cli.output.state_lines import stall_lines

        for line in stall_lines(log, state, net):
            note(f"  {line}")
    if state.output is not None:
        note(f"  output: {output_line(state)}")
    if state.status == "failed":
        name = state.execution_id
        note(f"  look closer: noetl why {name} · noetl show {name} · noetl logs {name}")


#: what a shell reports of a program that was ended by SIGINT, and by SIGTERM
INTERRUPTED = 130
TERMINATED = 143


def load_runnable(
    catalog: Catalog, file: Path, data: bytes, name: str, payload: dict[str, Any], *, legacy: bool, as_document: bool
) -> tuple[PlaybookSource, Net]:
    """A playbook that can be run with its payload; what is wrong with either is told, and the command ends."""
    from noetl.cli.commands.runs.payload import check_payload, find_unknown_keys
    from noetl.cli.playbook_files import print_warnings

    with pause_gc():
        source, loaded = catalog.read(file, data, legacy=legacy)
    loaded = rename_source(loaded, name)
    if loaded.net is None:
        refuse(loaded, json=as_document)
    refused = check_payload(loaded, payload)
    if refused is not None:
        refuse(refused, json=as_document)
    if not as_document:
        print_warnings(loaded, file)
    for stranger in find_unknown_keys(loaded.net.playbook.workload, payload):
        note(stranger)
    return source, loaded.net


class ExecutionHost(Protocol):
    """Who runs executions that are followed: this process, or a server."""

    @property
    def log(self) -> EventLog:
        """Where they are recorded."""

    @property
    def is_remote(self) -> bool:
        """Whether they go on when this process ends."""

    def cancel(self, execution_id: str, why: str) -> None:
        """End one for good."""

    async def settle(self) -> None:
        """Wait until the tools of those that were ended have ended."""

    def kill(self) -> None:
        """End the processes that tools started, at once, as far as they are here."""

    async def output(self, hot: LiveExecution) -> Any:
        """What one yielded, in full as far as its playbook wants that."""


async def follow(house: ExecutionHost, shown: Screen | QuietScreen) -> bool:
    """Stay with executions until they are over; whether that was at the wish of somebody who pressed Ctrl-C."""
    interrupted = False
    hots: list[LiveExecution] = shown.roots

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


def _kill(house: ExecutionHost, shown: Screen | QuietScreen, code: int) -> None:
    """End this process at once, and what it started; the log stays as it is."""
    shown.stop()
    house.kill()
    for hot in shown.roots:
        # The state in memory may be ahead of the log; what is over there is over.
        if hot.finished.done():
            note(f"ended at once; {hot.id} is {hot.state.status} already")
        elif house.is_remote:
            note(f"left; {hot.id} goes on at the server, `noetl events {hot.id} --follow` follows it")
        else:
            note(f"killed; `noetl resume {hot.id}` goes on where it was")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def report_end(house: ExecutionHost, hots: list[LiveExecution], *, interrupted: bool, as_document: bool) -> int:
    """Tell how executions ended; the exit code."""
    if as_document:
        import msgspec

        from noetl.cli.output.state_lines import locate_error
        from noetl.history import run_document

        for hot in hots:
            error = locate_error(hot.state.error, house.log.source(hot.state.playbook))
            told = run_document(hot.state) | {"output": await house.output(hot), "error": error}
            out(f"{msgspec.json.encode(told).decode()}\n")
    else:
        for hot in hots:
            print_ending(hot.state, hot.net, house.log)
    return max((exit_code(hot.state, interrupted=interrupted) for hot in hots), default=0)


def exit_code(state: Execution, *, interrupted: bool) -> int:
    """0 completed, 1 failed or cancelled, 130 interrupted."""
    if state.status == "completed":
        return 0
    return INTERRUPTED if interrupted and state.status == "cancelled" else 1
