"""Executions on the command line: which one is meant, the log they are read from, and how they are told of."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noetl.cli.catalog_folders import catalog
from noetl.cli.output.printing import note
from noetl.cli.output.state_lines import place, signal_hint, wait_words, waits
from noetl.errors import NoetlError, UsageError
from noetl.ports import OVER

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from noetl.model.net import Net
    from noetl.model.state import Execution, Wait
    from noetl.ports import EventLog, PlaybookSource, Summary


# The executions that an execution has started, and those started by them: what they wait for.


class DescendantWait(NamedTuple):
    """Something that a descendant waits for."""

    execution_id: str
    path: str
    step: str
    wait: Wait


def descendant_waits(log: EventLog, state: Execution) -> Iterator[DescendantWait]:
    """What the children wait for that are waited for, down to the last."""
    from noetl.history import state_at

    for _, _, wait in waits(state):
        if wait.child is None or wait.answer is not None:
            continue
        summary = log.summary(wait.child["execution_id"])
        if summary is None or summary.status in OVER:
            continue
        child = state_at(log, summary.execution_id)
        for run, label, inner in waits(child):
            if inner.child is None:
                yield DescendantWait(child.execution_id, child.path, place(run.step, label), inner)
        yield from descendant_waits(log, child)


def describe_descendant_waits(log: EventLog, state: Execution, most: int = 20) -> str:
    """The same in words, a line each."""
    from itertools import islice

    found = list(islice(descendant_waits(log, state), most + 1))
    lines = [
        f"{one.path} ({one.execution_id}): {one.step} {wait_words(one.wait)}{signal_hint(one.execution_id, one.wait)}\n"
        for one in found[:most]
    ]
    return "".join([*lines, "… and more\n"] if len(found) > most else lines)


def descendants(log: EventLog, execution_id: str) -> list[Summary]:
    """All that it has started, directly or not, the oldest first."""
    found = list(reversed(log.summaries(limit=1_000_000, parent=execution_id)))
    return [one for child in found for one in (child, *descendants(log, child.execution_id))]


LAST = "last"
#: how many a shell offers
_MOST_COMPLETIONS = 20


@contextmanager
def open_command_log() -> Iterator[EventLog]:
    """The log of this machine, or of the server that is meant, for as long as a command takes."""
    import asyncio

    from noetl.cli.target import client

    log: EventLog
    if (there := client()) is not None:
        from noetl.client import RemoteLog

        log = RemoteLog(there)
    else:
        from noetl.app import open_log
        from noetl.config import settings

        log = open_log(settings())
    try:
        yield log
    finally:
        asyncio.run(log.close())


def _is_anything_recorded() -> bool:
    """Whether there can be executions: whoever looks for some should not make a home."""
    from noetl.cli.target import servers
    from noetl.config import settings

    return bool(servers()) or settings().has_records


def _complete_executions(_context: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """The latest executions, for a shell to complete."""
    from click.shell_completion import CompletionItem

    if not _is_anything_recorded():
        return []
    try:
        with open_command_log() as log:
            found = log.summaries(limit=_MOST_COMPLETIONS)
    except NoetlError:
        return []
    last = [CompletionItem(LAST, help="the latest")] if found else []
    offered = [*last, *(CompletionItem(one.execution_id, help=f"{one.path}, {one.status}") for one in found)]
    return [one for one in offered if one.value.startswith(begun)]


def execution_argument(name: str = "execution", shown: str = "ID", *, required: bool = True) -> Callable[[Any], Any]:
    """The argument ID of a command."""
    return click.argument(
        name, metavar=shown if required else f"[{shown}]", required=required, shell_complete=_complete_executions
    )


json_option = click.option("--json", "as_data", is_flag=True, help="As data, for programs.")


def find(log: EventLog, given: str) -> Summary:
    """The execution that is meant by an id, by the beginning of one, or by `last`."""
    if given == LAST:
        latest = log.summaries(limit=1, parent="")
        if not latest:
            raise UsageError("nothing has been run yet; `noetl run FILE` runs a playbook")
        return latest[0]
    found = log.summary(given) if given.isascii() else None
    if found is not None:
        return found
    raise UsageError(f"there is no execution {given!r}; `noetl ps` lists them, and `last` is the latest")


#: nothing new starts in an execution of such a status until it is unpaused
HALTED = ("paused", "stuck")


def is_interrupted(summary: Summary) -> bool:
    """Whether nobody goes on with it, though it is not over."""
    return summary.status not in OVER and not summary.is_attended


def describe_status(summary: Summary) -> str:
    """Its status, in the words that say what can be done about it."""
    if not is_interrupted(summary):
        return summary.status
    return f"{summary.status}, interrupted" if summary.status in HALTED else "interrupted"


def waits_for(log: EventLog, summary: Summary) -> list[str]:
    """What it waits for that is no part of it, such as workers, in words; only the server that runs it knows."""
    from noetl.cli.target import servers

    if summary.status in OVER or not servers():
        return []
    from noetl.client import RemoteLog

    return log.waits(summary.execution_id) if isinstance(log, RemoteLog) else []


def runner(summary: Summary) -> str:
    """Who runs it, or did last; nothing if that is not known. Where processes share a database, machines are told too."""
    if summary.owner is None:
        return ""
    host, _, process = summary.owner.rpartition("-")[0].rpartition("-")
    return f"process {process} on {host}" if host else f"process {process}"


def resume_hint(summary: Summary) -> str:
    """Of an execution that nobody runs, how to go on with it."""
    execution_id = summary.execution_id
    if summary.status in HALTED:
        return (
            f"it is {summary.status}, and its process has ended; run `noetl unpause {execution_id}` and then "
            f"`noetl resume {execution_id}` to continue it"
        )
    return f"it is interrupted: its process has ended; run `noetl resume {execution_id}` to continue it"


def net_of(log: EventLog, summary: Summary) -> Net | None:
    """The playbook that was run; None: its text is not there any more, or cannot be read by this version."""
    from noetl.cli.playbook_files import pause_gc

    source = log.source(summary.playbook)
    with pause_gc():
        return catalog().net(source) if source is not None else None


def whole_net(log: EventLog, summary: Summary) -> Net | None:
    """The same with the steps that the execution planned."""
    from noetl.history import state_at

    net = net_of(log, summary)
    if net is None or all(step.router.synthesize is None for step in net.steps.values()):
        return net
    return catalog().extend_net(net, state_at(log, summary.execution_id).synthesized)


def was_edited(source: PlaybookSource) -> bool:
    """Whether the file of a recorded playbook says something else by now; one that is gone says nothing."""
    import hashlib
    from pathlib import Path

    try:
        data = Path(source.file).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() != source.hash


def _step_names(log: EventLog, summary: Summary) -> list[str]:
    """The steps of the playbook, and those that were made while it ran."""
    from noetl.history import state_at

    net = whole_net(log, summary)
    return list(dict.fromkeys([*(net.steps if net is not None else ()), *state_at(log, summary.execution_id).steps]))


def check_step(log: EventLog, summary: Summary, step: str) -> None:
    """Refuse the name of a step that the execution does not have."""
    from noetl.model.nearest import nearest

    names = _step_names(log, summary)
    if step in names:
        return
    meant = nearest(step, names)
    hint = f"did you mean `{meant}`?" if meant else f"steps: {', '.join(list(names)[:20])}"
    raise UsageError(f"{summary.path} has no step `{step}`; {hint}")


def complete_steps(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The steps of the execution that is named before, for a shell to complete."""
    if not _is_anything_recorded():
        return []
    try:
        with open_command_log() as log:
            names = _step_names(log, find(log, context.params.get("execution") or LAST))
    except NoetlError:
        return []
    return [name for name in names if name.startswith(begun)]


step_option = click.option(
    "--step", metavar="STEP", shell_complete=complete_steps, help="Only what is about this step."
)


# Following an execution: what is in the log, and with --follow what comes until it is over.


#: how often the log is looked at, in seconds
_POLL = 0.1

follow_option = click.option(
    "-f",
    "--follow",
    "follow_on",
    is_flag=True,
    help="Go on printing until the execution is over, or its process has gone.",
)


def follow(log: EventLog, summary: Summary, tell: Callable[[], bool], *, go_on: bool) -> int:
    """Tell what there is; with `go_on` again and again. `tell` says whether there was something to tell.

    The exit code: 1 when nothing more comes though the execution is not over.
    """
    tell()
    gone = False
    while go_on:
        sys.stdout.flush()
        now = log.summary(summary.execution_id)
        if tell():
            gone = False
        elif now is None or now.status in OVER:
            return 0
        elif not now.is_attended and gone:
            note(f"{now.execution_id}: {resume_hint(now)}")
            return 1
        else:
            # It may have ended well between the two things that were looked at: so look once more.
            gone = not now.is_attended
            time.sleep(_POLL)
    return 0
