"""The executions that an execution has started, and those started by them: what they wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from noetl.cli.telling import place, signal_hint, wait_words, waits
from noetl.ports import OVER

if TYPE_CHECKING:
    from noetl.model.state import Execution, Wait
    from noetl.ports import EventLog, Summary


class WaitBelow(NamedTuple):
    """Something that a descendant waits for."""

    execution_id: str
    path: str
    step: str
    wait: Wait


def waits_below(log: EventLog, state: Execution) -> Iterator[WaitBelow]:
    """What the children wait for that are waited for, down to the last."""
    from noetl.server.history import state_at

    for _, _, wait in waits(state):
        if wait.child is None or wait.answer is not None:
            continue
        summary = log.summary(wait.child["execution_id"])
        if summary is None or summary.status in OVER:
            continue
        child = state_at(log, summary.execution_id)
        for run, label, inner in waits(child):
            if inner.child is None:
                yield WaitBelow(child.execution_id, child.path, place(run.step, label), inner)
        yield from waits_below(log, child)


def waiting_below(log: EventLog, state: Execution, most: int = 20) -> str:
    """The same in words, a line each."""
    from itertools import islice

    found = list(islice(waits_below(log, state), most + 1))
    lines = [
        f"{one.path} ({one.execution_id}): {one.step} {wait_words(one.wait)}{signal_hint(one.execution_id, one.wait)}\n"
        for one in found[:most]
    ]
    return "".join([*lines, "… and more\n"] if len(found) > most else lines)


def descendants(log: EventLog, execution_id: str) -> list[Summary]:
    """All that it has started, directly or not, the oldest first."""
    found = list(reversed(log.summaries(limit=1_000_000, parent=execution_id)))
    return [one for child in found for one in (child, *descendants(log, child.execution_id))]
