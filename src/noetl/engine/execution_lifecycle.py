"""How an execution starts and how it ends: opened or refused; and over when nothing can move any more, or an arc or a request ends it."""

from __future__ import annotations

from typing import Any

from noetl.engine import admission, routing, step_end, step_start
from noetl.engine.decision import DecisionBuilder
from noetl.engine.pipeline_order import order_pipeline
from noetl.model.output import failed, failure, ok
from noetl.model.requests import OpenExecution
from noetl.model.scope import merge_maps
from noetl.model.state import BEGINNING, Token, UndoRecord


def open_execution(builder: DecisionBuilder, request: OpenExecution) -> None:
    """Record a request, and start the workflow unless something forbids it."""
    playbook = builder.net_index.net.playbook
    payload: dict[str, Any] = {
        "workload": merge_maps(playbook.workload, request.payload),
        "playbook": request.playbook,
        "name": playbook.name,
    }
    for key in ("entry_step", "return_step", "parent", "depth", "file", "rerun", "restrict", "calls", "asked"):
        if getattr(request, key):
            payload[key] = getattr(request, key)
    builder.emit("playbook.execution.requested", playbook.path, payload)
    problem = request.problem or _find_problem(builder, request)
    if problem is not None:
        refuse(builder, problem)
        return
    builder.emit("playbook.request.evaluated", playbook.path, {}, parent=builder.last)
    start = request.entry_step or builder.net_index.net.start
    builder.emit("workflow.started", playbook.path, {"step": start}, parent=builder.last)
    routing.arrive(builder, start, Token(None, BEGINNING))


def _find_problem(builder: DecisionBuilder, request: OpenExecution) -> dict[str, Any] | None:
    if request.depth > builder.net_index.max_depth:
        limit = builder.net_index.max_depth
        return failure("limit", f"playbooks call each other more than {limit} deep (`limits.max_depth`)")
    final = builder.net_index.net.playbook.final_step
    for name in (request.entry_step, request.return_step):
        if name is not None and name not in builder.net_index.steps:
            return failure("playbook", f"playbook `{builder.state.path}` has no step `{name}`")
        if name is not None and name == final:
            what = "`entry_step`" if name == request.entry_step else "`return_step`"
            text = f"step `{name}` of playbook `{builder.state.path}` is its executor's `finally` step, which runs last"
            return failure("playbook", f"{text}: it cannot be the {what}")
    schema = builder.net_index.net.playbook.metadata.get("schema")
    return None if schema is None else _check_workload(builder, schema)


def _check_workload(builder: DecisionBuilder, schema: Any) -> dict[str, Any] | None:
    from noetl.lang import workload_violations

    wrong = workload_violations(builder.state.workload, schema)
    if not wrong:
        return None
    return failure("payload-schema", "; ".join(f"{one.name}: {one.said}" for one in wrong[:10]))


def end_if_over(builder: DecisionBuilder) -> bool:
    """End the execution when there is nothing left to do for it; true: the last that was left has begun, and may be over."""
    state = builder.state
    if state.over or state.status != "running":
        return False
    if state.terminated is not None and not state.ending:
        _end_all(builder, f"the execution was {'cancelled' if state.terminated == 'cancelled' else 'ended by an arc'}")
    if state.runs or (state.boundaries and state.terminated is None):
        return False
    if state.terminated is None:
        _drop_parked(builder)
    if (builder.net_index.has_afterwork or state.undo) and (state.stopped_children or _begin_afterwork(builder)):
        return not state.runs and not state.stopped_children and not state.paused
    _finish(builder, *_outcome(builder))
    return False


def _begin_afterwork(builder: DecisionBuilder) -> bool:
    """Begin with what follows the last step: the next compensation, or the executor's `finally` step; false: nothing does."""
    state = builder.state
    status, error = _outcome(builder)
    final = builder.net_index.net.playbook.final_step
    undoes = bool(state.undo) and status != "completed" and state.final_run is None
    if not undoes and (final is None or state.final_run is not None):
        return False
    if state.paused:
        return True
    if undoes:
        _undo(builder, state.undo[-1])
    elif final is not None:
        event = _final_event(builder, status, error)
        step_start.schedule(
            builder, builder.net_index.steps[final], admission.Firing(Token(None, event), []), final=event
        )
    return True


def _undo(builder: DecisionBuilder, record: UndoRecord) -> None:
    """Start the compensation of a run."""
    payload = {"run": record.step_run_id, "seq": record.seq}
    builder.emit(
        "step.compensating",
        record.step,
        payload,
        parent=record.seq,
        run=record.undo_run_id,
        iteration=record.iteration,
    )
    run = builder.state.runs[record.undo_run_id]
    if builder.net_index.steps[record.step].compensation is None:
        gone = "the playbook has no compensation of this step any more"
        step_end.end(builder, run, failed(failure("not-resumable", gone)))
    else:
        order_pipeline(builder, run, (), run.pipe)


def _final_event(builder: DecisionBuilder, status: str, error: dict[str, Any] | None) -> dict[str, Any]:
    """How the execution ends, as the step that runs last sees it."""
    state = builder.state
    output = {**(ok(state.output) if error is None else failed(error)), "ref": state.output_ref}
    step = error.get("step") if error is not None else None
    return {"name": "workflow.finished", "status": status, "step": step, "error": error, "output": output}


def _outcome(builder: DecisionBuilder) -> tuple[str, dict[str, Any] | None]:
    """How the execution ends: its status, and its error. A last step that fails makes a completed one failed."""
    state = builder.state
    error = state.failure or _stall(builder)
    status = state.terminated or ("failed" if error is not None else "completed")
    final = state.steps.get(builder.net_index.net.playbook.final_step or "")
    if status == "completed" and final is not None and final.status == "failed":
        return "failed", {**(final.error or {}), "step": builder.net_index.net.playbook.final_step}
    return status, error or _error(builder, status)


def _stall(builder: DecisionBuilder) -> dict[str, Any] | None:
    """The error of an execution that may not stall and did."""
    stalled = builder.state.stalled
    if not stalled or not builder.net_index.net.playbook.fails_when_stalled:
        return None
    message = f"nothing can move any more, and tokens are left at {', '.join(stalled)} (`policy.stalled: fail`)"
    return {**failure("stalled", message), "step": stalled[0]}


def _error(builder: DecisionBuilder, status: str) -> dict[str, Any] | None:
    bringer = builder.state.bringer
    if status != "failed":
        return builder.state.error if status == "cancelled" else None
    error = {
        "kind": "fail",
        "message": "an arc ended the execution as failed",
        "step": bringer.step if bringer else None,
    }
    cause = _cause(builder)
    if cause is None:
        return error
    why = f"step {cause['step']} failed: {cause['kind']}: {cause['message']}"
    return {**error, "message": f"{error['message']}; {why}", "cause": cause}


def _cause(builder: DecisionBuilder) -> dict[str, Any] | None:
    """The error of the step that failed last, of those whose latest run did."""
    failed = [(name, info) for name, info in builder.state.steps.items() if info.error is not None]
    if not failed:
        return None
    name, info = max(failed, key=lambda one: one[1].finished_at or "")
    return {**(info.error or {}), "step": name}


def _finish(builder: DecisionBuilder, status: str, error: dict[str, Any] | None) -> None:
    state = builder.state
    payload = {
        "status": status,
        "output": state.output,
        "error": error,
        "stalled": list(state.stalled),
        "unmatched": list(state.unmatched),
    }
    good = "success" if status == "completed" else "error"
    event = builder.emit("workflow.finished", state.path, payload, parent=builder.last, status=good)
    builder.emit("playbook.processed", state.path, {"status": status}, parent=event.seq, status=good)


def refuse(builder: DecisionBuilder, error: dict[str, Any]) -> None:
    """End an execution that never started."""
    state = builder.state
    state_error = {**error, "step": None}
    builder.emit(
        "playbook.request.evaluated", state.path, {"error": state_error}, parent=builder.last, status="error"
    )  # fmt: skip
    builder.emit("playbook.processed", state.path, {"status": "failed"}, parent=builder.last, status="error")


def _end_all(builder: DecisionBuilder, why: str) -> None:
    for run in list(builder.state.runs.values()):
        step_end.cancel_run(builder, run, why)
    for name in builder.state.steps_with_tokens():
        builder.emit("step.cancelled", name, {"why": why}, parent=builder.last)


def _drop_parked(builder: DecisionBuilder) -> None:
    held = builder.state.steps_with_tokens()
    # Asked before the first token is dropped: afterwards the others would see another state.
    answers = {name: admission.last_answers(builder, builder.net_index.steps[name]) for name in held}
    for name in held:
        payload: dict[str, Any] = {"from": None, "why": "stalled", "held": _token_sources(builder, name)}
        if answers[name]:
            payload["saw"] = answers[name]
        builder.emit("step.skipped", name, payload, parent=builder.last)


def _token_sources(builder: DecisionBuilder, name: str) -> list[str | None]:
    """Where the tokens came from that are left at a step."""
    state = builder.state
    if name in state.parked:
        return [token.source for token in state.parked[name]]
    return [source for source, tokens in state.rounds[name].places.items() for _ in tokens]
