"""What events about steps, tasks and loops change in the state; `fold` has the table of all events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.model.events import Event
from noetl.model.output import ok
from noetl.model.scope import scope_writes, set_path, writes_of
from noetl.model.state import (
    BEGINNING,
    Execution,
    JoinRound,
    LoopRun,
    Path,
    PipelineRun,
    StepBoundary,
    StepInfo,
    StepRun,
    Token,
    UndoRecord,
    Wait,
    find_pipeline,
    loop_at,
    loop_pipeline_runs,
    parse_label,
    pipeline_runs,
)


def _pipe(state: Execution, event: Event) -> PipelineRun:
    found = find_pipeline(state, event.step_run_id, parse_label(event.iteration))
    assert found is not None, f"{event.name} of a pipeline that does not run"
    return found


def _info(state: Execution, step: str) -> StepInfo:
    info = state.steps.get(step)
    if info is None:
        info = state.steps[step] = StepInfo()
    return info


def write(state: Execution, run: StepRun | None, path: Path, scope: str, target: tuple[str, ...], value: Any) -> None:
    """A write travels outwards, to everything that sees it; a parallel loop keeps it for its reducer."""
    for depth in range(len(path), 0, -1) if run is not None else ():
        loop = loop_at(run, path[:depth])  # type: ignore[arg-type]
        if loop.mode == "parallel":
            if scope == "ctx":
                loop.writes.setdefault("ctx." + ".".join(target), {})[path[depth - 1]] = value
            return
        setattr(loop, scope, set_path(getattr(loop, scope), target, value))
    if scope == "ctx":
        state.ctx = set_path(state.ctx, target, value)
    if run is not None:
        name = "ctx" if scope == "ctx" else "step_vars"
        setattr(run, name, set_path(getattr(run, name), target, value))


# --- steps -----------------------------------------------------------------------------------------------------------


def apply_scheduled(state: Execution, event: Event) -> None:
    """A firing: the tokens it took are gone."""
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
        event=payload.get("event"),
    )
    if "event" in payload:
        state.final_run, state.ending = run_id, True
    state.total_runs += 1
    info = _info(state, step)
    info.runs += 1
    info.run_id, info.status = run_id, "scheduled"
    info.started_at = info.finished_at = info.error = info.loop = info.warning = None
    info.warned = 0
    state.parked.pop(step, None)
    if "take" in payload:
        _fire(state.rounds[step], payload)


def _fire(entry: JoinRound, payload: dict[str, Any]) -> None:
    """A join has fired: its tokens are used up, and a round may begin in which the rest is dealt with."""
    for name, count in payload["take"].items():
        del entry.places[name][:count]
    entry.awaited = dict.fromkeys(payload.get("missing") or (), True) or None


def apply_parked(state: Execution, event: Event) -> None:
    """A token stays."""
    step, payload = event.entity_id, event.payload
    brought = state.bringer.event() if state.bringer else BEGINNING
    token = Token(payload["from"], brought, payload.get("args"), event.seq if payload.get("gate") else 0)
    if payload.get("join"):
        entry = state.rounds.setdefault(step, JoinRound())
        entry.places.setdefault(str(token.source), []).append(token)
    else:
        state.parked.setdefault(step, []).append(token)


def apply_skipped(state: Execution, event: Event) -> None:
    """A token ends without a firing."""
    step, payload = event.entity_id, event.payload
    if payload["why"] == "stalled":
        state.stalled.append(step)
        state.parked.pop(step, None)
        state.rounds.pop(step, None)
        if not _info(state, step).runs:
            state.steps[step].status = "skipped"
    elif payload["why"] == "round":
        entry = state.rounds[step]
        if entry.awaited is not None and entry.awaited.pop(payload["from"], False) and not entry.awaited:
            entry.awaited = None


def apply_step_started(state: Execution, event: Event) -> None:
    """The body begins."""
    run = state.runs[event.step_run_id or ""]
    run.seq = event.seq
    info = state.steps[run.step]
    if info.run_id == run.id:
        info.status, info.started_at = "running", event.timestamp
    run.pipe = PipelineRun(event.seq, event.seq, run.input, begun=True)


def apply_step_ended(state: Execution, event: Event) -> None:
    """The run is over; its arcs are still to be judged."""
    run = state.runs.pop(event.step_run_id or "")
    _drop_pipelines(state, run, pipeline_runs(run))
    if "compensation" in event.payload:
        _record_undo(state, event)
    output = event.payload["output"]
    for target, value in scope_writes(event.payload.get("set", {}), "step"):
        run.step_vars = set_path(run.step_vars, target, value)
    info = state.steps[run.step]
    if info.run_id == run.id:
        info.status = "done" if event.name == "step.done" else "failed"
        info.finished_at, info.error = event.timestamp, output["error"]
        info.started_at = info.started_at or event.timestamp
        info.loop = run.loop.counts() if run.loop is not None else None
    state.boundaries.append(
        StepBoundary(
            run.step,
            run.id,
            event.seq,
            event.name,
            output,
            run.step_vars,
            run.input,
            is_loop=run.loop is not None,
            args=run.args,
        )
    )


def apply_step_cancelled(state: Execution, event: Event) -> None:
    """A run, or what was parked at a step, is gone."""
    step = event.entity_id
    info = _info(state, step)
    if event.step_run_id is None:
        state.parked.pop(step, None)
        state.rounds.pop(step, None)
        if not info.runs:
            info.status = "cancelled"
        return
    run = state.runs.pop(event.step_run_id)
    if "closing" in event.payload:
        state.runs[run.id] = run
        run.cancelled = True
        _begin_closing(state, run, event)
    else:
        _drop_pipelines(state, run, pipeline_runs(run))
    if info.run_id == event.step_run_id:
        info.status, info.finished_at = "cancelled", event.timestamp
        info.loop = run.loop.counts() if run.loop is not None else None


def apply_closing(state: Execution, event: Event) -> None:
    """The body was ended; the `finally` tasks follow."""
    _begin_closing(state, state.runs[event.step_run_id or ""], event)


def _begin_closing(state: Execution, run: StepRun, event: Event) -> None:
    if run.finalizing:
        return  # they run already
    _drop_pipelines(state, run, pipeline_runs(run))
    if run.loop is not None:
        run.loop.running.clear()
    run.closing, run.finalizing, run.due, run.seq = event.payload["closing"], True, None, event.seq
    run.pipe = PipelineRun(event.seq, event.seq, run.input)


def apply_closed(state: Execution, event: Event) -> None:
    """What followed the end of a step has ended."""
    if "child" in event.payload:
        state.stopped_children.pop(event.payload["child"], None)
        return
    run = state.runs.pop(event.step_run_id or "")
    _drop_pipelines(state, run, pipeline_runs(run))


def _record_undo(state: Execution, event: Event) -> None:
    state.undo.append(UndoRecord(event.entity_id, event.step_run_id or "", event.iteration, event.seq))


def apply_compensating(state: Execution, event: Event) -> None:
    """A run is being undone, by a pipeline of its own."""
    state.undoing = state.undo.pop()  # the latest end comes first
    run = StepRun(event.step_run_id or "", event.entity_id, event.seq, {}, undoes=state.undoing.seq)
    run.pipe = PipelineRun(event.seq, event.seq, begun=True)
    state.runs[run.id] = run
    state.ending = True


def apply_compensated(state: Execution, event: Event) -> None:
    """A compensation has ended, well or not."""
    state.undoing = None
    info = state.steps[event.entity_id]
    if event.name == "step.compensated":
        info.undone += 1
    else:
        info.undo_failed += 1
        info.undo_error = info.undo_error or event.payload["error"]
    run = state.runs.pop(event.step_run_id or "")
    _drop_pipelines(state, run, pipeline_runs(run))


def _drop_pipelines(state: Execution, run: StepRun, ended: Iterable[tuple[Path, PipelineRun | None]]) -> None:
    """Pipelines that are gone listen to no signal any more; the children that they wait for are told to end."""
    for path, pipe in ended:
        if pipe is None or pipe.wait is None:
            continue
        _stop_listening(state, run.id, [(path, pipe)])
        if pipe.wait.child is not None:
            state.stopped_children[pipe.wait.child["execution_id"]] = run.step


def _stop_listening(state: Execution, run_id: str, ended: Iterable[tuple[Path, PipelineRun | None]]) -> None:
    """Pipelines that have ended, or were answered, listen to no signal any more."""
    for path, pipe in ended:
        signal = pipe.wait.signal if pipe is not None and pipe.wait is not None else None
        if signal is None:
            continue
        others = [one for one in state.listeners.pop(signal, ()) if one != (run_id, path)]
        if others:
            state.listeners[signal] = others


# --- tasks -----------------------------------------------------------------------------------------------------------


def apply_task_started(state: Execution, event: Event) -> None:
    """An attempt is under way; it may wait for something."""
    pipe = _pipe(state, event)
    pipe.seq, pipe.begun = event.seq, True
    pipe.number += 1
    pipe.is_open = True
    if event.payload.get("part") == "finally":
        run = state.runs[event.step_run_id or ""]
        run.finalizing, run.due = True, None
    wait = event.payload.get("wait")
    if wait is not None:
        _suspend(state, event, pipe, wait)
        _add_warnings(
            state,
            event,
            [f"a signal `{wait['signal']}` was dropped: {one['why']}" for one in event.payload.get("dropped", ())],
        )


def _suspend(state: Execution, event: Event, pipe: PipelineRun, wait: dict[str, Any]) -> None:
    signal = wait.get("signal")
    about = {key: wait[key] for key in ("fixed", "limit", "schema", "title", "assignees") if key in wait}
    pipe.wait = Wait(event.task_run_id or "", wait.get("until"), signal, wait.get("child"), **about)
    if signal is None:
        return
    for _ in event.payload.get("dropped", ()):
        take_kept_signal(state, signal)
    # A wait that asks for something has been judged; any other takes what is there.
    judged = "schema" in wait or "assignees" in wait
    if state.signals.get(signal) and not wait.get("transient") and (event.payload.get("takes") or not judged):
        pipe.wait.answer = ok(take_kept_signal(state, signal)[0])
    else:
        key = (event.step_run_id or "", parse_label(event.iteration))
        state.listeners.setdefault(signal, []).append(key)


def take_kept_signal(state: Execution, signal: str) -> tuple[Any, str | None]:
    """Remove the signal that was kept first: what it carried, and the token it was sent with."""
    senders = state.senders.get(signal)
    sender = senders.pop(0) if senders else None
    return state.signals[signal].pop(0), sender


def kept_signals(state: Execution, signal: str) -> list[tuple[Any, str | None]]:
    """The signals of a name that were kept, each with the token it was sent with."""
    kept, senders = state.signals.get(signal, []), state.senders.get(signal, [])
    return [(data, senders[at] if at < len(senders) else None) for at, data in enumerate(kept)]


def deliver_signal(
    state: Execution, signal: str, data: Any, by: str | None = None, *, taker: int = 0, again: bool = False
) -> None:
    """A signal goes to one of those that wait for it, or is kept; `again`: it had been given to somebody before."""
    waiting = state.listeners.get(signal)
    if not waiting or taker < 0:
        _keep_signal(state, signal, data, by, first=again)
        return
    run_id, path = waiting.pop(taker)
    pipe = find_pipeline(state, run_id, path)
    assert pipe is not None
    assert pipe.wait is not None
    pipe.wait.answer = ok(data)
    pipe.wait.answered_by = by


def _keep_signal(state: Execution, signal: str, data: Any, by: str | None, *, first: bool) -> None:
    kept = state.signals.setdefault(signal, [])
    senders = state.senders.get(signal, [])
    if by is not None or senders:
        senders += [None] * (len(kept) - len(senders))
        senders.insert(0 if first else len(kept), by)
        state.senders[signal] = senders
    kept.insert(0 if first else len(kept), data)


def find_unconsumed_signal(wait: Wait, payload: dict[str, Any]) -> tuple[str, Any, str | None] | None:
    """A signal that came when the task had run out of time, and was about to say so: it is somebody else's."""
    if wait.signal is None or wait.answer is None or not _has_timed_out(payload):
        return None
    return wait.signal, wait.answer["data"], wait.answered_by


def _has_timed_out(payload: dict[str, Any]) -> bool:
    error = payload["output"]["error"]
    return error is not None and error["kind"] == "timeout"


def apply_task_progress(state: Execution, event: Event) -> None:
    """An attempt is still under way; what it said is for whoever runs it again."""
    _pipe(state, event).seq = event.seq


def apply_task_done(state: Execution, event: Event) -> None:
    """An attempt has ended, and what it wrote is seen."""
    pipe = _pipe(state, event)
    pipe.seq, pipe.is_open = event.seq, False
    path = parse_label(event.iteration)
    if pipe.wait is not None:
        _stop_listening(state, event.step_run_id or "", [(path, pipe)])
        if pipe.wait.child is not None and _has_timed_out(event.payload):
            state.stopped_children[pipe.wait.child["execution_id"]] = state.runs[event.step_run_id or ""].step
        unheard, pipe.wait = find_unconsumed_signal(pipe.wait, event.payload), None
        if unheard is not None:
            deliver_signal(state, *unheard, taker=event.payload.get("taker", 0), again=True)
    _warn(state, event)
    patch = event.payload.get("set")
    if patch:
        run = state.runs[event.step_run_id or ""]
        for scope, target, value in writes_of(patch):
            if scope != "iter":
                write(state, run, path, scope, target, value)


def _warn(state: Execution, event: Event) -> None:
    """Whoever looks at the step sees that not all went well, though it went on."""
    _add_warnings(state, event, event.payload["output"].get("meta", {}).get("warnings", ()))


def _add_warnings(state: Execution, event: Event, warnings: Iterable[str]) -> None:
    for warning in warnings:
        info = state.steps[event.entity_id.partition(".")[0]]
        info.warned += 1
        info.warning = info.warning or warning


# --- loops -----------------------------------------------------------------------------------------------------------


def apply_loop_started(state: Execution, event: Event) -> None:
    """A loop begins, or one inside of an iteration, of which a worker has read what it goes over."""
    run, payload = state.runs[event.step_run_id or ""], event.payload
    path = parse_label(event.iteration)
    if path:
        loop = loop_at(run, path)
        loop.running[path[-1]] = LoopRun(path, payload["items"], payload["mode"], loop.ctx, loop.step)
        return
    run.seq = event.seq
    run.pipe = None
    run.loop = LoopRun((), payload["items"], payload["mode"], run.ctx, run.step_vars)


def apply_iteration_started(state: Execution, event: Event) -> None:
    """An iteration, or the loop inside of it, begins."""
    path, payload = parse_label(event.iteration), event.payload
    loop = loop_at(state.runs[event.step_run_id or ""], path)
    loop.results.append(None)
    inner = payload.get("items")
    loop.running[path[-1]] = (
        PipelineRun(event.seq, event.seq, payload.get("input"), unfolds=bool(payload.get("unread")))
        if inner is None
        else LoopRun(path, inner, payload["mode"], loop.ctx, loop.step)
    )  # fmt: skip


def apply_iteration_ended(state: Execution, event: Event) -> None:
    """An iteration is over."""
    path = parse_label(event.iteration)
    loop = loop_at(state.runs[event.step_run_id or ""], path)
    inner = loop.running.pop(path[-1])
    ended = loop_pipeline_runs(inner) if isinstance(inner, LoopRun) else [(path, inner)]
    _drop_pipelines(state, state.runs[event.step_run_id or ""], ended)
    if event.name == "loop.iteration.done":
        loop.succeeded += 1
        if "compensation" in event.payload:
            _record_undo(state, event)
        _keep_result(loop, path[-1], inner, event.payload)
        loop.stopped = loop.stopped or bool(event.payload.get("until"))
    else:
        loop.failed += 1
        loop.error = loop.error or event.payload["error"]
        if event.payload.get("partial"):  # some of its inner iterations ended well
            _keep_result(loop, path[-1], inner, event.payload)
        loop.stopped = loop.stopped or bool(event.payload.get("stop"))


def _keep_result(loop: LoopRun, index: int, inner: PipelineRun | LoopRun, payload: dict[str, Any]) -> None:
    """What an iteration yielded: in the event, in the result store, or what its own loop has gathered."""
    if isinstance(inner, LoopRun):
        loop.refs |= {f"{index}.{label}": ref for label, ref in inner.refs.items()}
        loop.results[index] = inner.results
        return
    loop.results[index] = payload["data"]
    if "ref" in payload:
        loop.refs[str(index)] = payload["ref"]


def apply_loop_done(state: Execution, event: Event) -> None:
    """What still runs of a loop is no longer heard."""
    run = state.runs[event.step_run_id or ""]
    run.seq = event.seq
    assert run.loop is not None
    _drop_pipelines(state, run, pipeline_runs(run))
    run.loop.running.clear()
    if event.payload.get("gather"):
        run.loop.gathering = True
        run.pipe = PipelineRun(event.seq, event.seq, run.input)
