"""noetl pause: start nothing new in an execution."""

from __future__ import annotations

import click

from noetl.cli.executions import execution_argument, json_option


@click.command()
@execution_argument()
@json_option
def command(*, execution: str, as_data: bool) -> int:
    """Pause an execution: what runs is let finish, nothing new starts until `noetl unpause`.

    It may be run by another process, or by none any more.
    """
    from noetl.cli.commands.runs.control import act
    from noetl.model.requests import Pause

    return act(execution, Pause(), "execution.paused", as_data=as_data)
