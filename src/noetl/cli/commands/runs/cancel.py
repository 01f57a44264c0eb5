"""noetl cancel: end an execution."""

from __future__ import annotations

import click

from noetl.cli.executions import execution_argument, json_option


@click.command()
@execution_argument()
@click.option("--why", default="it was cancelled", show_default=True, help="The reason, for the record.")
@json_option
def command(*, execution: str, why: str, as_data: bool) -> int:
    """End an execution: everything that runs is stopped, nothing new starts. This is final.

    It may be run by another process, or by none any more.
    """
    from noetl.cli.commands.runs.control import act
    from noetl.model.requests import Cancel

    return act(execution, Cancel(why), "execution.cancelled", as_data=as_data)
