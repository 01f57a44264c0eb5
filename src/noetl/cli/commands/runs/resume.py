"""noetl resume: go on with runs whose process has gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import HALTED, execution_argument, find, is_interrupted, resume_hint, was_edited
from noetl.cli.files import near
from noetl.cli.local_audit import record
from noetl.cli.output.printing import note
from noetl.errors import UsageError
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary


@click.command()
@execution_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="All interrupted executions, side by side.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document per execution and nothing else.")
def command(*, execution: str | None, everything: bool, as_document: bool) -> int:
    """Go on with an execution that was interrupted, exactly where it was.

    What was recorded is not done again; a task that had started and not ended is. Output and exit codes are those of
    `noetl run`.
    """
    if (execution is None) != everything:
        raise UsageError("say which execution (`noetl ps --unfinished` lists them), or --all")
    return asyncio.run(_resume(execution, as_document=as_document))


async def _resume(given: str | None, *, as_document: bool) -> int:
    from noetl.app import open_local_node
    from noetl.cli.commands.runs.follow import follow, report_end
    from noetl.cli.output.progress import progress

    async with open_local_node() as node:
        chosen = [find(node.log, given)] if given is not None else _find_interrupted(node.log)
        if not chosen:
            note("nothing to resume: no execution is interrupted that is not paused")
            return 0
        for one in chosen:
            _refuse_if_dormant(one)
        with progress(node.service.watchers, quiet=as_document) as shown:
            for one in chosen:
                if not as_document:
                    _note_before(node.log, one)
                if one.status in HALTED:  # also with --json: nobody should wait without knowing for what
                    _note_paused(one)
                shown.on_resume(await node.resume(one.execution_id))
            await record(node.log, "execution.resume", *(f"{one.execution_id} {one.path}" for one in chosen))
            interrupted = await follow(node, shown)
        return await report_end(node, shown.roots, interrupted=interrupted, as_document=as_document)


def _refuse_if_dormant(summary: Summary) -> None:
    """One that only waits is woken by a server: gone on with here, it would be taken from the workers it is meant for."""
    execution_id = summary.execution_id
    if summary.dormant:
        raise UsageError(
            f"{execution_id} is not interrupted: it only waits (`noetl show {execution_id}` says for what), and a server goes on "
            f"with it when that comes; should there be none, `noetl server` starts one"
        )


def _note_before(log: EventLog, summary: Summary) -> None:
    execution_id = summary.execution_id
    if summary.status not in OVER:
        _note_if_edited(log, summary)
    elif summary.status == "completed":
        note(f"{execution_id} has already completed: there is nothing to resume")
    else:
        how = "was cancelled" if summary.status == "cancelled" else "has already failed"
        note(f"{execution_id} {how}, and cannot be resumed; `noetl rerun {execution_id}` runs it again as a new run")


def _note_paused(summary: Summary) -> None:
    execution_id = summary.execution_id
    note(
        f"{execution_id} is paused: this command waits until you run `noetl unpause {execution_id}` in another terminal"
    )


def _note_if_edited(log: EventLog, summary: Summary) -> None:
    """The playbook as it was run is recorded: what was changed in its file since has no effect."""
    from noetl.history import source_of, state_at

    source = source_of(log, state_at(log, summary.execution_id))
    if source is not None and was_edited(source):
        note(f"{near(source.file)} was edited since; the run goes on with the playbook as it was")


def _find_interrupted(log: EventLog) -> list[Summary]:
    """The executions that nobody runs, the oldest first; children are resumed by their parents, if those are not over.

    Somebody wanted those that are paused to stand still: they are only told of.
    """
    from noetl.server.core import is_orphan

    found = [one for one in log.summaries(limit=1_000_000, unfinished=True) if is_interrupted(one)]
    left = [one for one in reversed(found) if one.parent is None or is_orphan(log, one)]
    for one in left:
        if one.status in HALTED:
            note(f"{one.execution_id} is left as it is: {resume_hint(one)}")
    return [one for one in left if one.status not in HALTED]
