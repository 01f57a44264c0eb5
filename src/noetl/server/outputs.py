"""What a step or an execution yielded, found in the log."""

from __future__ import annotations

from typing import Any

from noetl.model.output import Output, ok
from noetl.ports import EventLog
from noetl.server.history import events_of, state_at


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
