"""What a log says of one execution: its events, its state at any event, its status and outputs. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.engine import apply
from noetl.model.events import Event
from noetl.model.output import Output, ok
from noetl.model.state import Execution, StepInfo
from noetl.ports import EventLog, PlaybookSource

# The one document of a run: what `noetl run --json` prints, and the API answers.


def run_document(state: Execution) -> dict[str, Any]:
    """An execution as programs are told of it."""
    steps = {name: _step_document(info) for name, info in state.steps.items() if info.status != ""}
    return {
        "execution_id": state.execution_id,
        "status": "stuck" if state.stuck is not None and not state.over else state.status,
        "output": state.output,
        "ctx": state.ctx,
        "error": state.error,
        "steps": steps,
        "stalled": state.stalled,
        "unmatched": list(state.unmatched),
        "duration_ms": int(state.duration * 1000),
    }


def _step_document(info: StepInfo) -> dict[str, Any]:
    told = {"status": info.status, "runs": info.runs}
    undone = {"undone": info.undone, "compensations_failed": info.undo_failed}
    return {**told, **{key: value for key, value in undone.items() if value}}


#: how many events are in memory at once while a log is gone through
EVENTS_PER_PAGE = 10_000
#: what snapshots begin with; to be changed with what they hold
_FORMAT = b"noetl state 2\n"
#: how many events are read at once on the way back through a pipeline: at first, and at most where all are its own
_STEP, _LONGEST_STEP = 8, 1024


def state_at(log: EventLog, execution_id: str, *, upto: int | None = None) -> Execution:
    """The state that the log yields, at its end or at an earlier event."""
    state = _initial_state(log, execution_id, upto)
    limit = None if upto is None else upto - state.seq
    for event in log.read(execution_id, after=state.seq, limit=limit):
        apply(state, event)
    return state


def source_of(log: EventLog, state: Execution) -> PlaybookSource | None:
    """The playbook of an execution, with the file that this execution was started from."""
    found = log.source(state.playbook)
    return found if found is None or not state.file else msgspec.structs.replace(found, file=state.file)


def _initial_state(log: EventLog, execution_id: str, upto: int | None) -> Execution:
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
    while page := log.read(execution_id, after=after, limit=EVENTS_PER_PAGE):
        yield from page
        after = page[-1].seq


def read_pipeline_events(log: EventLog, execution_id: str, since: int, last: int) -> list[Event] | None:
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


def explain_cancel_refusal(state: Execution) -> str | None:
    """Why an execution cannot be cancelled now; None: it can."""
    if state.undoing is not None or (state.ending and state.undo and state.final_run is None):
        return (
            "its compensations are running, which cannot be cancelled: "
            f"`noetl pause {state.execution_id}` holds those that have not begun"
        )
    if state.ending:
        return "how it ends is decided: its executor's `finally` step is running"
    return "it is ending already: `finally` tasks of its steps are running" if state.terminated is not None else None


# What a step or an execution yielded, found in the log.


def output_of(log: EventLog, execution_id: str) -> Output | None:
    """The output of an execution that is over; None: it is not, or it failed."""
    state = state_at(log, execution_id)
    if state.status != "completed":
        return None
    if state.output_ref is not None:
        return {**ok(), "ref": state.output_ref, "external": True}
    return ok(state.output)


def output_of_step(log: EventLog, execution_id: str, step: str, iteration: str | None = None) -> Output | None:
    """The output of a step's latest run that ended well, or of one iteration of it; None: there is none."""
    found: Output | None = None
    for event in events_of(log, execution_id):
        if event.entity_id != step:
            continue
        if iteration is None and event.name == "step.done":
            found = event.payload["output"]
        elif event.name == "loop.iteration.done" and str(event.iteration) == iteration:
            found = _of_iteration(event.payload)
    return found


def _of_iteration(payload: dict[str, Any]) -> Output:
    ref = payload.get("ref")
    return {**ok(payload.get("data")), "ref": ref} | ({"external": True} if ref is not None else {})
