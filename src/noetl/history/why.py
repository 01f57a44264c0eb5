"""Why a step ran, or did not: what the log says about the tokens that came to it, and about those that did not.

Nothing is evaluated again. Each guard was recorded with the values it saw; the net only tells what was never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.state import Execution


class StepReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that decided about a step."""

    seq: int
    timestamp: str
    #: `start`, `arc`, `planned`, `arc-failed`, `unasked`, `unjudged`, `routing-failed`, `admission-failed`, `parked`, `fired`,
    #: `skipped`, `done`, `failed`, `unmatched`, `cancelled`, `closing`, `undoing`, `undone`, `undo-failed`, or `last` of the step
    #: that runs last
    what: str
    #: the step whose end, or whose token, this is about
    source: str | None = None
    taken: bool = False
    when: str | None = None
    saw: dict[str, Any] = {}
    #: the admission rules that were asked: `when`, `held`, `saw`; of `unmatched`, the arcs, with `to`
    rules: list[dict[str, Any]] = []
    #: the end of the source that was offered to its arcs: `step.done`, `loop.done` or `step.failed`
    offer: str = ""
    #: of a firing: whose tokens went into it; of `skipped`, whose tokens were left
    sources: list[str] = []
    #: of a gate that was opened because nothing else could move: the gates it waited for
    waited_for: list[str] = []
    why: str = ""
    error: dict[str, Any] | None = None
    join: bool = False
    #: of a compensation: the iteration that it undoes
    iteration: int | str | None = None


class StepExplanation(msgspec.Struct, frozen=True):
    """Everything that decided about one step, in order."""

    step: str
    #: `never ran`, or the status of its latest run
    status: str
    runs: int
    reasons: list[StepReason]
    #: the steps from which a token could come → how they stand
    predecessors: dict[str, str]


def explain_step(
    net: Net | None, state: Execution, events: Iterable[Event], wanted: str | None = None
) -> list[StepExplanation]:
    """The answer for one step, or for every step of the playbook in its order."""
    names = [wanted] if wanted is not None else _names(net, state)
    found: dict[str, list[StepReason]] = {name: [] for name in names}
    for event in events:
        read = READERS.get(event.name)
        for name, reason in read(net, event) if read is not None else ():
            if name in found:
                found[name].append(reason)
    return [_answer(net, state, name, found[name]) for name in names]


def _names(net: Net | None, state: Execution) -> list[str]:
    return list(dict.fromkeys([*(net.steps if net is not None else ()), *state.steps]))


def _answer(net: Net | None, state: Execution, name: str, reasons: list[StepReason]) -> StepExplanation:
    incoming = net.incoming.get(name, ()) if net is not None else ()
    planners = (source for source, first in net.plans if first == name) if net is not None else ()
    sources = dict.fromkeys([*planners, *(one.source for one in incoming)])
    info = state.steps.get(name)
    runs = info.runs if info is not None else 0
    status = info.status if info is not None and (runs or info.status != "scheduled") else "never ran"
    return StepExplanation(
        name, status, runs, reasons, {source: describe_standing(state, source) for source in sources}
    )


def describe_standing(state: Execution, step: str) -> str:
    """How a step stands, in a word or two."""
    info = state.steps.get(step)
    return info.status if info is not None and (info.runs or info.status != "scheduled") else "never ran"


Found = list[tuple[str, StepReason]]


def _start_reasons(_net: Net | None, event: Event) -> Found:
    return [(event.payload["step"], _reason(event, "start"))]


def _explain_routing(net: Net | None, event: Event) -> Found:
    """The arcs of a step that ended: those asked, and those that nobody asked."""
    payload, source = event.payload, event.entity_id
    error = payload.get("judging") or payload.get("error")
    if event.step_run_id is None:
        return [(source, _reason(event, "admission-failed", error=error))]
    asked = payload["arcs"]
    found = [(arc["to"], _arc_reason(event, arc, error)) for arc in asked]
    step = net.steps.get(source) if net is not None else None
    judged = sum(1 for arc in asked if not arc.get("planned"))
    rest = step.router.arcs[judged:] if step is not None else ()
    found += [(arc.step or "", _explain_unasked(event, asked, error)) for arc in rest]
    if asked and not payload.get("unrouted") and not rest and all("saw" in arc for arc in asked) and not _taken(asked):
        found.append((source, _explain_no_match(event)))
    return found


def _taken(asked: list[dict[str, Any]]) -> str | None:
    return next((arc["to"] for arc in asked if arc["taken"]), None)


def _explain_no_match(event: Event) -> StepReason:
    """A step that ended well, and each of its arcs with what its guard saw."""
    payload = event.payload
    arcs = [{"to": arc["to"], "when": arc["when"], "held": False, "saw": arc["saw"]} for arc in payload["arcs"]]
    why = "fail" if payload.get("error") else "reported" if payload.get("unmatched") else "end"
    return _reason(event, "unmatched", rules=arcs, offer=payload["event"], why=why)


def _arc_reason(event: Event, arc: dict[str, Any], error: dict[str, Any] | None) -> StepReason:
    """An arc that was asked: taken, refused, or the one at which judging failed."""
    source, when, offer = event.entity_id, arc.get("when"), event.payload["event"]
    if arc.get("planned"):
        return _reason(event, "planned", source=source, taken=True, offer=offer)
    # What a guard saw is written down when it has answered.
    if error is not None and (arc["taken"] or (when is not None and "saw" not in arc)):
        return _reason(event, "arc-failed", source=source, when=when, offer=offer, error=error)
    return _reason(
        event, "arc", source=source, taken=arc["taken"], when=when, saw=arc.get("saw", {}), offer=offer
    )  # fmt: skip


def _explain_unasked(event: Event, asked: list[dict[str, Any]], error: dict[str, Any] | None) -> StepReason:
    if error is not None:
        return _reason(event, "routing-failed", source=event.entity_id, error=error)
    taken = _taken(asked)
    if taken is None:
        return _reason(event, "unjudged", source=event.entity_id, offer=event.payload["event"])
    return _reason(event, "unasked", source=event.entity_id, offer=event.payload["event"], why=taken)


def _explain_scheduling(_net: Net | None, event: Event) -> Found:
    payload = event.payload
    rules, waited_for = payload.get("saw", []), payload.get("waited_for", [])
    if "event" in payload:
        return [(event.entity_id, _reason(event, "last", why=payload["event"]["status"]))]
    reason = _reason(
        event, "fired", sources=payload["from"], rules=rules, join="take" in payload, waited_for=waited_for
    )  # fmt: skip
    return [(event.entity_id, reason)]


def _explain_parking(_net: Net | None, event: Event) -> Found:
    payload = event.payload
    join = bool(payload.get("join"))
    return [
        (event.entity_id, _reason(event, "parked", source=payload["from"], rules=payload.get("saw", []), join=join))
    ]


def _skip_reasons(_net: Net | None, event: Event) -> Found:
    payload = event.payload
    left = [source or "the start" for source in payload.get("held") or ()]
    reason = _reason(
        event, "skipped", source=payload["from"], why=payload["why"], sources=left, rules=payload.get("saw", [])
    )  # fmt: skip
    return [(event.entity_id, reason)]


def _end_reasons(_net: Net | None, event: Event) -> Found:
    what = event.name.partition(".")[2]
    return [(event.entity_id, _reason(event, what, error=event.payload["output"]["error"]))]


def _cancel_reasons(_net: Net | None, event: Event) -> Found:
    return [(event.entity_id, _reason(event, "cancelled", why=event.payload["why"]))]


def _closing_reasons(_net: Net | None, event: Event) -> Found:
    return [(event.entity_id, _reason(event, "closing", error=event.payload["closing"]["error"]))]


def _undo_reasons(_net: Net | None, event: Event) -> Found:
    what = {"step.compensating": "undoing", "step.compensated": "undone"}.get(event.name, "undo-failed")
    return [(event.entity_id, _reason(event, what, iteration=event.iteration, error=event.payload.get("error")))]


def _reason(event: Event, what: str, **more: Any) -> StepReason:
    return StepReason(event.seq, event.timestamp, what, **more)


READERS: dict[str, Callable[[Net | None, Event], Found]] = {
    "workflow.started": _start_reasons,
    "next.evaluated": _explain_routing,
    "step.scheduled": _explain_scheduling,
    "step.parked": _explain_parking,
    "step.skipped": _skip_reasons,
    "step.done": _end_reasons,
    "step.failed": _end_reasons,
    "step.cancelled": _cancel_reasons,
    "step.closing": _closing_reasons,
    "step.compensating": _undo_reasons,
    "step.compensated": _undo_reasons,
    "step.compensation.failed": _undo_reasons,
}
