"""noetl signal: tell an execution something that it waits for."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli.executions import execution_argument, json_option
from noetl.errors import UsageError


@click.command()
@execution_argument()
@click.argument("name", metavar="NAME")
@click.argument("data", metavar="[JSON]", required=False)
@json_option
def command(*, execution: str, name: str, data: str | None, as_data: bool) -> int:
    """Send a signal to an execution, for the `kind: wait` task that waits for NAME now or later.

    JSON is what the signal carries; it becomes the output of that task. `noetl show ID` says what is waited for.
    """
    from noetl.cli.control import act
    from noetl.cli.files import is_unicode
    from noetl.model.requests import Signal

    if not is_unicode(name):
        raise UsageError(f"{name!a}: the name of a signal is UTF-8 text")
    return act(execution, Signal(name, _parsed(data)), "signal.received", as_data=as_data)


def _parsed(data: str | None) -> Any:
    from noetl.cli.payload import from_json

    if data is None:
        return None
    try:
        return from_json(data)
    except ValueError as error:
        raise UsageError(
            f'what a signal carries is JSON, such as \'{{"by": "ann"}}\' or \'"text"\' ({error})'
        ) from None
