"""noetl rerun: an execution once more, from its start or from any point of its log."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import complete_steps, execution_argument, find
from noetl.cli.local_audit import record
from noetl.cli.output.printing import as_json, in_colour, note, out
from noetl.cli.playbook_files import FILE
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.app import LocalNode
    from noetl.cli.commands.runs.rerun_preparation import Rerun, RerunRequest


@click.command()
@execution_argument()
@click.option("--from", "place", metavar="STEP|SEQ", shell_complete=complete_steps, help=(
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
    from noetl.cli.commands.runs.rerun_preparation import RerunRequest

    asked = RerunRequest(place, run, file, legacy=legacy)
    return asyncio.run(_rerun(execution, asked, only_plan=only_plan, yes=yes, as_document=as_document))


async def _rerun(given: str, asked: RerunRequest, *, only_plan: bool, yes: bool, as_document: bool) -> int:
    from noetl.app import open_local_node
    from noetl.cli.commands.runs.rerun_preparation import prepare_rerun
    from noetl.cli.output.diff_text import plan_text

    async with open_local_node() as node:
        made = prepare_rerun(node, find(node.log, given), asked, as_document=as_document)
        if only_plan:
            out(as_json(made.plan) if as_document else plan_text(made.plan, colour=in_colour(sys.stdout)))
            return 0
        if not (yes and as_document):
            sys.stderr.write(plan_text(made.plan, colour=in_colour(sys.stderr)))
        if not yes and not _confirm():
            note("nothing was started")
            return 1
        return await _follow(node, made, as_document=as_document)


def _confirm() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody can be asked here: --yes goes on without, --plan only shows the plan")
    return click.confirm("Go on?", err=True)


async def _follow(node: LocalNode, made: Rerun, *, as_document: bool) -> int:
    from noetl.cli.commands.runs.follow import exit_code, follow, report_end
    from noetl.cli.output.progress import progress
    from noetl.history import run_document

    with progress(node.service.watchers, quiet=as_document) as shown:
        live = await made.start()
        await record(node.log, "execution.rerun", f"{live.id} {live.state.path}")
        if made.fork is None:
            shown.roots.append(live)
        else:
            shown.on_resume(live)
        interrupted = await follow(node, shown)
    if not as_document:
        return await report_end(node, shown.roots, interrupted=interrupted, as_document=False)
    import msgspec

    said: dict[str, Any] = {**run_document(live.state), "rerun": live.state.origin}
    out(f"{msgspec.json.encode(said).decode()}\n")
    return exit_code(live.state, interrupted=interrupted)
