"""The invariants of a recorded execution, checked by going through its log once more.

What the store itself promises (no
gap, no changed byte) is for the store to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.engine.fold import apply
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.ports import EventLog, Summary
from noetl.server.history import events_of, read_snapshot, shown_status
from noetl.server.rules import RULES, Rule


class Problem(msgspec.Struct, frozen=True):
    """Something that must not be."""

    #: the name of the rule that is broken
    kind: str
    message: str
    execution_id: str
    #: the event at which it shows
    seq: int


def check(log: EventLog, summary: Summary, net: Net | None, more: Iterable[Rule] = ()) -> Iterator[Problem]:
    """Everything that is wrong with an execution, as far as its events and `more` rules tell."""
    execution_id = summary.execution_id
    state = Execution(execution_id)
    rules = [*(make(net) for make in RULES), *more]
    snapshots = _snapshots(log, execution_id)
    for event in events_of(log, execution_id):
        for rule in rules:
            for message in rule.see(event):
                yield Problem(rule.name, message, execution_id, event.seq)
        try:
            apply(state, event)
        except Exception as error:  # noqa: BLE001  whatever a damaged log does to the fold is what is to be told
            yield Problem("replay", f"{event.name} makes no sense here: {error!r}", execution_id, event.seq)
            return
        if event.seq in snapshots:
            yield from _compare(log, execution_id, event.seq, state)
    yield from _as_a_whole(log, summary, state)


def _snapshots(log: EventLog, execution_id: str) -> set[int]:
    """Where snapshots were taken."""
    found: set[int] = set()
    one = log.snapshot(execution_id)
    while one is not None:
        found.add(one[0])
        one = log.snapshot(execution_id, upto=one[0] - 1)
    return found


def _compare(log: EventLog, execution_id: str, seq: int, state: Execution) -> Iterator[Problem]:
    found = log.snapshot(execution_id, upto=seq)
    assert found is not None
    try:
        kept = read_snapshot(found[1])
    except msgspec.DecodeError as error:
        yield Problem("snapshot", f"it cannot be read: {error}", execution_id, seq)
        return
    if msgspec.to_builtins(kept) != msgspec.to_builtins(state):
        differing = [
            name for name in Execution.__struct_fields__
            if msgspec.to_builtins(getattr(kept, name)) != msgspec.to_builtins(getattr(state, name))
        ]  # fmt: skip
        yield Problem("snapshot", f"the events yield another state: {', '.join(differing)} differ", execution_id, seq)


def _as_a_whole(log: EventLog, summary: Summary, state: Execution) -> Iterator[Problem]:
    def problem(kind: str, message: str) -> Problem:
        return Problem(kind, message, summary.execution_id, state.seq)

    # A run that goes on meanwhile is ahead of the summary that was read before it.
    if state.seq == summary.seq and summary.status != shown_status(state):
        yield problem("summary", f"the summary says {summary.status}, the events say {shown_status(state)}")
    if state.over:
        yield from (problem("finish", message) for message in _left_over(log, state))


def _left_over(log: EventLog, state: Execution) -> Iterator[str]:
    """What is still there though the execution is over."""
    for run in state.runs.values():
        yield f"it is over, but {run.id} still runs"
    for ended in state.boundaries:
        yield f"it is over, but the arcs of {ended.step_run_id} were never judged"
    held = [name for name, entry in state.rounds.items() if any(entry.places.values())]
    for name in dict.fromkeys([*state.parked, *held]):
        yield f"it is over, but tokens are still parked at {name}"
    if state.status == "completed" and state.failure is not None:
        yield "it is completed, but a failure was not routed"
    for child in log.summaries(limit=100, unfinished=True, parent=state.execution_id):
        yield f"it is over, but its child {child.execution_id} is {child.status}"
