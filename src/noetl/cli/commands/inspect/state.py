"""noetl state: the state of an execution, now or behind any event of its past."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import execution_argument, find, json_option, open_command_log
from noetl.cli.output.printing import as_json, colorize, in_colour, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.model.events import Event
    from noetl.model.state import Execution


@click.command()
@execution_argument()
@click.option("--at", "seq", metavar="SEQ", type=click.IntRange(1), help="Behind this event; without it, now.")
@json_option
def command(*, execution: str, seq: int | None, as_data: bool) -> None:
    """Show the state of an execution: its values, what runs, what waits.

    The state is made from the recorded events, so any moment of the past can be seen: `noetl events ID` has the numbers.
    """
    from noetl.history import state_at

    with open_command_log() as log:
        summary = find(log, execution)
        if seq is not None and seq > summary.seq:
            raise UsageError(f"the log of {summary.execution_id} ends at event {summary.seq}")
        state = state_at(log, summary.execution_id, upto=seq)
        last = log.read(summary.execution_id, after=state.seq - 1, limit=1)[0]
    out(as_json(state) if as_data else _text(state, last, colour=in_colour(sys.stdout)))


def _text(state: Execution, last: Event, *, colour: bool) -> str:
    from noetl.cli.output.printing import local_time
    from noetl.cli.output.state_lines import describe_parked, describe_waits, steps

    at = f"behind event {last.seq}, {last.name} {last.entity_id}, {local_time(last.timestamp)}"
    status = state.shown_status
    parts = [f"{state.execution_id}  {colorize(status, status, colour=colour)}  {at}\n"]
    parts += [_section("workload", state.workload), _section("ctx", state.ctx)]
    parts += [_section(f"step, in {place}", values) for place, values in _step_values(state)]
    if state.steps:
        parts.append(f"\n{steps(state, colour=colour)}")
    parts += [f"\n{text}" for text in (describe_waits(state), describe_parked(state)) if text]
    if state.signals:
        parts.append(_section("signals that nobody took", {name: held for name, held in state.signals.items() if held}))
    if state.over:
        parts += [_section("output", state.output), _section("error", state.error)]
    return "".join(parts)


def _step_values(state: Execution) -> Iterator[tuple[str, dict[str, Any]]]:
    """What steps that run have written to `step.*`: in a loop that is what its next iteration sees."""
    for run in state.runs.values():
        values = run.loop.step if run.loop is not None else run.step_vars
        if values:
            yield run.id, values
    for ended in state.boundaries:
        if ended.step_vars:
            yield ended.step_run_id, ended.step_vars


def _section(title: str, value: Any) -> str:
    if not value and value not in (0, False):
        return ""
    text = as_json(value)
    if isinstance(value, dict | list):
        return f"\n{title}\n{''.join(f'  {line}' for line in text.splitlines(keepends=True))}"
    return f"\n{title}: {text}"
