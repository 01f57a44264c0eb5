"""Following an execution: what is in the log, and with --follow what comes until it is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from noetl.cli.executions import way_on
from noetl.cli.printing import note
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary

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
        elif not now.minded and gone:
            note(f"{now.execution_id}: {way_on(now)}")
            return 1
        else:
            # It may have ended well between the two things that were looked at: so look once more.
            gone = not now.minded
            time.sleep(_POLL)
    return 0
