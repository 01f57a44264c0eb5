"""apply(state, event): the only code that changes the state of an execution.

A table from event names to functions. Live and in replay the same events pass through here, so what a run looks like
never depends on who looks. A decision is taken once, in the other modules of this package, and recorded; here it
only takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine.find import find_pipe, loop_at
from noetl.model.events import Event, seconds
from noetl.model.output import ok
from noetl.model.scope import of_scope, written
from noetl.model.state import (
    Boundary,
    Execution,
    LoopRun,
    Path,
    Pipe,
    Round,
    StepInfo,
    StepRun,
    Token,
    Wait,
    parse_label,
)


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


def _pipe(state: Execution, event: Event) -> Pipe:
    found = find_pipe(state, event.step_run_id, parse_label(event.iteration))
    assert found is not None, f"{event.name} of a pipeline that does not run"
    return found


def _info(state: Execution, step: str) -> StepInfo:
    info = state.steps.get(step)
    if info is None:
        info = state.steps[step] = StepInfo()
    return info


# --- the execution as a whole ------------------------------------------------------------------------------------------


def _requested(state: Execution, event: Event) -> None:
    payload = event.payload
    state.path = event.entity_id
    state.playbook = payload["playbook"]
    state.workload = payload["workload"]
    state.entry_step = payload.get("entry_step")
    state.return_step = payload.get("return_step")
    state.parent = payload.get("parent")
    state.depth = payload.get("depth", 0)


def _evaluated(state: Execution, event: Event) -> None:
    state.error = event.payload.get("error")


def _started(state: Execution, event: Event) -> None:
    state.status = "running"
    state.started = seconds(event.timestamp)


def _paused(state: Execution, event: Event) -> None:
    state.paused = event.name == "execution.paused"


def _cancelled(state: Execution, event: Event) -> None:
    state.terminated = "cancelled"
    state.error = {"kind": "cancelled", "message": event.payload["why"], "step": None}


def _finished(state: Execution, event: Event) -> None:
    payload = event.payload
    state.output = payload["output"]
    state.error = payload["error"]
    state.stalled = payload["stalled"]
    state.boundaries.clear()
    state.bringer = None


def _processed(state: Execution, event: Event) -> None:
    state.status = event.payload["status"]


def _patched(state: Execution, event: Event) -> None:
    run = state.runs.get(event.step_run_id or "")
    for target, value in event.payload["set"].items():
        scope, _, rest = target.partition(".")
        _write(state, run, parse_label(event.iteration), scope, tuple(rest.split(".")), value)


def _write(state: Execution, run: StepRun | None, path: Path, scope: str, target: tuple[str, ...], value: Any) -> None:
    """A write travels outwards, to everything that sees it; a parallel loop keeps it for its reducer."""
    for depth in range(len(path), 0, -1) if run is not None else ():
        loop = loop_at(run, path[:depth])  # type: ignore[arg-type]
        if loop.mode == "parallel":
            if scope == "ctx":
                loop.writes.setdefault("ctx." + ".".join(target), {})[path[depth - 1]] = value
            return
        setattr(loop, scope, written(getattr(loop, scope), target, value))
    if scope == "ctx":
        state.ctx = written(state.ctx, target, value)
    if run is not None:
        name = "ctx" if scope == "ctx" else "step_vars"
        setattr(run, name, written(getattr(run, name), target, value))


def _signal(state: Execution, event: Event) -> None:
    name, data = event.payload["signal"], event.payload["data"]
    waiting = state.listeners.get(name)
    if not waiting:
        state.signals.setdefault(name, []).append(data)
        return
    run_id, path = waiting.pop(0)
    pipe = find_pipe(state, run_id, path)
    if pipe is not None and pipe.wait is not None:
        pipe.wait.answer = ok(data)


# --- steps -----------------------------------------------------------------------------------------------------------


def _scheduled(state: Execution, event: Event) -> None:
    step, payload = event.entity_id, event.payload
    run_id = event.step_run_id
    assert run_id is not None
    state.runs[run_id] = StepRun(
        run_id,
        step,
        event.seq,
        state.ctx,
        input=payload.get("input"),
        args=payload.get("args"),
        due=payload.get("due"),
    )
    state.total_runs += 1
    info = _info(state, step)
    info.runs += 1
    info.active += 1
    info.run_id, info.status = run_id, "scheduled"
    info.started_at = info.finished_at = info.error = info.loop = None
    state.parked.pop(step, None)
    if "take" in payload:
        _fire(state.rounds[step], payload)


def _fire(entry: Round, payload: dict[str, Any]) -> None:
    """A join has fired: its tokens are used up, and a round may begin in which the rest is dealt with."""
    for name, count in payload["take"].items():
        del entry.places[name][:count]
    missing = payload.get("missing")
    entry.awaited = missing or None


def _parked(state: Execution, event: Event) -> None:
    step, payload = event.entity_id, event.payload
    token = Token(payload["from"], state.bringer.event() if state.bringer else {}, payload.get("args"))
    if payload.get("join"):
        entry = state.rounds.setdefault(step, Round())
        entry.places.setdefault(str(token.source), []).append(token)
    else:
        state.parked.setdefault(step, []).append(token)


def _skipped(state: Execution, event: Event) -> None:
    step, payload = event.entity_id, event.payload
    if payload["why"] == "stalled":
        state.parked.pop(step, None)
        state.rounds.pop(step, None)
        if not _info(state, step).runs:
            state.steps[step].status = "skipped"
    elif payload["why"] == "round":
        entry = state.rounds[step]
        entry.awaited = [name for name in entry.awaited or () if name != payload["from"]] or None


def _step_started(state: Execution, event: Event) -> None:
    run = state.runs[event.step_run_id or ""]
    run.seq = event.seq
    info = state.steps[run.step]
    if info.run_id == run.id:
        info.status, info.started_at = "running", event.timestamp
    run.pipe = Pipe(event.seq, event.seq, run.input, begun=True)


def _step_ended(state: Execution, event: Event) -> None:
    run = state.runs.pop(event.step_run_id or "")
    _forget_waits(state, run.id)
    output = event.payload["output"]
    for target, value in of_scope(event.payload.get("set", {}), "step"):
        run.step_vars = written(run.step_vars, target, value)
    info = state.steps[run.step]
    info.active -= 1
    if info.run_id == run.id:
        info.status = "done" if event.name == "step.done" else "failed"
        info.finished_at, info.error = event.timestamp, output["error"]
        info.started_at = info.started_at or event.timestamp
        info.loop = run.loop.counts() if run.loop is not None else None
    state.boundaries.append(
        Boundary(
            run.step,
            run.id,
            event.seq,
            event.name,
            output,
            run.step_vars,
            run.input,
            is_loop=run.loop is not None,
        )
    )


def _step_cancelled(state: Execution, event: Event) -> None:
    step = event.entity_id
    info = _info(state, step)
    if event.step_run_id is None:
        state.parked.pop(step, None)
        state.rounds.pop(step, None)
        if not info.runs:
            info.status = "cancelled"
        return
    state.runs.pop(event.step_run_id, None)
    _forget_waits(state, event.step_run_id)
    info.active -= 1
    if info.run_id == event.step_run_id:
        info.status, info.finished_at = "cancelled", event.timestamp


def _forget_waits(state: Execution, run_id: str, path: Path = ()) -> None:
    for waiting in state.listeners.values():
        waiting[:] = [key for key in waiting if key[0] != run_id or key[1][: len(path)] != path]


# --- tasks -----------------------------------------------------------------------------------------------------------


def _task_started(state: Execution, event: Event) -> None:
    pipe = _pipe(state, event)
    pipe.seq, pipe.begun = event.seq, True
    pipe.number += 1
    pipe.is_open = True
    wait = event.payload.get("wait")
    if wait is not None:
        _suspend(state, event, pipe, wait)


def _suspend(state: Execution, event: Event, pipe: Pipe, wait: dict[str, Any]) -> None:
    signal = wait.get("signal")
    pipe.wait = Wait(event.task_run_id or "", wait.get("until"), signal, wait.get("child"))
    if signal is None:
        return
    queued = state.signals.get(signal)
    if queued and not wait.get("transient"):
        pipe.wait.answer = ok(queued.pop(0))
    else:
        key = (event.step_run_id or "", parse_label(event.iteration))
        state.listeners.setdefault(signal, []).append(key)


def _task_done(state: Execution, event: Event) -> None:
    pipe = _pipe(state, event)
    pipe.seq, pipe.is_open = event.seq, False
    path = parse_label(event.iteration)
    if pipe.wait is not None:
        pipe.wait = None
        _forget_waits(state, event.step_run_id or "", path)
    patch = event.payload.get("set")
    if patch:
        run = state.runs[event.step_run_id or ""]
        for scope in ("ctx", "step"):
            for target, value in of_scope(patch, scope):
                _write(state, run, path, scope, target, value)


# --- loops -----------------------------------------------------------------------------------------------------------


def _loop_started(state: Execution, event: Event) -> None:
    run, payload = state.runs[event.step_run_id or ""], event.payload
    run.seq = event.seq
    run.pipe = None
    run.loop = LoopRun((), payload["items"], payload["mode"], run.ctx, run.step_vars)


def _iteration_started(state: Execution, event: Event) -> None:
    path, payload = parse_label(event.iteration), event.payload
    loop = loop_at(state.runs[event.step_run_id or ""], path)
    loop.results.append(None)
    inner = payload.get("items")
    loop.running[path[-1]] = (
        Pipe(event.seq, event.seq, payload.get("input"))
        if inner is None
        else LoopRun(path, inner, payload["mode"], loop.ctx, loop.step)
    )  # fmt: skip


def _iteration_ended(state: Execution, event: Event) -> None:
    path = parse_label(event.iteration)
    loop = loop_at(state.runs[event.step_run_id or ""], path)
    del loop.running[path[-1]]
    if event.name == "loop.iteration.done":
        loop.succeeded += 1
        loop.results[path[-1]] = event.payload["data"]
        loop.stopped = loop.stopped or bool(event.payload.get("until"))
    else:
        loop.failed += 1
        loop.error = loop.error or event.payload["error"]
        loop.stopped = loop.stopped or bool(event.payload.get("stop"))


def _loop_done(state: Execution, event: Event) -> None:
    run = state.runs[event.step_run_id or ""]
    run.seq = event.seq
    assert run.loop is not None
    run.loop.running.clear()
    _forget_waits(state, run.id)


# --- routing ---------------------------------------------------------------------------------------------------------


def _routed(state: Execution, event: Event) -> None:
    payload = event.payload
    if event.step_run_id is None:
        state.failure = state.failure or payload["error"]
        return
    bringer = next(one for one in state.boundaries if one.step_run_id == event.step_run_id)
    state.boundaries.remove(bringer)
    state.bringer = bringer
    for target, value in payload.get("set", {}).items():
        state.ctx = written(state.ctx, tuple(target.split(".")[1:]), value)
    taken = any(arc["taken"] for arc in payload["arcs"])
    _output(state, bringer, leaf=not taken)
    if payload.get("error") or payload.get("unrouted"):
        error = payload.get("error") or bringer.output["error"]
        state.failure = state.failure or {**error, "step": bringer.step}
    if payload.get("terminate"):
        state.terminated = payload["terminate"]


def _output(state: Execution, ended: Boundary, *, leaf: bool) -> None:
    """The execution's output is that of `end`, or of the step it was asked for, or of the last leaf."""
    final = ended.step == (state.return_step or "end")
    if final or (leaf and not state.output_final and ended.name == "step.done"):
        state.output = ended.output["data"]
        state.output_final = state.output_final or final


def _synthesized(state: Execution, event: Event) -> None:
    state.synthesized.extend(event.payload["steps"])


APPLY: dict[str, Callable[[Execution, Event], None]] = {
    "playbook.execution.requested": _requested,
    "playbook.request.evaluated": _evaluated,
    "workflow.started": _started,
    "step.scheduled": _scheduled,
    "step.parked": _parked,
    "step.skipped": _skipped,
    "step.started": _step_started,
    "step.done": _step_ended,
    "step.failed": _step_ended,
    "step.cancelled": _step_cancelled,
    "task.started": _task_started,
    "task.done": _task_done,
    "loop.started": _loop_started,
    "loop.iteration.started": _iteration_started,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
    "loop.done": _loop_done,
    "next.evaluated": _routed,
    "ctx.patched": _patched,
    "workflow.synthesized": _synthesized,
    "signal.received": _signal,
    "execution.paused": _paused,
    "execution.resumed": _paused,
    "execution.cancelled": _cancelled,
    "workflow.finished": _finished,
    "playbook.processed": _processed,
}
