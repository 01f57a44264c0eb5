"""The invariants of a recorded execution, checked by going through its log once more.

What the store itself promises (no
gap, no changed byte) is for the store to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.engine import apply
from noetl.history.fsck_rules import RULES, ConsistencyRule
from noetl.history.past import events_of, read_snapshot, status_of
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.ports import EventLog, Summary


class FsckProblem(msgspec.Struct, frozen=True):
    """Something that must not be."""

    #: the name of the rule that is broken
    kind: str
    message: str
    execution_id: str
    #: the event at which it shows
    seq: int


def check_log(
    log: EventLog, summary: Summary, net: Net | None, more: Iterable[ConsistencyRule] = ()
) -> Iterator[FsckProblem]:
    """Everything that is wrong with an execution, as far as its events and `more` rules tell."""
    execution_id = summary.execution_id
    state = Execution(execution_id)
    rules = [*(make(net) for make in RULES), *more]
    snapshots = _snapshots(log, execution_id)
    for event in events_of(log, execution_id):
        for rule in rules:
            for message in rule.check_event(event):
                yield FsckProblem(rule.name, message, execution_id, event.seq)
        try:
            apply(state, event)
        except Exception as error:  # noqa: BLE001  whatever a damaged log does to the fold is what is to be told
            yield FsckProblem("replay", f"{event.name} makes no sense here: {error!r}", execution_id, event.seq)
            return
        if event.seq in snapshots:
            yield from _compare(log, execution_id, event.seq, state)
    yield from _check_whole(log, summary, state)


def _snapshots(log: EventLog, execution_id: str) -> set[int]:
    """Where snapshots were taken."""
    found: set[int] = set()
    one = log.snapshot(execution_id)
    while one is not None:
        found.add(one[0])
        one = log.snapshot(execution_id, upto=one[0] - 1)
    return found


def _compare(log: EventLog, execution_id: str, seq: int, state: Execution) -> Iterator[FsckProblem]:
    found = log.snapshot(execution_id, upto=seq)
    assert found is not None
    try:
        kept = read_snapshot(found[1])
    except msgspec.DecodeError as error:
        yield FsckProblem("snapshot", f"it cannot be read: {error}", execution_id, seq)
        return
    if msgspec.to_builtins(kept) != msgspec.to_builtins(state):
        differing = [
            name for name in Execution.__struct_fields__
            if msgspec.to_builtins(getattr(kept, name)) != msgspec.to_builtins(getattr(state, name))
        ]  # fmt: skip
        yield FsckProblem(
            "snapshot", f"the events yield another state: {', '.join(differing)} differ", execution_id, seq
        )


def _check_whole(log: EventLog, summary: Summary, state: Execution) -> Iterator[FsckProblem]:
    def problem(kind: str, message: str) -> FsckProblem:
        return FsckProblem(kind, message, summary.execution_id, state.seq)

    # A run that goes on meanwhile is ahead of the summary that was read before it.
    if state.seq == summary.seq and summary.status != status_of(state):
        yield problem("summary", f"the summary says {summary.status}, the events say {status_of(state)}")
    if state.over:
        yield from (problem("finish", message) for message in _find_leftovers(log, state))


def _find_leftovers(log: EventLog, state: Execution) -> Iterator[str]:
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
