"""noetl signal: tell an execution something that it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import execution_argument, json_option
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.model.state import Execution
    from noetl.ports import EventLog


#: waits that are told of
_SHOWN = 5


@click.command()
@execution_argument()
@click.argument("name", metavar="NAME")
@click.argument("data", metavar="[JSON]", required=False)
@json_option
def command(*, execution: str, name: str, data: str | None, as_data: bool) -> int:
    """Send a signal to an execution, for the `kind: wait` task that waits for NAME now or later.

    JSON is what the signal carries; it becomes the output of that task. `noetl show ID` says what is waited for.
    """
    from noetl.cli.commands.runs.control import act
    from noetl.cli.files import is_unicode
    from noetl.model.requests import Signal

    if not is_unicode(name):
        raise UsageError(f"{name!a}: the name of a signal is UTF-8 text")
    signal = Signal(name, _parse_data(data))
    return act(execution, signal, "signal.received", as_data=as_data, remarks=partial(_remarks, name))


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
