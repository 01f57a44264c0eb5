"""noetl logs: what the tools of an execution wrote."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import (
    check_step,
    execution_argument,
    find,
    follow,
    follow_option,
    json_option,
    open_command_log,
    step_option,
)
from noetl.cli.output.printing import colorize, count, in_colour, note, out

if TYPE_CHECKING:
    from noetl.ports import EventLog, LogLine, Summary


@click.command()
@execution_argument()
@follow_option
@step_option
@click.option("--children", is_flag=True, help="Also of the executions that it has started, each line with its id.")
@json_option
def command(*, execution: str, follow_on: bool, step: str | None, children: bool, as_data: bool) -> int:
    """Print what the tools of an execution wrote to stdout and stderr, each line behind its step and task.

    A line is printed when it is whole, or when its task has ended.
    """
    with open_command_log() as log:
        summary = find(log, execution)
        if step is not None:
            check_step(log, summary, step)
        told = _LinePrinter(log, summary, step, children=children, as_data=as_data)
        code = follow(log, summary, told.print_new, go_on=follow_on)
        if not as_data:
            told.close()
    return code


class _LinePrinter:
    """What has been printed, of one execution or also of those below it."""

    def __init__(self, log: EventLog, summary: Summary, step: str | None, *, children: bool, as_data: bool) -> None:
        self._log = log
        self._summary = summary
        self._step = step
        self._children = children
        self._as_data = as_data
        #: execution → how far its lines have been printed
        self._at: dict[str, int] = {}
        self._any = False

    def print_new(self) -> bool:
        """Print what has come; whether something has."""
        found: list[tuple[str, LogLine]] = []
        for execution_id in self._members():
            lines = self._log.lines(execution_id, after=self._at.get(execution_id, 0))
            if lines:
                self._at[execution_id] = lines[-1][0]
                found += [(execution_id, line) for _, line in lines]
        if self._children:
            found.sort(key=lambda one: one[1].timestamp)
        for execution_id, line in found:
            if self._step is None or line.step == self._step or execution_id != self._summary.execution_id:
                self._print(execution_id, line)
                self._any = True
        return bool(found)

    def _members(self) -> list[str]:
        from noetl.cli.executions import descendants

        own = self._summary.execution_id
        return [own, *(one.execution_id for one in descendants(self._log, own))] if self._children else [own]

    def _print(self, execution_id: str, line: LogLine) -> None:
        import msgspec

        if self._as_data:
            told = msgspec.to_builtins(line) | ({"execution_id": execution_id} if self._children else {})
            out(f"{msgspec.json.encode(told).decode()}\n")
        else:
            out(_text(line, f"{execution_id} " if self._children else "", colour=in_colour(sys.stdout)))

    def close(self) -> None:
        """Print where tasks failed in their code; and what there is to say when nothing was printed, or elsewhere."""
        failures = _failures(self._log, self._summary, self._step)
        out(failures)
        own = self._summary.execution_id
        if not failures and not self._any:
            note(f"{f'step {self._step}' if self._step else own} wrote nothing")
        started = 0 if self._children else len(self._log.summaries(limit=1_000_000, parent=own))
        if started:
            note(f"{own} has started {count(started, 'execution')}; `noetl logs {own} --children` has their lines too")


def _failures(log: EventLog, summary: Summary, step: str | None) -> str:
    """Where in their code tasks failed: what Python itself would have written at the end."""
    from noetl.cli.output.state_lines import error_words, locate_frames, trace_lines
    from noetl.history import source_of, state_at

    colour = in_colour(sys.stdout)
    state = state_at(log, summary.execution_id)
    source = source_of(log, state)
    told = ""
    for name, info in state.steps.items():
        if info.error is None or step not in (None, name):
            continue
        if traced := trace_lines(locate_frames(info.error, source, name)):
            head = colorize(f"{name} |", "failed", colour=colour)
            told += "".join(f"{head} {line}\n" for line in (error_words(info.error), *traced))
    return told


def _text(line: LogLine, whose: str = "", *, colour: bool) -> str:
    from noetl.cli.output.state_lines import place
    from noetl.lang import escape_controls

    style = "failed" if line.stream == "stderr" else "dim"
    head = colorize(f"{whose}{place(f'{line.step}.{line.task}', line.iteration)} |", style, colour=colour)
    return "".join(f"{head} {escape_controls(text)}\n" for text in line.text.splitlines() or [""])
