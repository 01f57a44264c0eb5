"""noetl logs: what the tools of an execution wrote."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import check_step, execution_argument, find, json_option, opened_log, step_option
from noetl.cli.following import follow, follow_option
from noetl.cli.printing import in_colour, note, out, painted

if TYPE_CHECKING:
    from noetl.ports import EventLog, Line, Summary


@click.command()
@execution_argument()
@follow_option
@step_option
@json_option
def command(*, execution: str, follow_on: bool, step: str | None, as_data: bool) -> None:
    """Print what the tools of an execution wrote to stdout and stderr, each line behind its step and task."""
    import msgspec

    colour = in_colour(sys.stdout)
    at, any_at_all = 0, False
    with opened_log() as log:
        summary = find(log, execution)
        if step is not None:
            check_step(log, summary, step)

        def tell() -> bool:
            nonlocal at, any_at_all
            found = log.lines(summary.execution_id, after=at)
            for _, one in found:
                if step is None or one.step == step:
                    out(f"{msgspec.json.encode(one).decode()}\n" if as_data else _text(one, colour=colour))
                    any_at_all = True
            at = found[-1][0] if found else at
            return bool(found)

        follow(log, summary, tell, go_on=follow_on)
        failures = _failures(log, summary, step) if not as_data else ""
    out(failures)
    if not failures and not any_at_all and not as_data:
        note(f"{f'step {step}' if step else summary.execution_id} wrote nothing")


def _failures(log: EventLog, summary: Summary, step: str | None) -> str:
    """Where in their code tasks failed: what Python itself would have written at the end."""
    from noetl.cli.telling import error_words, trace_lines
    from noetl.server.history import state_at

    colour = in_colour(sys.stdout)
    told = ""
    for name, info in state_at(log, summary.execution_id).steps.items():
        traced = trace_lines(info.error) if step in (None, name) else []
        if info.error is not None and traced:
            head = painted(f"{name} |", "failed", colour=colour)
            told += "".join(f"{head} {line}\n" for line in (error_words(info.error), *traced))
    return told


def _text(line: Line, *, colour: bool) -> str:
    from noetl.cli.telling import place
    from noetl.lang.report import visible

    style = "failed" if line.stream == "stderr" else "dim"
    head = painted(f"{place(f'{line.step}.{line.task}', line.iteration)} |", style, colour=colour)
    return "".join(f"{head} {visible(text)}\n" for text in line.text.splitlines() or [""])
