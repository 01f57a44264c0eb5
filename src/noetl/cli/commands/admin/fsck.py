"""noetl fsck: whether the recorded executions are whole and make sense."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import execution_argument, find, json_option, open_command_log, whole_net
from noetl.cli.output.printing import as_json, colorize, count, in_colour, out

if TYPE_CHECKING:
    from noetl.ports import Summary


@click.command()
@execution_argument(required=False)
@json_option
def command(*, execution: str | None, as_data: bool) -> int:
    """Check one execution, or all: that nothing is missing or changed, and that the events make sense.

    That goes for the events and for what they left in the result store, as far as its time has not run out. Nothing is written. The exit code is 1 when something is wrong.
    """
    from noetl.cli.output.progress import CountingLog

    with open_command_log() as log:
        chosen = [find(log, execution)] if execution is not None else log.summaries(limit=1_000_000)
        # Each event is read twice: as it lies there, and for what it says.
        watched = CountingLog(log, 2 * sum(one.seq for one in chosen))
        found = _problems(watched, chosen, whole=execution is None)
        watched.clear()
    if as_data:
        out(as_json({"checked": len(chosen), "events": sum(one.seq for one in chosen), "problems": found}))
    else:
        for one in found:
            out(_line(one))
        events = count(sum(one.seq for one in chosen), "event")
        verdict = count(len(found), "problem") if found else "all well"
        out(f"{count(len(chosen), 'execution')}, {events}: {verdict}\n")
    return 1 if found else 0


def _problems(log: Any, chosen: list[Summary], *, whole: bool) -> list[Any]:
    """What the store finds in itself; and, of what it finds whole, what the events say that cannot be."""
    from noetl.history import check_log
    from noetl.stores import verify_store

    found: list[Any] = list(verify_store(log) if whole else verify_store(log, chosen[0].execution_id))
    broken = {problem.execution_id for problem in found}
    for summary in chosen:
        if summary.execution_id not in broken and None not in broken:
            found += check_log(log, summary, whole_net(log, summary), [_payloads()])
    return found


def _payloads() -> Any:
    """What looks at the result store."""
    import time
    from functools import partial

    from noetl.app import open_results
    from noetl.config import settings
    from noetl.history import PayloadRule
    from noetl.results import find_damage

    return PayloadRule(partial(find_damage, open_results(settings())), time.time())


def _line(problem: Any) -> str:
    seq = f" event {problem.seq}" if problem.seq else ""
    where = f"{problem.execution_id or 'the store'}{seq}"
    return f"{colorize(where, 'bold', colour=in_colour(sys.stdout))}: {problem.kind}: {problem.message}\n"
