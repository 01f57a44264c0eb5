"""Staying with executions to their end: what is wrong with them before, what happens, how they ended, the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Protocol

from noetl.app import list_end_signals
from noetl.cli.output.ending_lines import dead_end_lines, describe_dead_ends, never_ran_line
from noetl.cli.output.printing import colorize, duration, in_colour, note, out
from noetl.cli.output.state_lines import error_words, output_line, place_line, trace_lines, undo_lines
from noetl.cli.playbook_files import pause_gc, refuse, rename_source
from noetl.errors import ExecutionStuck, NoetlError
from noetl.history import explain_cancel_refusal, state_at

if TYPE_CHECKING:
    from noetl.cli.commands.runs.run_request import RunRequest
    from noetl.cli.output.progress import QuietScreen, Screen
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog, PlaybookSource
    from noetl.server.core import Catalog, LiveExecution


# How a run ended, in a few lines.


_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "■"}


def print_ending(state: Execution, net: Net, log: EventLog, *, is_remote: bool) -> None:
    """Tell how an execution ended, and what to do next; a server does not rerun executions."""
    colour = in_colour(sys.stderr)
    if state.stuck is not None:
        name = state.execution_id
        note(f"{colorize(f'■ {state.path} is stuck', 'stuck', colour=colour)}: {state.stuck}  {name}")
        again = f"noetl unpause {name}" if is_remote else f"noetl unpause {name} && noetl resume {name}"
        note(f"  try once more: {again} · end it: noetl cancel {name}")
        return
    took = duration(state.duration) if state.started else "no time"
    odd = describe_dead_ends(state.stalled, state.unmatched) if state.status == "completed" else ""
    head = f"{'⚠' if odd else _SIGNS[state.status]} {state.path} {state.status}"
    style = "paused" if odd else state.status
    time = f", {odd} ({took})" if odd else f" in {took}"
    note(f"{colorize(head, style, colour=colour)}{time}  {state.execution_id}")
    if state.error is not None:
        from noetl.history import source_of

        source = source_of(log, state)
        note(f"  {error_words(state.error)}")
        if place := place_line(state.error, source):
            note(f"  {place}")
        for line in trace_lines(state.error, source):
            note(f"  {line}")
    for line in (*undo_lines(state), *dead_end_lines(log, state, net), never_ran_line(state, net)):
        if line:
            note(f"  {line}")
    if state.output is not None:
        note(f"  output: {output_line(state)}")
    if state.status == "failed":
        name = state.execution_id
        note(f"  look closer: noetl why {name} · noetl show {name} · noetl logs {name}")
        if not is_remote:
            note(f"  run again: {_rerun_command(state)}")


def _rerun_command(state: Execution) -> str:
    """The command that runs a failed execution again, from the step that failed if one did."""
    from shlex import quote

    # What was undone has to run again, from the first of it on.
    undone = [name for name, info in state.steps.items() if info.undone or info.undo_failed]
    step = undone[0] if undone else (state.error or {}).get("step")
    start = f" --from {quote(step)}" if step in state.steps and state.steps[step].runs else ""
    return f"noetl rerun {state.execution_id}{start}"


#: what a shell reports of a program that was ended by SIGINT; and by any signal, its number added
INTERRUPTED = 130
_KILLED = 128


def load_runnable(catalog: Catalog, request: RunRequest, *, as_document: bool) -> tuple[PlaybookSource, Net]:
    """A playbook that can be run with its payload; what is wrong with either is told, and the command ends."""
    from noetl.cli.commands.runs.payload import check_payload, find_unknown_keys
    from noetl.cli.playbook_files import print_warnings

    with pause_gc():
        source, loaded = catalog.read(request.file, request.data, legacy=request.legacy)
    loaded = rename_source(loaded, request.name)
    if loaded.net is None:
        refuse(loaded, json=as_document)
    refused = check_payload(loaded, request.payload)
    if refused is not None:
        refuse(refused, json=as_document)
    if not as_document:
        print_warnings(loaded, request.file, request.folders, legacy=request.legacy)
    for stranger in find_unknown_keys(loaded.net.playbook.workload, request.payload):
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

    async def output(self, live: LiveExecution) -> Any:
        """What one yielded, in full as far as its playbook wants that."""


async def follow(node: ExecutionHost, shown: Screen | QuietScreen) -> bool:
    """Stay with executions until they are over; whether that was at the wish of somebody who pressed Ctrl-C."""
    interrupted = False
    executions: list[LiveExecution] = shown.roots

    def on_interrupt() -> None:
        nonlocal interrupted
        if interrupted or all(live.finished.done() for live in executions):
            _kill(node, shown, INTERRUPTED)
        interrupted = True
        going = [live for live in executions if not live.finished.done()]
        refusals = [f"{live.id}: {refusal}" for live in going if (refusal := explain_cancel_refusal(live.state))]
        for line in refusals or ["cancelling"]:
            note(f"{line}; Ctrl-C again ends everything at once")
        for live in executions:
            node.cancel(live.id, "it was interrupted")

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    # Who stops a machine or a container wants an end now, not a decision about the run.
    for name in list_end_signals():
        loop.add_signal_handler(name, _kill, node, shown, _KILLED + name)
    ends = await asyncio.gather(*(asyncio.shield(live.finished) for live in executions), return_exceptions=True)
    for live, error in zip(executions, ends, strict=True):
        if isinstance(error, NoetlError) and not isinstance(error, ExecutionStuck):
            raise NoetlError(f"{error}; `noetl resume {live.id}` goes on when that is mended") from None
        if isinstance(error, BaseException) and not isinstance(error, ExecutionStuck):
            raise error
    if interrupted:
        # Not over before their tools are: until then a second Ctrl-C has something to end.
        await node.settle()
    return interrupted


def _kill(node: ExecutionHost, shown: Screen | QuietScreen, code: int) -> None:
    """End this process at once, and what it started; the log stays as it is."""
    shown.stop()
    node.kill()
    for live in shown.roots:
        # The state in memory may be ahead of the log; what is over there is over.
        if live.finished.done():
            note(f"ended at once; {live.id} is {live.state.status} already")
        elif node.is_remote:
            note(f"left; {live.id} goes on at the server, `noetl events {live.id} --follow` follows it")
        else:
            note(f"killed; `noetl resume {live.id}` goes on where it was")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def report_end(
    node: ExecutionHost, executions: list[LiveExecution], *, interrupted: bool, as_document: bool
) -> int:
    """Tell how executions ended; the exit code."""
    states = [await asyncio.to_thread(_final_state, node.log, live) for live in executions]
    if as_document:
        import msgspec

        from noetl.cli.output.state_lines import locate_error
        from noetl.history import run_document, source_of

        for live, state in zip(executions, states, strict=True):
            error = locate_error(state.error, source_of(node.log, state))
            told = run_document(state) | {"output": await node.output(live), "error": error}
            out(f"{msgspec.json.encode(told).decode()}\n")
    else:
        for live, state in zip(executions, states, strict=True):
            print_ending(state, live.net, node.log, is_remote=node.is_remote)
    return max((exit_code(state, interrupted=interrupted) for state in states), default=0)


def _final_state(log: EventLog, live: LiveExecution) -> Execution:
    """The state that an execution ended with. That of one that was set aside is half decided in memory: the log has it."""
    ended_well = live.finished.exception() is None
    return live.state if ended_well else state_at(log, live.id)


def exit_code(state: Execution, *, interrupted: bool) -> int:
    """0 completed, 1 failed or cancelled, 130 interrupted."""
    if state.status == "completed":
        return 0
    return INTERRUPTED if interrupted and state.status == "cancelled" else 1
