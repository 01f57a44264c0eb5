"""noetl ps: the executions, the latest first."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from noetl.cli.executions import HALTED, describe_status, is_interrupted, json_option, open_command_log, resume_hint
from noetl.cli.output.printing import as_json, columns, in_colour, note, out
from noetl.errors import NoetlError
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary


@click.command()
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many at most.")
@click.option("--unfinished", is_flag=True, help="Only those that are not over.")
@click.option("--children", is_flag=True, help="Also those that other executions have started.")
@json_option
def command(*, limit: int, unfinished: bool, children: bool, as_data: bool) -> None:
    """List executions, the latest first.

    `interrupted` is an execution whose process has gone before its end: `noetl resume ID` goes on with it. One that is
    `paused` as well has to be let go on first, with `noetl unpause ID`.
    """
    with open_command_log() as log:
        shown = log.summaries(limit=limit, unfinished=unfinished, parent=None if children else "")
        origins = {one.execution_id: _origin(log, one) for one in shown}
        dead_ends = {one.execution_id: _find_dead_ends(log, one) for one in shown}
    if as_data:
        more = [{"rerun": origins[one.execution_id], **dead_ends[one.execution_id]} for one in shown]
        out(as_json([{**to_builtins(one), **other} for one, other in zip(shown, more, strict=True)]))
    elif shown:
        out(_table(shown, origins, dead_ends))
        _hint(shown)
    else:
        note("nothing is unfinished" if unfinished else "nothing has been run yet; `noetl run FILE` runs a playbook")


def _origin(log: EventLog, summary: Summary) -> dict[str, Any] | None:
    """Of a rerun, where it comes from; a log that cannot be read is for `noetl fsck` to tell of."""
    with suppress(NoetlError):
        for event in log.read(summary.execution_id, limit=1):
            origin: dict[str, Any] | None = event.payload.get("rerun")
            return origin
    return None


def _find_dead_ends(log: EventLog, summary: Summary) -> dict[str, list[str]]:
    """Where the tokens of an execution that is over were left, and which of its steps had no arc that matched."""
    found: dict[str, list[str]] = {"stalled": [], "unmatched": []}
    if summary.status in OVER:
        with suppress(NoetlError):
            # `workflow.finished` is the last event but one; an execution that was refused has none.
            for event in log.read(summary.execution_id, after=max(0, summary.seq - 2), limit=1):
                if event.name == "workflow.finished":
                    found |= {key: event.payload.get(key, []) for key in found}
    return found


def _table(
    shown: list[Summary], origins: dict[str, dict[str, Any] | None], dead_ends: dict[str, dict[str, list[str]]]
) -> str:
    import time

    from noetl.cli.output.ending_lines import describe_dead_ends
    from noetl.cli.output.printing import duration, local_time, seconds_of
    from noetl.cli.output.state_lines import origin_words

    rows = [("ID", "STATUS", "STARTED", "TOOK", "EVENTS", "PLAYBOOK")]
    for one in shown:
        end = time.time() if one.status not in OVER and one.is_attended else seconds_of(one.updated_at)
        origin = origins[one.execution_id]
        began = origin["at"] if origin is not None else one.requested_at
        took, status, started = duration(end - seconds_of(began)), describe_status(one), local_time(began)
        whence = f" (rerun of {origin_words(origin)})" if origin is not None else ""
        odd = describe_dead_ends(**dead_ends[one.execution_id])
        warning = f"  ⚠ {odd}" if odd else ""
        rows.append((one.execution_id, status, started, took, f"{one.seq:,}", f"{one.path}{whence}{warning}"))
    return columns(rows, paint=1, colour=in_colour(sys.stdout))


def _hint(shown: list[Summary]) -> None:
    if not sys.stderr.isatty():
        return
    left = [one for one in shown if is_interrupted(one) and one.status not in HALTED]
    halted = next((one for one in shown if is_interrupted(one) and one.status in HALTED), None)
    if halted is not None:
        note(f"{halted.execution_id}: {resume_hint(halted)}")
    if left:
        note(f"`noetl resume {left[0].execution_id}` goes on with an interrupted one, `noetl resume --all` with all")
