"""noetl diff: two executions, compared."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import describe_status, execution_argument, find, json_option, open_command_log
from noetl.cli.files import near
from noetl.cli.output.printing import as_json, in_colour, out

if TYPE_CHECKING:
    from noetl.history import ComparedRun
    from noetl.ports import EventLog, Summary


@click.command()
@execution_argument("one", "ID1")
@execution_argument("other", "ID2")
@json_option
def command(*, one: str, other: str, as_data: bool) -> None:
    """Hold two executions against each other: how they ended, what they were given, where their ways part.

    The first step after which they went different ways stands with its guards and the values these saw on both sides. Then
    come the steps, with what differs in their outputs, `ctx`, and the playbooks where they are not the same. Of what lies in
    the result store the content is compared, not the place.
    """
    from noetl.app import open_results
    from noetl.config import settings
    from noetl.history import diff_executions
    from noetl.results import content_of

    store = open_results(settings())
    with open_command_log() as log:
        found = diff_executions(_run(log, find(log, one)), _run(log, find(log, other)), partial(content_of, store))
    if as_data:
        out(as_json(found))
        return
    from noetl.cli.output.diff_text import difference_text

    out(difference_text(found, colour=in_colour(sys.stdout)))


def _run(log: EventLog, summary: Summary) -> ComparedRun:
    from noetl.history import ComparedRun, events_of, source_of, state_at

    state = state_at(log, summary.execution_id)
    source = source_of(log, state)
    return ComparedRun(
        state,
        describe_status(summary),
        source.text if source is not None else None,
        near(source.file) if source is not None else summary.path,
        events_of(log, summary.execution_id),
    )
