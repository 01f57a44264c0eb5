"""noetl unpause: let a paused execution go on."""

from __future__ import annotations

import click

from noetl.cli.executions import execution_argument, json_option


@click.command()
@execution_argument()
@json_option
def command(*, execution: str, as_data: bool) -> int:
    """Let an execution that is paused go on.

    When no process runs it any more, `noetl resume` has to follow.
    """
    from noetl.cli.commands.runs.control import act
    from noetl.model.requests import Resume

    return act(execution, Resume(), "execution.resumed", as_data=as_data)
