"""noetl diff: two executions held against each other."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import execution_argument, find, json_option, opened_log, shown_status
from noetl.cli.files import near
from noetl.cli.printing import as_json, in_colour, out

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary
    from noetl.server.diff import Run


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
    from noetl.config import settings
    from noetl.results.contents import content_of
    from noetl.server.diff import difference
    from noetl.wiring import open_results

    store = open_results(settings())
    with opened_log() as log:
        found = difference(_run(log, find(log, one)), _run(log, find(log, other)), partial(content_of, store))
    if as_data:
        out(as_json(found))
        return
    from noetl.cli.diff_text import difference_text

    out(difference_text(found, colour=in_colour(sys.stdout)))


def _run(log: EventLog, summary: Summary) -> Run:
    from noetl.server.diff import Run
    from noetl.server.history import events_of, state_at

    source = log.source(summary.playbook)
    return Run(
        state_at(log, summary.execution_id),
        shown_status(summary),
        source.text if source is not None else None,
        near(source.file) if source is not None else summary.path,
        events_of(log, summary.execution_id),
    )
