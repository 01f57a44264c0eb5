"""Following an execution: what is in the log, and with --follow what comes until it is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.ports import EventLog, Summary

#: how often the log is looked at, in seconds
_POLL = 0.1

follow_option = click.option(
    "-f", "--follow", "follow_on", is_flag=True, help="Go on printing until the execution is over."
)


def follow(log: EventLog, summary: Summary, tell: Callable[[], bool], *, go_on: bool) -> None:
    """Tell what there is; with `go_on` again and again. `tell` says whether there was something to tell."""
    tell()
    while go_on:
        sys.stdout.flush()
        now = log.summary(summary.execution_id)
        told = tell()
        if not told and (now is None or now.status in OVER or not now.alive):
            return
        if not told:
            time.sleep(_POLL)
