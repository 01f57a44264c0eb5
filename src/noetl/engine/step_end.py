"""A step ends: its output, what its `set` writes, what it plans; and how its runs are cancelled."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.engine import scopes
from noetl.engine.decision import DecisionBuilder
from noetl.engine.pipeline_order import order_pipeline
from noetl.errors import TemplateError
from noetl.expr import failure_of, keep_undo_scopes, patch_of, render
from noetl.lang import schema_failure
from noetl.model.events import Fact
from noetl.model.net import PlanResult
from noetl.model.orders import StopPipelines
from noetl.model.output import Output, failed, failure
from noetl.model.playbook import Step
from noetl.model.scope import Patch, set_path
from noetl.model.state import Path, StepBoundary, StepRun, label_of

# Plans: a step that ended well may ask for new steps. They are judged before its end is recorded, and are part of it.


def evaluate_plan(builder: DecisionBuilder, step: Step, sight: dict[str, Any]) -> PlanResult | None:
    """What a step that ended well plans; None: it does not, or nothing new may start any more."""
    wish = step.router.synthesize
    if wish is None or builder.state.failure is not None or builder.state.terminated is not None:
        return None
    try:
        found = wish.plan.evaluate(sight)
    except TemplateError as error:
        return PlanResult(builder.net_index.net, error=failure_of(error))
    return builder.net_index.planner.plan(builder.net_index.net, step.name, wish, found)


def record(builder: DecisionBuilder, step: Step, run: str, plan: PlanResult) -> None:
    """Make the planned steps part of the execution; an empty plan leaves it to the arcs."""
    if plan.steps:
        payload = {"step": step.name, "steps": list(plan.steps)}
        event = builder.emit("workflow.synthesized", builder.state.path, payload, parent=builder.last, run=run)
        # What is told again is what was recorded, whatever a clock in the plan would say today.
        same = event.payload["steps"] == payload["steps"]
        builder.net_index = builder.net_index.with_plans(plan.net) if same else builder.net_index.of(builder.state)


# --- ending ----------------------------------------------------------------------------------------------------------


def reshape(builder: DecisionBuilder, step: Step, sight: dict[str, Any], output: Output) -> Output:
    """A step's own `output:` over what it yielded, held against the step's schema."""
    if step.output is not None:
        sight["output"] = output
        try:
            output = {**output, "data": render(step.output, scopes.with_steps(builder, sight, step.output))}
        except TemplateError as error:
            return failed(failure_of(error))
    problem = schema_failure(step.spec, "output", output["data"], f"step `{step.name}`")
    return output if problem is None else {**output, **failed(problem)}


def end(builder: DecisionBuilder, run: StepRun, output: Output, *, fact: Fact | None = None) -> None:
    """End a step run: with what a worker reports, or without a worker, which leaves its `finally` tasks to be run."""
    if run.undoes:
        _end_compensation(builder, run, output)
    elif run.cancelled:
        error = {"error": output["error"]} if output["error"] is not None else {}
        builder.emit("step.closed", run.step, error, parent=_last_event(run), run=run.id)
    elif fact is not None:
        _record_end(builder, run, output, fact)
    elif builder.net_index.steps[run.step].cleanup and not run.finalizing:
        builder.emit("step.closing", run.step, {"closing": output}, parent=_last_event(run), run=run.id)
        order_pipeline(builder, run, (), run.pipe)
    else:
        # Nobody runs its `finally` tasks: the step ends as its body did.
        _record_end(builder, run, run.closing or output, None)


def _end_compensation(builder: DecisionBuilder, run: StepRun, output: Output) -> None:
    """A compensation that fails is recorded, and changes nothing else."""
    undone = builder.state.undoing
    assert undone is not None
    error = output["error"]
    name = "step.compensated" if error is None else "step.compensation.failed"
    payload = {"run": undone.step_run_id} | ({"error": error} if error is not None else {})
    builder.emit(name, run.step, payload, parent=_last_event(run), run=run.id, iteration=undone.iteration)


def _last_event(run: StepRun) -> int:
    return max(run.seq, run.pipe.seq if run.pipe is not None else 0)


def _record_end(builder: DecisionBuilder, run: StepRun, output: Output, fact: Fact | None) -> None:
    """Record the end of a step, what its `set` writes and what it plans; where one fails, so does the step, unwritten."""
    step = builder.net_index.steps[run.step]
    reported = output
    output, patch = _with_set(builder, step, run, output)
    plan = None
    if step.router.synthesize is not None and output["error"] is None:
        sight = _end_scopes(builder, run, output, step.router.synthesize.plan)
        plan = evaluate_plan(builder, step, _apply_patch(sight, patch))
        if plan is not None and plan.error is not None:
            output, patch = {**output, **failed(plan.error)}, {}
    own = {target: value for target, value in patch.items() if target.startswith("step.")}
    shared = {target: value for target, value in patch.items() if target.startswith("ctx.")}
    extra: dict[str, Any] = {"set": own} if own else {}
    if step.compensation is not None and step.loop is None and output["error"] is None:
        try:
            extra["compensation"] = _undo_record(builder, step, run, patch)
        except TemplateError as error:
            output, shared, extra = {**output, **failed(failure_of(error))}, {}, {}
    parent = max(run.seq, run.pipe.seq if run.pipe is not None else 0)
    if fact is not None and output is reported:
        event = builder.accept(fact if not extra else replace(fact, payload={**fact.payload, **extra}), run, parent)
    else:
        name = "step.done" if output["error"] is None else "step.failed"
        event = builder.emit(name, run.step, {"output": output, **extra}, parent=parent, run=run.id)
    if shared:
        builder.emit("ctx.patched", builder.state.path, {"set": shared, "step": run.step}, parent=event.seq, run=run.id)
    if plan is not None and plan.error is None and output["error"] is None:
        record(builder, step, run.id, plan)


def _undo_record(builder: DecisionBuilder, step: Step, run: StepRun, patch: Patch) -> dict[str, Any]:
    """What the compensation of a run reads, as it is now; the output is recorded beside it."""
    sight = {"ctx": builder.state.ctx, "step": run.step_vars, "input": run.input or {}}
    return keep_undo_scopes(step, _apply_patch(sight, patch), most=builder.net_index.max_payload)


def _with_set(builder: DecisionBuilder, step: Step, run: StepRun, output: Output) -> tuple[Output, Patch]:
    """What a step's `set` writes; an error in it makes the end a failure that writes nothing."""
    good = output["error"] is None
    # What `set` would read was too large to be shown here: it has failed already.
    unseen = not good and output["error"]["kind"] == "payload-too-large"
    if not step.set or unseen:
        return output, {}
    sight = _end_scopes(builder, run, output, *(one.value for one in step.set))
    try:
        return output, patch_of(step.set, sight, lenient=not good, most=builder.net_index.max_payload)
    except TemplateError as error:
        return (failed(failure_of(error)) if good else output), {}


def _end_scopes(builder: DecisionBuilder, run: StepRun, output: Output, *values: Any) -> dict[str, Any]:
    """What the server's templates see when a step has ended."""
    ended = StepBoundary(run.step, run.id, run.seq, "", output, run.step_vars, run.input, args=run.args)
    sight = scopes.with_steps(builder, scopes.boundary_scopes(builder, ended), *values)
    if run.event is not None:
        sight["event"] = run.event
    return sight


def _apply_patch(sight: dict[str, Any], patch: Patch) -> dict[str, Any]:
    for target, value in patch.items():
        scope, *path = target.split(".")
        sight[scope] = set_path(dict(sight[scope]), tuple(path), value)
    return sight


def cancel_run(builder: DecisionBuilder, run: StepRun, why: str) -> None:
    """End one run; its `finally` tasks follow, or go on."""
    if run.is_afterwork:
        return
    payload: dict[str, Any] = {"why": why}
    if builder.net_index.steps[run.step].cleanup:
        payload["closing"] = failed(failure("cancelled", why))
    running = run.finalizing
    if not running:
        stop(builder, run)
    builder.emit("step.cancelled", run.step, payload, parent=run.seq, run=run.id)
    if "closing" in payload and not running:
        order_pipeline(builder, run, (), run.pipe)


def cancel_step(builder: DecisionBuilder, name: str, why: str) -> bool:
    """End all work of a step, running and parked; whether there was any."""
    working = [run for run in builder.state.runs.values() if run.step == name and not run.is_afterwork]
    for run in working:
        cancel_run(builder, run, why)
    entry = builder.state.rounds.get(name)
    parked = name in builder.state.parked or (entry is not None and any(entry.places.values()))
    if parked:
        builder.emit("step.cancelled", name, {"why": why}, parent=builder.last)
    return bool(working) or parked


def stop(builder: DecisionBuilder, run: StepRun, path: Path = ()) -> None:
    """Order everything that works for a run, or for one of its iterations, to end."""
    builder.orders.append(StopPipelines(run.id, label_of(path)))
