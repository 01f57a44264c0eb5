"""Routing: a step has ended; which arcs are taken, what they write and cancel, where the tokens go."""

from __future__ import annotations

from typing import Any

from noetl.engine import admission, scopes, step_end, step_start
from noetl.engine.decision import DecisionBuilder
from noetl.errors import TemplateError
from noetl.expr import failure_of, patch_of, render
from noetl.model.output import failure
from noetl.model.playbook import Arc, Router
from noetl.model.scope import Patch, scope_writes, set_paths
from noetl.model.state import StepBoundary, Token

#: tokens, and the steps they go to
Taken = list[tuple[str, Token]]


def route(builder: DecisionBuilder, ended: StepBoundary) -> None:
    """Judge the arcs of a step that has ended, and deliver the tokens."""
    payload: dict[str, Any] = {"event": ended.name, "arcs": []}
    taken: Taken = []
    builder.routing = ended.step_run_id
    if builder.state.failure is None and builder.state.terminated is None:
        try:
            taken = _judge(builder, ended, payload)
        except TemplateError as error:
            taken = []
            payload |= _errors_of(ended, error)
    builder.emit("next.evaluated", ended.step, payload, parent=ended.seq, run=ended.step_run_id)
    for name in payload.get("cancel", ()):
        step_end.cancel_step(builder, name, f"an arc of `{ended.step}` cancels it")
    deliver(builder, taken)
    reconsider_parked(builder)


def _errors_of(ended: StepBoundary, error: TemplateError) -> dict[str, Any]:
    """Why the execution fails when arcs cannot be judged: of a step that failed, its own error comes first."""
    own: dict[str, Any] | None = ended.output["error"]
    if own is None:
        return {"error": failure_of(error)}
    both = f"{own['message']} (and its arcs could not be judged: {error.message})"
    return {"error": {**own, "message": both}, "judging": failure_of(error)}


def _judge(builder: DecisionBuilder, ended: StepBoundary, payload: dict[str, Any]) -> Taken:
    """Where tokens go; which arcs were asked and what they do is written into the payload."""
    router = builder.net_index.steps[ended.step].router
    if ended.planned is not None:
        payload["arcs"] = [{"to": ended.planned, "taken": True, "planned": True}]
        return [(ended.planned, Token(ended.step, ended.event()))]
    offers = ["loop.done", "step.done"] if ended.is_loop and ended.name == "step.done" else [ended.name]
    chosen: list[Arc] = []
    event: dict[str, Any] = {}
    for offer in offers:
        event = ended.event(offer)
        payload["event"] = offer
        payload["arcs"] = []
        chosen = _match_arcs(builder, ended, router, event, payload["arcs"])
        if chosen:
            break
    if not chosen:
        payload |= _no_match(ended, router)
    tokens = _effects(builder, ended, chosen, event, payload)
    return [(arc.step, token) for arc, token in zip(chosen, tokens, strict=True) if arc.step is not None]


def _no_match(ended: StepBoundary, router: Router) -> dict[str, Any]:
    """What it means that no arc matched: a failure has no way out; a success that had arcs is reported, or fails."""
    if ended.name == "step.failed":
        return {"unrouted": True}
    if not router.arcs or router.on_no_match == "end":
        return {}
    if router.on_no_match != "fail":
        return {"unmatched": True}
    message = f"step `{ended.step}` ended well and none of its arcs matched (`on_no_match: fail`)"
    return {"unmatched": True, "error": failure("fail", message)}


def _match_arcs(
    builder: DecisionBuilder, ended: StepBoundary, router: Router, event: dict[str, Any], asked: list[dict[str, Any]]
) -> list[Arc]:
    """The arcs that an event takes; each that was looked at is written down with what its guard saw."""
    chosen: list[Arc] = []
    for arc in router.arcs:
        note: dict[str, Any] = {"to": arc.step or f"({arc.terminate})", "taken": False}
        asked.append(note)
        if arc.when is None:
            note["taken"] = event["status"] == "success"
        else:
            sight = scopes.with_steps(builder, scopes.boundary_scopes(builder, ended), arc.when)
            sight["event"] = event
            note["when"] = scopes.source_of(arc.when)
            note["taken"] = arc.when.evaluate(sight)
            note["saw"] = scopes.observe_reads(builder, arc.when, sight)
        if note["taken"]:
            chosen.append(arc)
            if router.mode == "exclusive":
                break
    return chosen


def _effects(
    builder: DecisionBuilder, ended: StepBoundary, chosen: list[Arc], event: dict[str, Any], payload: dict[str, Any]
) -> list[Token]:
    """What the chosen arcs write, one after the other, and what their tokens carry."""
    patch: Patch = {}
    ctx = builder.state.ctx
    tokens: list[Token] = []
    for arc in chosen:
        if not (arc.set or arc.args or arc.cancel or arc.terminate):  # as most are
            tokens.append(Token(ended.step, event))
            continue
        sight = scopes.boundary_scopes(builder, ended)
        sight |= {"ctx": ctx, "event": event}
        scopes.with_steps(builder, sight, arc.args, *(one.value for one in arc.set))
        made = patch_of(arc.set, sight, most=builder.net_index.max_payload)
        for target, value in made.items():  # a later write of a target comes later, too
            patch.pop(target, None)
            patch[target] = value
        ctx = set_paths(ctx, scope_writes(made, "ctx"))
        tokens.append(Token(ended.step, event, render(arc.args, sight)))
        if arc.cancel:
            payload["cancel"] = [*payload.get("cancel", ()), *arc.cancel]
        if arc.terminate is not None:
            payload["terminate"] = arc.terminate
    if patch:
        payload["set"] = patch
    return tokens


def deliver(builder: DecisionBuilder, taken: Taken) -> None:
    """Bring the new tokens to their steps; each is judged as it arrives."""
    builder.expect(name for name, _ in taken)
    for name, token in taken:
        _arrive(builder, name, token)
        builder.on_arrival(name)


def _arrive(builder: DecisionBuilder, name: str, token: Token) -> None:
    if builder.state.failure is not None or builder.state.terminated is not None:
        return
    step = builder.net_index.steps[name]
    try:
        firing = admission.arrive(builder, step, token)
        if firing is not None:
            step_start.schedule(builder, step, firing)
    except admission.AdmissionError as refused:
        _record_admission_error(builder, refused)


def reconsider_parked(builder: DecisionBuilder) -> None:
    """Look once at everything that is parked and that may have waited for what changed; the others would say the same."""
    state = builder.state
    if state.failure is not None or state.terminated is not None or state.paused or not (state.parked or state.rounds):
        return
    builder.gates.begin_pass()
    try:
        while (name := builder.gates.next_in_pass()) is not None:
            step = builder.net_index.steps[name]
            firing = admission.reconsider(builder, step)
            while firing is not None:
                step_start.schedule(builder, step, firing)
                firing = admission.reconsider(builder, step) if step.admission.join is not None else None
    except admission.AdmissionError as refused:
        _record_admission_error(builder, refused)


def open_mutual_gate(builder: DecisionBuilder) -> bool:
    """When nothing else can move, open one of the gates that wait only for each other; whether there was one."""
    state = builder.state
    if state.runs or state.boundaries or not (state.parked or state.rounds):
        return False
    if state.failure is not None or state.terminated is not None or state.paused:
        return False
    try:
        found = admission.find_mutual_gate(builder)
        if found is not None:
            step_start.schedule(builder, *found)
    except admission.AdmissionError as refused:
        _record_admission_error(builder, refused)
        return False
    return found is not None


def _record_admission_error(builder: DecisionBuilder, refused: admission.AdmissionError) -> None:
    builder.emit("next.evaluated", refused.step, {"event": "", "arcs": [], "error": refused.error}, parent=builder.last)
