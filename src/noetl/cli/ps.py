"""noetl ps: the executions, the latest first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import is_left, json_option, opened_log, shown_status
from noetl.cli.printing import as_json, columns, in_colour, note, out
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.ports import Summary


@click.command()
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many at most.")
@click.option("--unfinished", is_flag=True, help="Only those that are not over.")
@click.option("--children", is_flag=True, help="Also those that other executions have started.")
@json_option
def command(*, limit: int, unfinished: bool, children: bool, as_data: bool) -> None:
    """List executions, the latest first.

    `interrupted` is an execution whose process has gone before its end: `noetl resume ID` goes on with it.
    """
    with opened_log() as log:
        shown = log.summaries(limit=limit, unfinished=unfinished, parent=None if children else "")
    if as_data:
        out(as_json(shown))
    elif shown:
        out(_table(shown))
        _hint(shown)
    else:
        note("nothing is unfinished" if unfinished else "nothing has been run yet; `noetl run FILE` runs a playbook")


def _table(shown: list[Summary]) -> str:
    import time

    from noetl.cli.words import duration, local_time, seconds_of

    rows = [("ID", "STATUS", "STARTED", "TOOK", "EVENTS", "PLAYBOOK")]
    for one in shown:
        end = time.time() if one.status not in OVER and one.alive else seconds_of(one.updated_at)
        took = duration(end - seconds_of(one.requested_at))
        status, started = shown_status(one), local_time(one.requested_at)
        rows.append((one.execution_id, status, started, took, f"{one.seq:,}", one.path))
    return columns(rows, paint=1, colour=in_colour(sys.stdout))


def _hint(shown: list[Summary]) -> None:
    left = [one for one in shown if is_left(one) and one.status != "paused"]
    if left and sys.stderr.isatty():
        note(f"`noetl resume {left[0].execution_id}` goes on with an interrupted one, `noetl resume --all` with all")
