"""noetl logs: what the tools of an execution wrote."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import execution_argument, find, json_option, opened_log
from noetl.cli.following import follow, follow_option
from noetl.cli.printing import in_colour, note, out, painted

if TYPE_CHECKING:
    from noetl.ports import Line


@click.command()
@execution_argument()
@follow_option
@click.option("--step", metavar="STEP", help="Only what this step wrote.")
@json_option
def command(*, execution: str, follow_on: bool, step: str | None, as_data: bool) -> None:
    """Print what the tools of an execution wrote to stdout and stderr, each line behind its step and task."""
    import msgspec

    colour = in_colour(sys.stdout)
    at, any_at_all = 0, False
    with opened_log() as log:
        summary = find(log, execution)

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
    if not any_at_all and not as_data:
        note(f"{f'step {step}' if step else summary.execution_id} wrote nothing")


def _text(line: Line, *, colour: bool) -> str:
    from noetl.cli.telling import place
    from noetl.lang.report import visible

    style = "failed" if line.stream == "stderr" else "dim"
    head = painted(f"{place(f'{line.step}.{line.task}', line.iteration)} |", style, colour=colour)
    return "".join(f"{head} {visible(text)}\n" for text in line.text.splitlines() or [""])
