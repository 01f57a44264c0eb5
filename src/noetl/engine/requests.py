"""What each request does to an execution: signals, timers, ends of children, denied slots, pause, resume and cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import loops, routing, step_end
from noetl.engine.decision import DecisionBuilder
from noetl.engine.fold_step_events import kept_signals
from noetl.engine.pipeline_order import order_pipeline, resume_pipeline
from noetl.lang import schema_problem
from noetl.model.orders import PauseChild, StopChild
from noetl.model.output import failed, failure, ok
from noetl.model.requests import (
    Cancel,
    ChildEnded,
    Denied,
    Due,
    Pause,
    PipelineFailed,
    Posted,
    Request,
    Resume,
    Signal,
)
from noetl.model.state import (
    Execution,
    Path,
    PipelineRun,
    StepRun,
    Wait,
    find_pipeline,
    label_of,
    parse_label,
    pipeline_runs,
)


def handle(builder: DecisionBuilder, request: Request) -> None:
    """Let a request take effect, if it has not done so before."""
    number = getattr(request, "number", 0)
    if number and number <= builder.state.handled:
        return
    HANDLERS[type(request)](builder, request)


# Signals: which wait takes one.


def find_refusal(wait: Wait, data: Any, by: str | None) -> str | None:
    """Why a wait does not take what a signal carries; None: it does. Who needed no token may answer any wait."""
    if wait.assignees is not None and by is not None and by not in wait.assignees:
        return f"the token `{by}` is not one of its `assignees`: {', '.join(wait.assignees)}"
    return None if wait.schema is None else schema_problem(data, wait.schema)


def find_taker(state: Execution, name: str, data: Any, by: str | None) -> tuple[int | None, str]:
    """The place of the first wait on a name that takes a signal; None: there is none, and why, if there are waits."""
    refused: list[str] = []
    for at, (run_id, path) in enumerate(state.listeners.get(name, ())):
        pipe = find_pipeline(state, run_id, path)
        assert pipe is not None
        assert pipe.wait is not None
        why = find_refusal(pipe.wait, data, by)
        if why is None:
            return at, ""
        label = label_of(path)
        where = state.runs[run_id].step if label is None else f"{state.runs[run_id].step}[{label}]"
        refused.append(f"step `{where}`: {why}")
    return None, "; ".join(refused)


def explain_refusal(state: Execution, request: Signal) -> str | None:
    """Why a signal cannot be sent to an execution as it stands; None: a wait takes it, or it is kept for one."""
    if state.stuck is not None:
        return f"the execution is stuck: {state.stuck}; `noetl unpause {state.execution_id}` tries once more"
    taker, why = find_taker(state, request.name, request.data, request.by)
    return f"the signal `{request.name}` was refused: {why}" if taker is None and why else None


def judge_kept_signals(state: Execution, wait: dict[str, Any]) -> dict[str, Any]:
    """What is recorded of the signals that were kept when a wait begins: whether it takes one, and those it drops."""
    if wait.get("transient") or not ("schema" in wait or "assignees" in wait):
        return {}
    asked = Wait("", schema=wait.get("schema"), assignees=wait.get("assignees"))
    dropped: list[dict[str, Any]] = []
    for data, by in kept_signals(state, wait["signal"]):
        why = find_refusal(asked, data, by)
        if why is None:
            return {"takes": True} | ({"dropped": dropped} if dropped else {})
        dropped.append({"data": data, "why": why})
    return {}


def _on_signal(builder: DecisionBuilder, request: Signal) -> None:
    state = builder.state
    refused = explain_refusal(state, request)
    if refused is not None:
        builder.refusals[id(request)] = refused
        return
    taker, _ = find_taker(state, request.name, request.data, request.by)
    taken = None if taker is None else state.listeners[request.name][taker]
    payload = {"signal": request.name, "data": request.data, **_request_number(request)}
    if request.by is not None:
        payload["by"] = request.by
    if taker:
        payload["taker"] = taker
    builder.emit("signal.received", state.path, payload, parent=builder.last)
    if taken is not None:
        resume_pipeline(builder, *taken)
    routing.reconsider_parked(builder)


def _on_cancel(builder: DecisionBuilder, request: Cancel) -> None:
    if builder.state.terminated is not None or builder.state.ending:
        return  # how it ends is decided
    builder.emit(
        "execution.cancelled", builder.state.path, {"why": request.why, **_request_number(request)}, parent=builder.last
    )


def _request_number(request: Posted) -> dict[str, Any]:
    return {"request": request.number} if request.number else {}


def _on_pause(builder: DecisionBuilder, request: Pause) -> None:
    by = _pause_origin(request)
    if by.get("by", "request") not in builder.state.paused_by:
        builder.emit("execution.paused", builder.state.path, _request_number(request) | by, parent=builder.last)
        _pause_children(builder, paused=True)


def _pause_origin(request: Pause | Resume) -> dict[str, str]:
    return {"by": "parent"} if request.with_parent else {}


def _pause_children(builder: DecisionBuilder, *, paused: bool) -> None:
    for run in builder.state.runs.values():
        for _, pipe in pipeline_runs(run):
            if pipe is not None and pipe.wait is not None and pipe.wait.child is not None:
                builder.orders.append(PauseChild(pipe.wait.child["execution_id"], paused))


def _on_resume(builder: DecisionBuilder, request: Resume) -> None:
    state = builder.state
    by = _pause_origin(request)
    if "parent" not in state.paused_by if request.with_parent else not state.paused:
        return
    builder.emit("execution.resumed", state.path, _request_number(request) | by, parent=builder.last)
    if state.paused:
        return
    _pause_children(builder, paused=False)
    _resume_pipelines(builder)
    for run in list(state.runs.values()):
        if run.loop is not None and not run.loop.gathering and run.closing is None:
            loops.advance_loops(builder, builder.net_index.steps[run.step], run)
    if not state.boundaries:  # what ended meanwhile is routed first, which looks at the parked tokens too
        routing.reconsider_parked(builder)


def _resume_pipelines(builder: DecisionBuilder) -> None:
    """Order the pipelines that stopped between two tasks to go on; those that never did take no notice."""
    for run in builder.state.runs.values():
        for path, pipe in pipeline_runs(run):
            if pipe is None or pipe.wait is None:
                order_pipeline(builder, run, path, pipe)


def _on_due(builder: DecisionBuilder, _request: Due) -> None:
    for run in list(builder.state.runs.values()):
        if run.due is not None and run.due <= builder.now:
            step_end.stop(builder, run)
            step_end.end(builder, run, failed(failure("timeout", _timeout_message(builder, run))))
            continue
        for path, pipe in list(pipeline_runs(run)):
            if pipe is not None and pipe.wait is not None:
                _wake(builder, run, path, pipe)


def _timeout_message(builder: DecisionBuilder, run: StepRun) -> str:
    step = builder.net_index.steps[run.step]
    limits = (("timeout_s", step.timeout), ("deadline_s", step.deadline))
    named = " or ".join(
        f"`lifecycle.{key}: {limit:g}`" if isinstance(limit, int | float) else f"`lifecycle.{key}`"
        for key, limit in limits
        if limit is not None
    )
    return f"the step did not end in time ({named})"


def _wake(builder: DecisionBuilder, run: StepRun, path: Path, pipe: PipelineRun) -> None:
    wait = pipe.wait
    assert wait is not None
    if wait.until is None or wait.until > builder.now or wait.answer is not None:
        return
    output = ok()
    if wait.limit is not None:
        message = f"the wait did not end within {wait.limit:g} s (`spec.timeout`)"
        output = failed(failure("timeout", message, retryable=True))
    elif wait.signal is not None:
        output = failed(failure("timeout", f"the signal `{wait.signal}` did not come in time (`timeout`)"))
    elif wait.child is not None:
        message = f"playbook `{wait.child['path']}` did not end in time (`spec.timeout`)"
        output = failed(failure("timeout", message, retryable=True))
        builder.orders.append(StopChild(wait.child["execution_id"]))
    order_pipeline(builder, run, path, pipe, output)


def _on_child_ended(builder: DecisionBuilder, request: ChildEnded) -> None:
    for run in list(builder.state.runs.values()):
        for path, pipe in list(pipeline_runs(run)):
            child = pipe.wait.child if pipe is not None and pipe.wait is not None else None
            if pipe is not None and child is not None and child["execution_id"] == request.execution_id:
                order_pipeline(builder, run, path, pipe, request.output)
                return
    step = builder.state.stopped_children.get(request.execution_id)
    if step is not None:
        builder.emit("step.closed", step, {"child": request.execution_id}, parent=builder.last)


def _on_pipeline_failed(builder: DecisionBuilder, request: PipelineFailed) -> None:
    run = builder.state.runs.get(request.step_run_id)
    if run is not None:
        step_end.stop(builder, run)
        step_end.end(builder, run, failed(request.error))


def _on_denied(builder: DecisionBuilder, request: Denied) -> None:
    run, path = builder.state.runs.get(request.step_run_id), parse_label(request.iteration)
    if run is None or not path:
        _on_pipeline_failed(builder, PipelineFailed(request.step_run_id, None, request.error))
    elif (pipe := find_pipeline(builder.state, run.id, path)) is not None:
        step_end.stop(builder, run, path)
        loops.fail_iteration(builder, builder.net_index.steps[run.step], run, path, request.error, cause=pipe.seq)


HANDLERS: dict[type, Callable[[DecisionBuilder, Any], None]] = {
    Signal: _on_signal,
    Cancel: _on_cancel,
    Pause: _on_pause,
    Resume: _on_resume,
    Due: _on_due,
    ChildEnded: _on_child_ended,
    PipelineFailed: _on_pipeline_failed,
    Denied: _on_denied,
}
