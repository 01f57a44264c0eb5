"""noetl rerun: an execution once more, from its start or from any point of its log."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import execution_argument, find, offered_steps
from noetl.cli.loading import FILE
from noetl.cli.printing import as_json, in_colour, note, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.cli.rerunning import Asked, Rerun
    from noetl.wiring import House


@click.command()
@execution_argument()
@click.option("--from", "place", metavar="STEP|SEQ", shell_complete=offered_steps, help=(
    "Where to go on: before a step's last run, before an iteration (`step[3]`), or behind the event SEQ. Without it, the"
    " run starts anew with the same payload."))  # fmt: skip
@click.option("--run", "run", metavar="N", type=click.IntRange(1), help="With --from STEP: which run of it, from 1.")
@click.option("--with", "file", metavar="FILE", type=FILE, help="Go on with a corrected playbook.")
@click.option("--legacy", is_flag=True, help="With --with: accept older dialects as they are.")
@click.option("--plan", "only_plan", is_flag=True, help="Only show what would be kept and run.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document at the end, or the plan as one.")
def command(  # noqa: PLR0913  it has as many options
    *, execution: str, place: str | None, run: int | None, file: str | None, legacy: bool, only_plan: bool,
    yes: bool, as_document: bool,
) -> int:  # fmt: skip
    """Run an execution again from a step or an event, as a new execution; what came before is kept.

    Tasks that are kept are not run again: the new execution has their results. What was running at that point is run again,
    and everything behind it, under keys of the new execution. The plan is shown first. Output and exit codes are those of
    `noetl run`.
    """
    if run is not None and place is None:
        raise UsageError("--run says which run of a step: name one with --from STEP")
    from noetl.cli.rerunning import Asked

    asked = Asked(place, run, file, legacy=legacy)
    return asyncio.run(_rerun(execution, asked, only_plan=only_plan, yes=yes, as_document=as_document))


async def _rerun(given: str, asked: Asked, *, only_plan: bool, yes: bool, as_document: bool) -> int:
    from noetl.cli.rerun_text import plan_text
    from noetl.cli.rerunning import prepared
    from noetl.wiring import open_house

    async with open_house() as house:
        made = prepared(house, find(house.log, given), asked, as_document=as_document)
        if only_plan:
            out(as_json(made.plan) if as_document else plan_text(made.plan, colour=in_colour(sys.stdout)))
            return 0
        if not (yes and as_document):
            sys.stderr.write(plan_text(made.plan, colour=in_colour(sys.stderr)))
        if not yes and not _agreed():
            note("nothing was started")
            return 1
        return await _follow(house, made, as_document=as_document)


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody can be asked here: --yes goes on without, --plan only shows the plan")
    return click.confirm("Go on?", err=True)


async def _follow(house: House, made: Rerun, *, as_document: bool) -> int:
    from noetl.cli.attending import ended, exit_code, follow
    from noetl.cli.progress import progress
    from noetl.server.document import document

    with progress(house.service.watchers, quiet=as_document) as shown:
        hot = await made.start()
        if made.fork is None:
            shown.roots.append(hot)
        else:
            shown.goes_on(hot)
        interrupted = await follow(house, shown)
    if not as_document:
        return await ended(house, shown.roots, interrupted=interrupted, as_document=False)
    import msgspec

    said: dict[str, Any] = {**document(hot.state), "rerun": hot.state.origin}
    out(f"{msgspec.json.encode(said).decode()}\n")
    return exit_code(hot.state, interrupted=interrupted)
