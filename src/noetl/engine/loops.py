"""Loops: which iterations start, what their ends mean, and the reduction of what they wrote, in index order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from noetl.engine import scopes, step_end
from noetl.engine.decision import DecisionBuilder
from noetl.engine.pipeline_order import order_pipeline
from noetl.errors import TemplateError
from noetl.expr import check_path, failure_of, inline_of, is_larger, keep_undo_scopes, loop_items, render, values_in
from noetl.lang import schema_failure
from noetl.model.orders import LoopRow, RunPipeline
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.playbook import Loop, Step
from noetl.model.scope import merge_maps
from noetl.model.state import LoopRun, Path, PipelineRun, StepRun, label_of, loop_at

# Reducers: what the iterations of a parallel loop wrote, in index order, as one value.


def reduce_values(how: str, values: list[Any]) -> Any:
    """The one value; a TypeError says that these values cannot be reduced so."""
    return REDUCERS[how](values)


def _union(values: list[Any]) -> list[Any]:
    found: dict[bytes, Any] = {}
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            # As JSON, true is not 1, and long lists are looked up rather than gone through.
            found.setdefault(msgspec.json.encode(item, order="deterministic"), item)
    return list(found.values())


def _merge(values: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for value in values:
        if not isinstance(value, Mapping):
            raise TypeError(f"{type(value).__name__} is not a map")
        made = merge_maps(made, value)
    return made


def _known(values: list[Any]) -> list[Any]:
    """The values that can be compared: an inner loop over nothing has a minimum of null."""
    return [value for value in values if value is not None]


#: of an empty list each gives a value, too: a loop over nothing is reduced like any other
REDUCERS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "min": lambda values: min(_known(values), default=None),
    "max": lambda values: max(_known(values), default=None),
    "count": len,
    "append": list,
    "union": _union,
    "merge": _merge,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}


def begin(builder: DecisionBuilder, step: Step, run: StepRun) -> None:
    """Start a step's loop."""
    assert step.loop is not None
    if run.pipe is None:
        builder.emit("step.started", step.name, {}, parent=run.seq, run=run.id)
    assert run.pipe is not None
    cause = run.pipe.seq  # its start, or the last of its `before` tasks
    try:
        items = _items(builder, step.loop, scopes.run_scopes(builder, run))
    except TemplateError as error:
        step_end.end(builder, run, failed(failure_of(error)))
        return
    payload = {"items": items, "mode": step.loop.mode}
    builder.emit("loop.started", step.name, payload, parent=cause, run=run.id)
    advance_loops(builder, step, run)


def _items(builder: DecisionBuilder, declared: Loop, sight: dict[str, Any]) -> list[Any] | dict[str, Any]:
    """What a loop goes over: a list, or a reference to rows."""
    return loop_items(declared.items, scopes.with_steps(builder, sight, declared.items))


def advance_loops(builder: DecisionBuilder, step: Step, run: StepRun) -> None:
    """Start what may start, end what has ended, from the inside out."""
    assert step.loop is not None
    assert run.loop is not None
    try:
        over = _advance(builder, step, run, step.loop, run.loop)
    except TemplateError as error:
        step_end.stop(builder, run)
        step_end.end(builder, run, failed(failure_of(error), loop=run.loop.counts()))
        return
    if over:
        _finish(builder, step, run, step.loop, run.loop)


def _advance(builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, loop: LoopRun) -> bool:
    """Bring a loop as far as it goes now; whether it is over."""
    if declared.inner is not None:
        for inner in list(loop.running.values()):
            if isinstance(inner, LoopRun) and _advance(builder, step, run, declared.inner, inner):
                _finish_inner(builder, step, run, declared, inner)
    limit = 1 if loop.mode == "sequential" else _limit(builder, run, declared)
    while not _is_complete(builder, run, declared, loop):
        if loop.stopped or loop.started == loop.total:
            return not loop.running
        if builder.state.paused or len(loop.running) >= limit:
            return False
        _start(builder, step, run, declared, loop)
    if declared.complete_rest != "run":
        for index in loop.running:
            step_end.stop(builder, run, (*loop.path, index))
    return True


def _limit(builder: DecisionBuilder, run: StepRun, declared: Loop) -> int:
    if isinstance(declared.max_in_flight, int):
        return declared.max_in_flight
    found = render(declared.max_in_flight, scopes.run_scopes(builder, run))
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise TemplateError(f"`max_in_flight` must be a whole number of at least 1, not {found!r}")
    return found


def _start(builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, loop: LoopRun) -> None:
    """Start the next iteration."""
    path = (*loop.path, loop.started)
    if declared.inner is not None:
        _start_inner(builder, step, run, declared, loop, path)
        return
    rows = scopes.rows_of(builder, run, path)
    payload, problem = ({}, None) if rows else _input(builder, step, run, loop, path)  # of rows, the worker reads it
    label = label_of(path)
    event = builder.emit("loop.iteration.started", step.name, payload, parent=run.seq, run=run.id, iteration=label)
    if problem is not None:
        _record_failure(builder, step, run, declared, path, problem, cause=event.seq)
    elif not step.tasks:
        _end_iteration(builder, run, declared, path, ok(), cause=event.seq)
    else:
        sight = scopes.pipeline_scopes(builder, step, run, loop, path)
        builder.orders.append(RunPipeline(run.id, step.name, label, sight, rows=rows))


def _input(
    builder: DecisionBuilder, step: Step, run: StepRun, loop: LoopRun, path: Path
) -> tuple[dict[str, Any], Failure | None]:
    """What is recorded of the input of an iteration, and why the iteration cannot start with it."""
    payload: dict[str, Any] = {}
    if step.input is not None:
        sight = scopes.iteration_scopes(builder, run, loop, path)
        try:
            payload["input"] = scopes.input_of(step, scopes.with_steps(builder, sight, *values_in(step.input)))
        except TemplateError as error:
            return payload, failure_of(error)
    return payload, schema_failure(step.spec, "input", payload.get("input", {}), f"step `{step.name}`")


def _start_inner(builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, loop: LoopRun, path: Path) -> None:
    """Start an iteration with a loop inside; where that reads its items out of a row, a worker does."""
    inner = declared.inner
    assert inner is not None
    rows = scopes.rows_of(builder, run, path)
    unread = _reads_rows(inner, rows)
    payload: dict[str, Any] = {"unread": True, "mode": inner.mode} if unread else {"items": [], "mode": inner.mode}
    problem: Failure | None = None
    try:
        if not unread:
            payload["items"] = _items(builder, inner, scopes.iteration_scopes(builder, run, loop, path))
    except TemplateError as error:
        problem = failure_of(error)
    label = label_of(path)
    event = builder.emit("loop.iteration.started", step.name, payload, parent=run.seq, run=run.id, iteration=label)
    if problem is not None:
        _record_failure(builder, step, run, declared, path, problem, cause=event.seq)
        return
    begun = loop.running[path[-1]]
    if unread:
        sight = scopes.pipeline_scopes(builder, step, run, loop, path)
        builder.orders.append(RunPipeline(run.id, step.name, label, sight, rows=rows, unfolds=True))
    elif isinstance(begun, LoopRun) and _advance(builder, step, run, inner, begun):
        _finish_inner(builder, step, run, declared, begun)


def _reads_rows(inner: Loop, rows: Sequence[LoopRow]) -> bool:
    """Whether a loop takes what it goes over out of a row of a loop around it, which only a worker reads."""
    facts = getattr(inner.items, "facts", None)
    ways = [("iter", *("parent",) * row.up, row.iterator) for row in rows]
    reads = [read.path for read in facts.reads] if facts is not None else []
    return any(path[: len(way)] == way[: len(path)] for path in reads for way in ways)


def _end_iteration(
    builder: DecisionBuilder, run: StepRun, declared: Loop, path: Path, output: Output, *, cause: int, kept: bool = True
) -> None:
    """End an iteration that no worker ends: one without tasks, or with a loop inside, whose data may be too long."""
    payload: dict[str, Any] = {"data": output["data"]} if kept else {}
    step = builder.net_index.steps[run.step]
    if step.compensation is not None and declared.inner is None:
        payload["compensation"] = keep_undo_scopes(
            step, _iteration_sight(builder, run, path), most=builder.net_index.max_payload
        )
    if _asks_to_end(builder, run, declared, path, output):
        payload["until"] = True
    builder.emit("loop.iteration.done", run.step, payload, parent=cause, run=run.id, iteration=label_of(path))


def _iteration_sight(builder: DecisionBuilder, run: StepRun, path: Path) -> dict[str, Any]:
    """What was in sight of an iteration without tasks."""
    loop = loop_at(run, path)
    pipe = loop.running.get(path[-1])
    given = pipe.input if isinstance(pipe, PipelineRun) else None
    return {**scopes.iteration_scopes(builder, run, loop, path), "input": given or {}}


def _record_failure(
    builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, path: Path, error: Failure, *, cause: int
) -> None:
    stop = step.failure_mode != "best_effort" or _asks_to_end(builder, run, declared, path, failed(error))
    payload = {"error": error, "stop": stop}
    builder.emit("loop.iteration.failed", step.name, payload, parent=cause, run=run.id, iteration=label_of(path))


def fail_iteration(
    builder: DecisionBuilder, step: Step, run: StepRun, path: Path, error: Failure, *, cause: int
) -> None:
    """End an iteration that may not go on, and go on with the others."""
    declared = step.loop
    for _ in path[1:]:
        declared = declared.inner if declared is not None else None
    assert declared is not None
    try:
        _record_failure(builder, step, run, declared, path, error, cause=cause)
    except TemplateError as wrong:
        step_end.stop(builder, run)
        step_end.end(builder, run, failed(failure_of(wrong)))
    else:
        advance_loops(builder, step, run)


def _asks_to_end(builder: DecisionBuilder, run: StepRun, declared: Loop, path: Path, output: Output) -> bool:
    """Whether `until` says that an iteration with this output was the last one."""
    if declared.until is None:
        return False
    sight = scopes.iteration_scopes(builder, run, loop_at(run, path), path)
    sight["output"] = output
    return declared.until.evaluate(scopes.with_steps(builder, sight, declared.until))


def _is_complete(builder: DecisionBuilder, run: StepRun, declared: Loop, loop: LoopRun) -> bool:
    """Whether `complete_when` says that the loop has done enough."""
    if declared.complete_when is None or not loop.completed:
        return False
    sight = scopes.with_steps(builder, scopes.base_scopes(builder, run.args), declared.complete_when)
    sight |= {"loop": loop.counts(), "step": loop.step}
    return declared.complete_when.evaluate(sight)


def _has_failed(step: Step, loop: LoopRun) -> bool:
    """Whether a loop ends with its first error."""
    return loop.error is not None and step.failure_mode != "best_effort"


def _reduce(builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, loop: LoopRun) -> Failure | None:
    """Write what the iterations of a loop wrote, each target by its reducer; it replaces what was there."""
    patch: dict[str, Any] = {}
    for target, how in declared.reduce.items():
        values = loop.writes.get(target, {})
        if not values and _has_failed(step, loop):
            continue
        scope, *path = target.split(".")
        try:
            patch[target] = reduce_values(how, [values[index] for index in sorted(values)])
            check_path(scope, tuple(path), loop.ctx)
        except TypeError as error:
            return failure("type", f"`{target}` cannot be reduced by `{how}`: {error}")
        except TemplateError as error:
            return failure_of(error)
    if patch:
        builder.emit(
            "ctx.patched",
            builder.state.path,
            {"set": patch, "step": step.name},
            parent=builder.last,
            run=run.id,
            iteration=label_of(loop.path),
        )
    return None


def _finish_inner(builder: DecisionBuilder, step: Step, run: StepRun, around: Loop, loop: LoopRun) -> None:
    """An inner loop is over, and with it the iteration of the loop around it."""
    assert around.inner is not None
    problem = _reduce(builder, step, run, around.inner, loop)
    error = problem or loop.error
    if error is None:
        kept = not is_larger(loop.results, inline_of(step.spec))
        _end_iteration(builder, run, around, loop.path, ok(loop.results, loop=loop.counts()), cause=run.seq, kept=kept)
    elif problem is not None or _has_failed(step, loop):
        _record_failure(builder, step, run, around, loop.path, error, cause=run.seq)
    else:
        output = {**failed(error, loop=loop.counts()), "data": loop.results}
        payload = {"error": error, "stop": _asks_to_end(builder, run, around, loop.path, output), "partial": True}
        label = label_of(loop.path)
        builder.emit("loop.iteration.failed", step.name, payload, parent=run.seq, run=run.id, iteration=label)


def _finish(builder: DecisionBuilder, step: Step, run: StepRun, declared: Loop, loop: LoopRun) -> None:
    problem = _reduce(builder, step, run, declared, loop)
    error = problem or (loop.error if _has_failed(step, loop) else None)
    if error is not None:
        step_end.end(builder, run, failed(error, loop=loop.counts()))
        return
    gather = _must_gather(builder, step, loop)
    payload = {"loop": loop.counts()} | ({"gather": True} if gather else {})
    builder.emit("loop.done", step.name, payload, parent=builder.last, run=run.id)
    if gather:
        order_pipeline(builder, run, (), run.pipe)
        return
    output = ok(list(loop.results), loop=loop.counts())
    step_end.end(builder, run, step_end.reshape(builder, step, scopes.run_scopes(builder, run), output))


def _must_gather(builder: DecisionBuilder, step: Step, loop: LoopRun) -> bool:
    """Whether a worker has to see the list that a loop made.

    It is too long for the log, or its reference is asked for, or tasks follow.
    """
    if loop.refs or step.after or step.cleanup or builder.net_index.wants_reference(step):
        return True
    return is_larger(loop.results, inline_of(step.spec))
