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
#: how many events are read at once on the way back through a pipeline: at first, and at most where all are its own
_STEP, _LONGEST_STEP = 8, 1024


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


def back_through(log: EventLog, execution_id: str, since: int, last: int) -> list[Event] | None:
    """What a pipeline has recorded behind the event that began it, up to its last; None: the log does not have it all.

    Each of its events is the cause of the next. So what many others recorded meanwhile is not read.
    """
    found: list[Event] = []
    at, step = last, _STEP
    while at > since:
        before, had = max(since, at - step), len(found)
        page = log.read(execution_id, after=before, limit=at - before)
        while at > before:
            event = page[at - before - 1] if len(page) >= at - before else None
            cause = int(event.parent_id.rpartition("-")[2]) if event is not None and event.parent_id else at
            if event is None or cause >= at:
                return None
            found.append(event)
            at = cause
        step = min(2 * step, _LONGEST_STEP) if 2 * (len(found) - had) >= step else _STEP
    return found[::-1] if at == since else None


def shown_status(state: Execution) -> str:
    """The status that lists show."""
    return "paused" if state.paused and not state.over else state.status
