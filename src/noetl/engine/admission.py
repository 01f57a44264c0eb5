"""Tokens at a step's door: which may fire it now, which wait, which end there.

Without a join every token is judged when it arrives; if it is admitted, those parked at the step go with it. A join
keeps one place per predecessor and fires when enough of them hold a token. Gates whose `quiet()` waits only for each
other are opened one at a time when nothing else can move.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.engine import scopes
from noetl.engine.decision import DecisionBuilder
from noetl.errors import TemplateError
from noetl.expr import failure_of
from noetl.model.output import Failure, failure
from noetl.model.playbook import Condition, Join, Step
from noetl.model.state import JoinRound, Token


class AdmissionVerdict(msgspec.Struct, frozen=True):
    """Whether a token is admitted, and what was asked to find that out."""

    allowed: bool
    saw: list[dict[str, Any]]


class Firing(msgspec.Struct, frozen=True):
    """A token that fires a step, and what was asked before it was let in."""

    token: Token
    saw: list[dict[str, Any]]
    #: of a gate that was opened because nothing else could move: the gates that it and they waited for
    waited_for: tuple[str, ...] = ()


class AdmissionError(Exception):
    """A token can be neither admitted nor parked: the execution fails with the error."""

    def __init__(self, step: str, error: Failure) -> None:
        super().__init__(error["message"])
        self.step = step
        self.error = {**error, "step": step}


def judge(
    builder: DecisionBuilder,
    step: Step,
    token: Token,
    others: frozenset[str] = frozenset(),
    *,
    assume_quiet: bool = False,
) -> AdmissionVerdict:
    """Ask the step's rules about a token; `others` are the steps to which further tokens are on their way.

    `assume_quiet`: what the answer would be if no other token could come.
    """
    rules = step.admission.rules
    if rules is None:
        return AdmissionVerdict(allowed=True, saw=[])
    asked: list[dict[str, Any]] = []
    for rule in rules:
        if rule.when is None:
            return AdmissionVerdict(rule.allow, asked)
        sight = _guard_scopes(builder, token, rule.when)
        sight["quiet"] = lambda: assume_quiet or is_quiet(builder, step.name, others)
        try:
            holds = rule.when.evaluate(sight)
        except TemplateError as error:
            raise AdmissionError(step.name, failure_of(error)) from None
        asked.append({"when": rule.when.source, "held": holds, "saw": scopes.observe_reads(builder, rule.when, sight)})
        if holds:
            return AdmissionVerdict(rule.allow, asked)
    return AdmissionVerdict(allowed=False, saw=asked)


def _guard_scopes(builder: DecisionBuilder, token: Token, when: Condition) -> dict[str, Any]:
    sight = scopes.with_steps(builder, scopes.base_scopes(builder, token.args), when)
    sight["event"] = token.event
    return sight


def is_quiet(builder: DecisionBuilder, step: str, others: frozenset[str]) -> bool:
    """Whether no other token and no running step can still reach this one."""
    leading = builder.net_index.predecessors(step)
    state = builder.state
    if any(run.step in leading and not run.is_afterwork for run in state.runs.values()):
        return False
    if any(ended.step in leading for ended in state.boundaries):
        return False
    if step in others:
        return False
    return not any(name in leading for name in (*state.steps_with_tokens(), *others) if name != step)


def arrive(builder: DecisionBuilder, step: Step, token: Token, others: frozenset[str]) -> Firing | None:
    """A token comes to a step: whether it fires it; None when the token stays or ends here."""
    info = builder.state.steps.get(step.name)
    if step.admission.fire == "once" and info is not None and info.runs:
        builder.emit("step.skipped", step.name, {"from": token.source, "why": "once"}, parent=builder.last)
        return None
    if step.admission.join is not None:
        return _arrive_at_join(builder, step, step.admission.join, token, others)
    verdict = judge(builder, step, token, others)
    if verdict.allowed:
        return Firing(token, verdict.saw)
    park(builder, step, token, saw=verdict.saw)
    return None


def park(builder: DecisionBuilder, step: Step, token: Token, *, saw: list[dict[str, Any]], join: bool = False) -> None:
    """Let a token stay at a step."""
    payload: dict[str, Any] = {"from": token.source}
    if join:
        payload["join"] = True
    if _asks_for_quiet(step):
        payload["gate"] = True
    if token.args is not None:
        payload["args"] = token.args
    if saw:
        payload["saw"] = saw
    builder.emit("step.parked", step.name, payload, parent=builder.last)


def reconsider(builder: DecisionBuilder, step: Step, *, assume_quiet: bool = False) -> Firing | None:
    """Look again at what is parked at a step: whether it fires now, or would if it were quiet."""
    if step.admission.join is not None:
        return _try_firing(builder, step, step.admission.join, frozenset(), assume_quiet=assume_quiet)
    for token in builder.state.parked.get(step.name, ()):
        verdict = judge(builder, step, token, assume_quiet=assume_quiet)
        if verdict.allowed:
            return Firing(token, verdict.saw)
    return None


def last_answers(builder: DecisionBuilder, step: Step) -> list[dict[str, Any]]:
    """What the rules of a step say now about its first parked token, for the record.

    Of a join they are asked when it is complete; of an execution that has failed they are not asked any more.
    """
    tokens = builder.state.parked.get(step.name)
    if not tokens or builder.state.failure is not None:
        return []
    with suppress(AdmissionError):
        return judge(builder, step, tokens[0]).saw
    return []


# --- gates that wait for each other ----------------------------------------------------------------------------------


def find_mutual_gate(builder: DecisionBuilder) -> tuple[Step, Firing] | None:
    """Of the gates that wait only for each other, the one whose token came first; None: there are none.

    A gate counts if it would be admitted when no other token could come, and if the same is true of every gate whose
    token it waits for. A token that waits for something else keeps all gates closed to which it may still come.
    """
    held = builder.state.steps_with_tokens()
    steps = builder.net_index.steps
    asking = {name for name in held if _asks_for_quiet(steps[name])}
    blockers = {name: held.keys() & builder.net_index.predecessors(name) - {name} for name in asking}
    firings = {
        name: reconsider(builder, steps[name], assume_quiet=True) for name in held if name in _closed(asking, blockers)
    }
    ready = {name: firing for name, firing in firings.items() if firing is not None}
    waiting = _closed(set(ready), blockers)
    if not waiting:
        return None
    first = min((name for name in held if name in waiting), key=held.__getitem__)
    mutual = tuple(name for name in held if name in blockers[first])
    return steps[first], replace(ready[first], waited_for=mutual)


def _asks_for_quiet(step: Step) -> bool:
    rules = step.admission.rules or ()
    return any(call.name == "quiet" for rule in rules if rule.when is not None for call in rule.when.calls)


def _closed(gates: set[str], blockers: dict[str, set[str]]) -> set[str]:
    """Those of the gates that, directly and through each other, wait for none but these gates."""
    kept = set(gates)
    waits_for: dict[str, list[str]] = {}
    for name in gates:
        for blocker in blockers[name]:
            waits_for.setdefault(blocker, []).append(name)
    removed = [blocker for blocker in waits_for if blocker not in kept]
    while removed:
        for name in waits_for.get(removed.pop(), ()):
            if name in kept:
                kept.remove(name)
                removed.append(name)
    return kept


# --- joins -----------------------------------------------------------------------------------------------------------


def _arrive_at_join(
    builder: DecisionBuilder, step: Step, join: Join, token: Token, others: frozenset[str]
) -> Firing | None:
    entry = builder.state.rounds.get(step.name) or JoinRound()
    source = token.source or ""
    swallowed = entry.awaited is not None and (join.rest == "ignore" or source in entry.awaited)
    if swallowed:
        builder.emit("step.skipped", step.name, {"from": source, "why": "round"}, parent=builder.last)
        # With the last of a round the next one begins, for which tokens may have been waiting.
        return _try_firing(builder, step, join, others)
    park(builder, step, token, saw=[], join=True)
    return _try_firing(builder, step, join, others)


def _try_firing(
    builder: DecisionBuilder, step: Step, join: Join, others: frozenset[str], *, assume_quiet: bool = False
) -> Firing | None:
    entry = builder.state.rounds.get(step.name)
    if entry is None or (entry.awaited is not None and join.rest != "keep"):
        return None
    holding = [
        name
        for name, count in tokens_per_firing(builder, step, join).items()
        if len(entry.places.get(name, ())) >= count
    ]
    if len(holding) < (join.need if join.need is not None else len(join.places)):
        return None
    token = entry.places[holding[-1]][0]
    verdict = judge(builder, step, token, others, assume_quiet=assume_quiet)
    return Firing(token, verdict.saw) if verdict.allowed else None


def tokens_per_firing(builder: DecisionBuilder, step: Step, join: Join) -> dict[str, int]:
    """How many tokens of each predecessor one firing takes."""
    numbers: dict[str, int] = {}
    for name, number in join.places.items():
        if isinstance(number, int):
            numbers[name] = number
            continue
        try:
            found = number.evaluate(scopes.with_steps(builder, scopes.base_scopes(builder), number))
        except TemplateError as error:
            raise AdmissionError(step.name, failure_of(error)) from None
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            text = f"`join.from.{name}` must be a whole number of at least 1, not {found!r}"
            raise AdmissionError(step.name, failure("type", text))
        numbers[name] = found
    return numbers


def plan_firing(builder: DecisionBuilder, step: Step, join: Join) -> dict[str, Any]:
    """What a firing of a join takes, and whose tokens of this round are still to come."""
    places = builder.state.rounds[step.name].places
    numbers = tokens_per_firing(builder, step, join)
    take = {name: count for name, count in numbers.items() if len(places.get(name, ())) >= count}
    missing = [name for name in numbers if name not in take] if join.rest != "keep" else []
    if step.admission.fire == "once":  # there will be no other firing: all that is here goes with this one
        take = {name: len(tokens) for name, tokens in places.items() if tokens}
    return {"take": take, "missing": missing}
