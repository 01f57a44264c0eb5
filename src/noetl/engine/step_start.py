"""A step starts: what its firing takes, its input, its deadline, and the order to run it."""

from __future__ import annotations

import math
from typing import Any

from noetl.engine import admission, loops, scopes, step_end
from noetl.engine.decision import DecisionBuilder
from noetl.errors import TemplateError
from noetl.expr import failure_of, render, values_in
from noetl.lang import schema_failure
from noetl.model.orders import RunPipeline, WakeAt
from noetl.model.output import Output, failed, failure, ok
from noetl.model.playbook import Step
from noetl.model.state import StepRun


def schedule(
    builder: DecisionBuilder, step: Step, firing: admission.Firing, *, final: dict[str, Any] | None = None
) -> None:
    """Fire a step with a token; those parked there go with it. `final`: how the execution ends, of the step that runs last."""
    state = builder.state
    limit = builder.net_index.max_steps
    if state.total_runs >= limit and final is None:
        message = f"the execution has run {limit:,} steps; `limits.max_steps` allows no more"
        raise admission.AdmissionError(step.name, failure("limit", message))
    run_id = f"{step.name}-{(state.steps[step.name].runs if step.name in state.steps else 0) + 1}"
    payload = _payload(builder, step, firing)
    if final is not None:
        payload["event"] = final
    problem = _prepare(builder, step, payload)
    builder.emit("step.scheduled", step.name, payload, parent=builder.last, run=run_id)
    run = state.runs[run_id]
    if problem is not None:
        step_end.end(builder, run, failed(problem))
        return
    if run.due is not None:
        builder.orders.append(WakeAt(run.due))
    if step.loop is not None and not step.before:
        loops.begin(builder, step, run)
    elif not step.tasks and not step.pipeline:
        step_end.end(builder, run, _router_output(builder, step, run))
    else:
        builder.orders.append(RunPipeline(run.id, step.name, None, scopes.pipeline_scopes(builder, step, run)))


def _payload(builder: DecisionBuilder, step: Step, firing: admission.Firing) -> dict[str, Any]:
    token = firing.token
    parked = builder.state.parked.get(step.name, ())
    sources = dict.fromkeys([token.source, *(one.source for one in parked)])
    payload: dict[str, Any] = {"from": [name for name in sources if name is not None]}
    if token.args is not None:
        payload["args"] = token.args
    if firing.saw:
        payload["saw"] = firing.saw
    if firing.waited_for:
        payload["waited_for"] = list(firing.waited_for)
    if step.admission.join is not None:
        taken = admission.plan_firing(builder, step, step.admission.join)
        if step.admission.join.rest == "cancel":
            # A join may wait for itself: the tokens that are parked there are those of this firing.
            taken["missing"] = [
                name
                for name in taken["missing"]
                if not step_end.cancel_step(builder, name, "the join has fired", parked=name != step.name)
            ]
        payload |= taken
        payload["from"] = list(taken["take"])
    return payload


def _prepare(builder: DecisionBuilder, step: Step, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Evaluate what must be known before a step starts; the error that keeps it from starting, or None."""
    sight = scopes.base_scopes(builder, payload.get("args"))
    sight["step"] = {}
    if "event" in payload:
        sight["event"] = payload["event"]
    try:
        if step.loop is None and step.input is not None:
            scopes.with_steps(builder, sight, *values_in(step.input), starting=step.name)
            sight["input"] = payload["input"] = scopes.input_of(step, sight)
        timeout, deadline = _seconds(step.timeout, sight), _seconds(step.deadline, sight)
    except TemplateError as error:
        return failure_of(error)
    ends = builder.state.started + deadline
    due = min(builder.now + timeout, ends)
    if due < math.inf:
        payload["due"] = due
    if ends <= builder.now:
        return failure("timeout", f"the deadline of {deadline:g} s after the start is past")
    return (
        schema_failure(step.spec, "input", payload.get("input", {}), f"step `{step.name}`")
        if step.loop is None
        else None
    )


def _seconds(limit: Any, sight: dict[str, Any]) -> float:
    """A time limit; one that is not set never ends."""
    found = render(limit, sight)
    try:
        seconds = math.inf if found is None else float(found)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        error = TemplateError(f"a time limit must be a number of seconds, not {found!r}")
        error.kind = "type"
        raise error
    return seconds


def _router_output(builder: DecisionBuilder, step: Step, run: StepRun) -> Output:
    return step_end.reshape(builder, step, scopes.run_scopes(builder, run), ok())
