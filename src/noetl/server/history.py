"""The past of an execution: its state at any event, without anything that could change it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.engine.fold import apply
from noetl.model.events import Event
from noetl.model.state import Execution
from noetl.ports import EventLog

#: how many events are in memory at once while a log is gone through
PAGE = 10_000
#: what snapshots begin with; to be changed with what they hold
_FORMAT = b"noetl state 2\n"


def state_at(log: EventLog, execution_id: str, *, upto: int | None = None) -> Execution:
    """The state that the log yields, at its end or at an earlier event."""
    state = _begun(log, execution_id, upto)
    limit = None if upto is None else upto - state.seq
    for event in log.read(execution_id, after=state.seq, limit=limit):
        apply(state, event)
    return state


def _begun(log: EventLog, execution_id: str, upto: int | None) -> Execution:
    found = log.snapshot(execution_id, upto=upto)
    try:
        return Execution(execution_id) if found is None else read_snapshot(found[1])
    except msgspec.MsgspecError:  # damaged, or of another version: the events are the truth
        return Execution(execution_id)


def snapshot_of(state: Execution) -> bytes:
    """A state as it is kept beside the log. JSON, because its numbers may be of any size."""
    return _FORMAT + msgspec.json.encode(state)


def read_snapshot(body: bytes) -> Execution:
    """The state that a snapshot holds; a MsgspecError where it is damaged, or of another version."""
    if not body.startswith(_FORMAT):
        raise msgspec.DecodeError("a snapshot of another version")
    return msgspec.json.decode(body[len(_FORMAT) :], type=Execution)


def events_of(log: EventLog, execution_id: str, *, after: int = 0) -> Iterator[Event]:
    """All events, page by page: a log may be larger than the memory."""
    while page := log.read(execution_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq
