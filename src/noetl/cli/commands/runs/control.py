"""noetl cancel, pause, unpause and signal: act on an execution, through the process that runs it or directly if none does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.catalog_folders import catalog
from noetl.cli.executions import (
    HALTED,
    describe_status,
    execution_argument,
    find,
    json_option,
    net_of,
    open_command_log,
    resume_hint,
    runner,
)
from noetl.cli.local_audit import record
from noetl.cli.output.printing import as_json, note, out
from noetl.errors import NoetlError, SignalRefused, UsageError
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.model.requests import Posted
    from noetl.model.state import Execution
    from noetl.ports import EventLog, Summary


#: seconds in which a living process answers, unless it is very busy
_TIMEOUT_S = 5.0
_POLL = 0.02
#: what the audit log calls a request, by the event that records it
_VERBS = {
    "execution.cancelled": "cancel", "execution.paused": "pause", "execution.resumed": "unpause", "signal.received": "signal",
}  # fmt: skip
#: waits that are told of
_SHOWN = 5


@click.command()
@execution_argument()
@click.option("--why", default="it was cancelled", show_default=True, help="The reason, for the record.")
@json_option
def cancel(*, execution: str, why: str, as_data: bool) -> int:
    """End an execution: everything that runs is stopped, nothing new starts. This is final.

    It may be run by another process, or by none any more.
    """
    from noetl.model.requests import Cancel

    return act(execution, Cancel(why), "execution.cancelled", as_data=as_data)


@click.command()
@execution_argument()
@json_option
def pause(*, execution: str, as_data: bool) -> int:
    """Pause an execution: what runs is let finish, nothing new starts until `noetl unpause`.

    It may be run by another process, or by none any more.
    """
    from noetl.model.requests import Pause

    return act(execution, Pause(), "execution.paused", as_data=as_data)


@click.command()
@execution_argument()
@json_option
def unpause(*, execution: str, as_data: bool) -> int:
    """Let an execution that is paused go on.

    When no process runs it any more, `noetl resume` has to follow.
    """
    from noetl.model.requests import Resume

    return act(execution, Resume(), "execution.resumed", as_data=as_data)


@click.command()
@execution_argument()
@click.argument("name", metavar="NAME")
@click.argument("data", metavar="[JSON]", required=False)
@json_option
def signal(*, execution: str, name: str, data: str | None, as_data: bool) -> int:
    """Send a signal to an execution, for the `kind: wait` task that waits for NAME now or later.

    JSON is what the signal carries; it becomes the output of that task. `noetl show ID` says what is waited for.
    """
    from noetl.cli.files import is_unicode
    from noetl.model.requests import Signal

    if not is_unicode(name):
        raise UsageError(f"{name!a}: the name of a signal is UTF-8 text")
    request = Signal(name, _parse_data(data))
    return act(execution, request, "signal.received", as_data=as_data, remarks=partial(_remarks, name))


def _remarks(name: str, log: EventLog, state: Execution) -> Iterator[str]:
    """Of a signal that nothing took: what is waited for instead, here or in a child."""
    from noetl.cli.executions import descendant_waits
    from noetl.cli.output.state_lines import place, signal_hint, waits
    from noetl.model.nearest import nearest

    if not state.signals.get(name):
        return
    yield f"nothing in {state.execution_id} waits for `{name}` now; it is kept for the next wait on it"
    here = {wait.signal: place(run.step, label) for run, label, wait in waits(state) if wait.signal and not wait.answer}
    for signal, step in list(here.items())[:_SHOWN]:
        yield f"{step} waits for `{signal}`"
    meant = nearest(name, here)
    if meant is not None:
        yield f"did you mean `{meant}`?"
    below = [one for one in descendant_waits(log, state) if one.wait.signal is not None]
    for one in below[:_SHOWN]:
        yield f"{one.path} ({one.execution_id}): {one.step} waits for `{one.wait.signal}`{signal_hint(one.execution_id, one.wait)}"


def _parse_data(data: str | None) -> Any:
    from noetl.cli.commands.runs.payload import from_json

    if data is None:
        return None
    try:
        return from_json(data)
    except ValueError as error:
        raise UsageError(
            f'what a signal carries is JSON, such as \'{{"by": "ann"}}\' or \'"text"\' ({error})'
        ) from None


def act(
    given: str,
    request: Posted,
    event: str,
    *,
    as_data: bool,
    remarks: Callable[[EventLog, Execution], Iterator[str]] | None = None,
) -> int:
    """Let a request take effect, and say what became of it; `event` is what the log shows then.

    `remarks` may add what the state behind it tells.
    """
    import asyncio

    from noetl.history import explain_cancel_refusal, state_at

    with open_command_log() as log:
        summary = find(log, given)
        if summary.status in OVER:
            raise NoetlError(f"{summary.execution_id} is over: it is {summary.status}")
        if event == "execution.cancelled" and (refusal := explain_cancel_refusal(state_at(log, summary.execution_id))):
            raise NoetlError(f"{summary.execution_id}: {refusal}")
        done = None if summary.is_attended else asyncio.run(_record_directly(log, summary, request, event))
        by, seq = done or _post_and_wait(log, summary, request, event)
        asyncio.run(record(log, f"execution.{_VERBS[event]}", f"{summary.execution_id} {summary.path}"))
        now = log.summary(summary.execution_id) or summary
        more = list(remarks(log, state_at(log, now.execution_id, upto=seq))) if remarks is not None and seq else []
    if as_data:
        out(as_json({"execution_id": now.execution_id, "status": now.status, "event": event, "seq": seq, "by": by}))
    else:
        note(_describe_outcome(now, event, by, seq))
        for line in more:
            note(f"  {line}")
    return 0


def _describe_outcome(now: Summary, event: str, by: str, seq: int | None) -> str:
    if by == "itself":
        who = runner(now) or "the process that runs it"
        return f"{now.execution_id}: {event} recorded as event {seq}, by {who}; it is {now.status}"
    if by == "nobody":
        return f"{now.execution_id}: nothing to do; it is {describe_status(now)} already"
    if by == "left":
        who = "server that wakes it" if now.dormant else "process that runs it"
        return f"{now.execution_id}: left for the {who}, which has not answered yet"
    standing = f"it is {now.status}" if now.status in OVER else resume_hint(now)
    return f"{now.execution_id}: {event} recorded as event {seq}; {standing}"


def _post_and_wait(log: EventLog, summary: Summary, request: Posted, event: str) -> tuple[str, int | None]:
    """Leave the request in the log's inbox, and wait until the log shows what came of it."""
    from noetl.model.requests import encode_request

    # A pause of what is paused leaves no trace to wait for.
    if (event, summary.status) == ("execution.paused", "paused"):
        return "nobody", None
    if event == "execution.resumed" and summary.status not in HALTED:
        return "nobody", None
    _check_signal(log, summary, request)
    log.post(summary.execution_id, encode_request(request))
    after, end = summary.seq, time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        for one in log.read(summary.execution_id, after=after):
            after = one.seq
            if one.name == event:
                return "itself", one.seq
        time.sleep(_POLL)
    _check_signal(log, summary, request)
    return "left", None


def _check_signal(log: EventLog, summary: Summary, request: Posted) -> None:
    """SignalRefused: the process that runs the execution takes the signal for none of its waits. A server says so itself."""
    from noetl.engine import explain_refusal
    from noetl.history import state_at
    from noetl.model.requests import Signal

    if isinstance(request, Signal) and log.me:
        refused = explain_refusal(state_at(log, summary.execution_id), request)
        if refused is not None:
            raise SignalRefused(refused)


async def _record_directly(
    log: EventLog, summary: Summary, request: Posted, event: str
) -> tuple[str, int | None] | None:
    """Nobody runs it: become its owner for a moment, and record what follows. None: somebody does by now."""
    from noetl.model.requests import Cancel, encode_request
    from noetl.server.core import apply_request

    if not await log.claim(summary.execution_id):
        return None
    net = net_of(log, summary)
    if net is None:
        raise NoetlError(f"the playbook of {summary.execution_id} is not there any more, or cannot be read")
    children = await apply_request(
        log, summary.execution_id, net, request, catalog(), clock=time.time, new_id=lambda: str(uuid.uuid4())
    )
    for name in children:
        child = log.summary(name)
        if child is not None and child.status not in OVER:
            cancel = Cancel("its parent was cancelled")
            if await _record_directly(log, child, cancel, event) is None:  # somebody runs it for itself
                log.post(name, encode_request(cancel))
    recorded = [one.seq for one in log.read(summary.execution_id, after=summary.seq) if one.name == event]
    return ("this process", recorded[0]) if recorded else ("nobody", None)
