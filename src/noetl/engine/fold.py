"""apply(state, event): the only code that changes the state of an execution.

A table from event names to functions. Live and in replay the same events pass through here, so what a run looks like
never depends on who looks. A decision is taken once, in the other modules of this package, and recorded; here it
only takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from noetl.engine import fold_step_events as runs
from noetl.model.events import Event, epoch_seconds
from noetl.model.scope import scope_writes, set_paths, writes_of
from noetl.model.state import Execution, StepBoundary, parse_label, pipeline_runs


def apply(state: Execution, event: Event) -> None:
    """Let an event take effect."""
    state.seq = event.seq
    state.timestamp = event.timestamp
    APPLY[event.name](state, event)


def replay(execution_id: str, events: list[Event]) -> Execution:
    """The state that a log yields."""
    state = Execution(execution_id)
    for event in events:
        apply(state, event)
    return state


# --- the execution as a whole ------------------------------------------------------------------------------------------


def _apply_requested(state: Execution, event: Event) -> None:
    payload = event.payload
    state.path = event.entity_id
    state.playbook = payload["playbook"]
    state.workload = payload["workload"]
    state.entry_step = payload.get("entry_step")
    state.return_step = payload.get("return_step")
    state.parent = payload.get("parent")
    state.depth = payload.get("depth", 0)
    state.restrict = payload.get("restrict", {})
    state.calls = payload.get("calls", {})
    state.file = payload.get("file")
    state.origin = payload.get("rerun")


def _apply_evaluated(state: Execution, event: Event) -> None:
    state.error = event.payload.get("error")


def _apply_started(state: Execution, event: Event) -> None:
    state.status = "running"
    state.started = epoch_seconds(event.timestamp)


def _apply_paused(state: Execution, event: Event) -> None:
    state.paused_by.append(event.payload.get("by", "request"))
    _mark_handled(state, event)


def _apply_resumed(state: Execution, event: Event) -> None:
    # Who asks for one run to go on means it; a parent takes back no more than its own wish.
    by = event.payload.get("by")
    state.stuck = None if by is None else state.stuck
    state.paused_by = [one for one in state.paused_by if by is not None and one != by]
    _mark_handled(state, event)


def _apply_stuck(state: Execution, event: Event) -> None:
    state.stuck = event.payload["reason"]


def _mark_handled(state: Execution, event: Event) -> None:
    state.handled = max(state.handled, event.payload.get("request", 0))


def _apply_cancelled(state: Execution, event: Event) -> None:
    state.terminated = "cancelled"
    state.stuck = None
    _mark_handled(state, event)
    state.error = {"kind": "cancelled", "message": event.payload["why"], "step": None}


def _apply_forked(state: Execution, event: Event) -> None:
    """The time between the run that is gone on with and this one does not count: what was due moves by it."""
    pause = event.payload["pause"]
    state.started += pause
    for run in state.runs.values():
        run.due = run.due + pause if run.due is not None else None
        for _, pipe in pipeline_runs(run):
            wait = pipe.wait if pipe is not None else None
            if wait is not None and wait.until is not None and not wait.fixed:
                wait.until += pause
    for info in state.steps.values():
        if info.status in ("scheduled", "running") and info.started_at is not None:
            moved = datetime.fromisoformat(info.started_at) + timedelta(seconds=pause)
            info.started_at = moved.isoformat(timespec="microseconds")


def _apply_finished(state: Execution, event: Event) -> None:
    payload = event.payload
    state.output = payload["output"]
    state.error = payload["error"]
    state.stalled = payload["stalled"]
    state.boundaries.clear()
    state.bringer = None


def _apply_processed(state: Execution, event: Event) -> None:
    state.status = event.payload["status"]


def _apply_patched(state: Execution, event: Event) -> None:
    run = state.runs.get(event.step_run_id or "")
    if run is None:  # it has ended: nobody else sees what it wrote
        state.ctx = set_paths(state.ctx, scope_writes(event.payload["set"], "ctx"))
        return
    for scope, path, value in writes_of(event.payload["set"]):
        runs.write(state, run, parse_label(event.iteration), scope, path, value)


def _apply_signal(state: Execution, event: Event) -> None:
    _mark_handled(state, event)
    payload = event.payload
    runs.deliver_signal(state, payload["signal"], payload["data"], payload.get("by"), taker=payload.get("taker", 0))


# --- routing ---------------------------------------------------------------------------------------------------------


def _apply_routed(state: Execution, event: Event) -> None:
    payload = event.payload
    if event.step_run_id is None:  # whether a token is admitted could not be decided
        state.failure = state.failure or payload["error"]
        return
    bringer = next(one for one in state.boundaries if one.step_run_id == event.step_run_id)
    state.boundaries.remove(bringer)
    # Tokens carry the event that was offered, which of a loop is another than the one that ended it.
    state.bringer = replace(bringer, name=payload["event"])
    state.ctx = set_paths(state.ctx, scope_writes(payload.get("set", {}), "ctx"))
    if event.step_run_id != state.final_run:
        _set_output(state, bringer, leaf="terminate" in payload or not any(arc["taken"] for arc in payload["arcs"]))
    if payload.get("error") or payload.get("unrouted"):
        error = payload.get("error") or bringer.output["error"]
        state.failure = state.failure or {**error, "step": bringer.step}
    if payload.get("unmatched"):
        state.unmatched[bringer.step] = state.unmatched.get(bringer.step, 0) + 1
    if payload.get("terminate"):
        state.terminated = payload["terminate"]


def _set_output(state: Execution, ended: StepBoundary, *, leaf: bool) -> None:
    """The execution's output is that of `end`, or of the step it was asked for, or of the last leaf."""
    final = ended.step == (state.return_step or "end")
    if final or (leaf and not state.output_final and ended.name == "step.done"):
        external = ended.output.get("external")
        state.output_ref = ended.output["ref"] if external else None
        state.output = {"ref": state.output_ref} if external else ended.output["data"]
        state.output_final = state.output_final or final


def _apply_synthesized(state: Execution, event: Event) -> None:
    state.synthesized.append(event.payload)
    planner = next(one for one in state.boundaries if one.step_run_id == event.step_run_id)
    planner.planned = event.payload["steps"][0]["step"]


APPLY: dict[str, Callable[[Execution, Event], None]] = {
    "playbook.execution.requested": _apply_requested,
    "playbook.request.evaluated": _apply_evaluated,
    "workflow.started": _apply_started,
    "step.scheduled": runs.apply_scheduled,
    "step.parked": runs.apply_parked,
    "step.skipped": runs.apply_skipped,
    "step.started": runs.apply_step_started,
    "step.done": runs.apply_step_ended,
    "step.failed": runs.apply_step_ended,
    "step.cancelled": runs.apply_step_cancelled,
    "step.closing": runs.apply_closing,
    "step.closed": runs.apply_closed,
    "step.compensating": runs.apply_compensating,
    "step.compensated": runs.apply_compensated,
    "step.compensation.failed": runs.apply_compensated,
    "task.started": runs.apply_task_started,
    "task.progress": runs.apply_task_progress,
    "task.done": runs.apply_task_done,
    "loop.started": runs.apply_loop_started,
    "loop.iteration.started": runs.apply_iteration_started,
    "loop.iteration.done": runs.apply_iteration_ended,
    "loop.iteration.failed": runs.apply_iteration_ended,
    "loop.done": runs.apply_loop_done,
    "next.evaluated": _apply_routed,
    "ctx.patched": _apply_patched,
    "workflow.synthesized": _apply_synthesized,
    "signal.received": _apply_signal,
    "execution.paused": _apply_paused,
    "execution.stuck": _apply_stuck,
    "execution.resumed": _apply_resumed,
    "execution.cancelled": _apply_cancelled,
    "execution.forked": _apply_forked,
    "workflow.finished": _apply_finished,
    "playbook.processed": _apply_processed,
}
