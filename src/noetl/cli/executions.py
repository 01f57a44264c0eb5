"""Executions on the command line: which one is meant, the log they are read from, and how they are told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from noetl.errors import NoetlError, UsageError
from noetl.ports import OVER

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from noetl.model.net import Net
    from noetl.ports import EventLog, Source, Summary
    from noetl.server.catalog import Catalog

LAST = "last"
#: how many a shell offers
_OFFERED = 20


@contextmanager
def opened_log() -> Iterator[EventLog]:
    """The log of this machine, or of the server that is meant, for as long as a command takes."""
    import asyncio

    from noetl.cli.where import client

    log: EventLog
    if (there := client()) is not None:
        from noetl.client.log import RemoteLog

        log = RemoteLog(there)
    else:
        from noetl.config import settings
        from noetl.wiring import open_log

        log = open_log(settings())
    try:
        yield log
    finally:
        asyncio.run(log.close())


def _is_anything_recorded() -> bool:
    """Whether there can be executions: whoever looks for some should not make a home."""
    from noetl.cli.where import servers
    from noetl.config import settings

    return bool(servers()) or settings().home.is_dir()


def _offered(_context: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """The latest executions, for a shell to complete."""
    from click.shell_completion import CompletionItem

    if not _is_anything_recorded():
        return []
    try:
        with opened_log() as log:
            found = log.summaries(limit=_OFFERED)
    except NoetlError:
        return []
    last = [CompletionItem(LAST, help="the latest")] if found else []
    offered = [*last, *(CompletionItem(one.execution_id, help=f"{one.path}, {one.status}") for one in found)]
    return [one for one in offered if one.value.startswith(begun)]


def execution_argument(name: str = "execution", shown: str = "ID", *, required: bool = True) -> Callable[[Any], Any]:
    """The argument ID of a command."""
    return click.argument(name, metavar=shown if required else f"[{shown}]", required=required, shell_complete=_offered)


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


def is_left(summary: Summary) -> bool:
    """Whether nobody goes on with it, though it is not over."""
    return summary.status not in OVER and not summary.minded


def shown_status(summary: Summary) -> str:
    """Its status, in the words that say what can be done about it."""
    if not is_left(summary):
        return summary.status
    return "paused, interrupted" if summary.status == "paused" else "interrupted"


def waits_for(log: EventLog, summary: Summary) -> list[str]:
    """What it waits for that is no part of it, such as workers, in words; only the server that runs it knows."""
    from noetl.cli.where import servers

    if summary.status in OVER or not servers():
        return []
    from noetl.client.log import RemoteLog

    return log.waits(summary.execution_id) if isinstance(log, RemoteLog) else []


def runner(summary: Summary) -> str:
    """Who runs it, or did last; nothing if that is not known. Where processes share a database, machines are told too."""
    if summary.owner is None:
        return ""
    host, _, process = summary.owner.rpartition("-")[0].rpartition("-")
    return f"process {process} on {host}" if host else f"process {process}"


def way_on(summary: Summary) -> str:
    """Of an execution that nobody runs, how to go on with it."""
    execution_id = summary.execution_id
    if summary.status == "paused":
        return (
            f"it is paused and its process has gone; `noetl unpause {execution_id}` and then "
            f"`noetl resume {execution_id}` go on where it was"
        )
    return f"its process has gone; `noetl resume {execution_id}` goes on where it was"


def net_of(log: EventLog, summary: Summary) -> Net | None:
    """The playbook that was run; None: its text is not there any more, or cannot be read by this version."""
    from noetl.cli.loading import collector_off

    source = log.source(summary.playbook)
    with collector_off():
        return catalog().net(source) if source is not None else None


def whole_net(log: EventLog, summary: Summary) -> Net | None:
    """The same with the steps that the execution planned."""
    from noetl.server.history import state_at

    net = net_of(log, summary)
    if net is None or all(step.router.synthesize is None for step in net.steps.values()):
        return net
    return catalog().grown(net, state_at(log, summary.execution_id).synthesized)


def was_edited(source: Source) -> bool:
    """Whether the file of a recorded playbook says something else by now; one that is gone says nothing."""
    import hashlib
    from pathlib import Path

    try:
        data = Path(source.file).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() != source.hash


@cache
def catalog() -> Catalog:
    """One for all executions of a command: most of them ran the same few playbooks."""
    from noetl.server.catalog import Catalog
    from noetl.tools.registry import Kinds

    return Catalog(Kinds())


def _step_names(log: EventLog, summary: Summary) -> list[str]:
    """The steps of the playbook, and those that were made while it ran."""
    from noetl.server.history import state_at

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


def offered_steps(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The steps of the execution that is named before, for a shell to complete."""
    if not _is_anything_recorded():
        return []
    try:
        with opened_log() as log:
            names = _step_names(log, find(log, context.params.get("execution") or LAST))
    except NoetlError:
        return []
    return [name for name in names if name.startswith(begun)]


step_option = click.option("--step", metavar="STEP", shell_complete=offered_steps, help="Only what is about this step.")
