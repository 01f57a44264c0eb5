"""Tokens at a step's door: which may fire it now, which wait, which end there.

Without a join every token is judged when it arrives; if it is admitted, those parked at the step go with it. A join
keeps one place per predecessor and fires when enough of them hold a token. Gates whose `quiet()` waits only for each
other are opened one at a time when nothing else can move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from noetl.engine import scopes
from noetl.engine.decision import DecisionBuilder
from noetl.engine.gates import Answer, Regions, read_token
from noetl.errors import TemplateError
from noetl.expr import failure_of
from noetl.model.output import Failure, failure
from noetl.model.playbook import AdmitRule, Condition, Join, Step
from noetl.model.state import JoinRound, Token

#: of a gate that was opened because nothing else could move, how many of the others are recorded
_MOST_NAMED = 20


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
    builder: DecisionBuilder, step: Step, token: Token, *, arrives: bool = False, assume_quiet: bool = False
) -> Answer:
    """Ask the step's rules about a token; `arrives`: it has just come.

    `assume_quiet`: what the answer would be if no other token could come.
    """
    rules = step.admission.rules
    if rules is None:
        return True, ()
    reads = builder.gates.index.gates[step.name]
    quiet = reads.quiet and (assume_quiet or builder.gates.is_quiet(step.name, arrives=arrives))
    seen = None if reads.volatile else read_token(token.event, token.args, reads.token)
    known = builder.gates.recall(step.name, (quiet, seen)) if seen is not None else None
    if known is None:
        known = _ask(builder, step, rules, token, quiet=quiet)
        if seen is not None:
            builder.gates.keep(step.name, (quiet, seen), known)
    return known


def _ask(builder: DecisionBuilder, step: Step, rules: Sequence[AdmitRule], token: Token, *, quiet: bool) -> Answer:
    """Evaluate the rules, up to the first that holds."""
    held: list[bool] = []
    for rule in rules:
        if rule.when is None:
            return rule.allow, tuple(held)
        sight = _guard_scopes(builder, token, rule.when)
        sight["quiet"] = lambda: quiet
        try:
            held.append(rule.when.evaluate(sight))
        except TemplateError as error:
            raise AdmissionError(step.name, failure_of(error)) from None
        if held[-1]:
            return rule.allow, tuple(held)
    return False, tuple(held)


def _guard_scopes(builder: DecisionBuilder, token: Token, when: Condition) -> dict[str, Any]:
    sight = scopes.with_steps(builder, scopes.base_scopes(builder, token.args), when)
    sight["event"] = token.event
    return sight


def _describe(
    builder: DecisionBuilder, step: Step, token: Token, held: Sequence[bool], *, last: bool = False
) -> list[dict[str, Any]]:
    """The rules that were asked about a token, and the values they saw, for the record.

    Every token is recorded with them, so of a long list only the numbers are; `last`: there will be no other record.
    """
    gate = None if last else step.name
    asked = []
    for rule, answer in zip(step.admission.rules or (), held, strict=False):
        assert rule.when is not None
        saw = scopes.observe_reads(builder, rule.when, _guard_scopes(builder, token, rule.when), gate=gate)
        asked.append({"when": scopes.source_of(rule.when), "held": answer, "saw": saw})
    return asked


def arrive(builder: DecisionBuilder, step: Step, token: Token) -> Firing | None:
    """A token comes to a step: whether it fires it; None when the token stays or ends here."""
    info = builder.state.steps.get(step.name)
    if step.admission.fire == "once" and info is not None and info.runs:
        builder.emit("step.skipped", step.name, {"from": token.source, "why": "once"}, parent=builder.last)
        return None
    if step.admission.join is not None:
        return _arrive_at_join(builder, step, step.admission.join, token)
    allowed, held = judge(builder, step, token, arrives=True)
    saw = _describe(builder, step, token, held)
    if allowed:
        return Firing(token, saw)
    park(builder, step, token, saw=saw)
    return None


def park(builder: DecisionBuilder, step: Step, token: Token, *, saw: list[dict[str, Any]], join: bool = False) -> None:
    """Let a token stay at a step."""
    payload: dict[str, Any] = {"from": token.source}
    if join:
        payload["join"] = True
    if builder.gates.index.gates[step.name].quiet:
        payload["gate"] = True
    if token.args is not None:
        payload["args"] = token.args
    if saw:
        payload["saw"] = saw
    builder.emit("step.parked", step.name, payload, parent=builder.last)


def reconsider(builder: DecisionBuilder, step: Step) -> Firing | None:
    """Look again at what is parked at a step: whether it fires now."""
    found = _find_admitted(builder, step)
    return Firing(found.token, _describe(builder, step, found.token, found.held)) if found is not None else None


class _Admitted(NamedTuple):
    """A parked token that may fire its step, and the answers of the rules about it."""

    token: Token
    held: tuple[bool, ...]


def _find_admitted(builder: DecisionBuilder, step: Step, *, assume_quiet: bool = False) -> _Admitted | None:
    """The token with which a step fires now, or would if it were quiet."""
    join = step.admission.join
    if join is not None:
        return _find_complete(builder, step, join, assume_quiet=assume_quiet)
    for token in builder.gates.kinds_of(step.name):
        allowed, held = judge(builder, step, token, assume_quiet=assume_quiet)
        if allowed:
            return _Admitted(token, held)
    return None


def last_answers(builder: DecisionBuilder, step: Step) -> list[dict[str, Any]]:
    """What the rules of a step say now about its first parked token, for the record.

    Of a join they are asked when it is complete; of an execution that has failed they are not asked any more.
    """
    tokens = builder.state.parked.get(step.name)
    if not tokens or builder.state.failure is not None:
        return []
    with suppress(AdmissionError):
        _, held = judge(builder, step, tokens[0])
        return _describe(builder, step, tokens[0], held, last=True)
    return []


# --- gates that wait for each other ----------------------------------------------------------------------------------


def find_mutual_gate(builder: DecisionBuilder) -> tuple[Step, Firing] | None:
    """Of the gates that wait only for each other, the one whose token came first; None: there are none.

    A gate counts if it would be admitted when no other token could come, and if the same is true of every gate whose
    token it waits for. A token that waits for something else keeps all gates closed to which it may still come.
    """
    steps, index = builder.net_index.steps, builder.gates.index
    held, regions = builder.gates.held_steps(), index.regions
    asking = [name for name in held if name in index.gates and index.gates[name].quiet]
    found = {name: _find_admitted(builder, steps[name], assume_quiet=True) for name in _closed(asking, held, regions)}
    ready = {name: admitted for name, admitted in found.items() if admitted is not None}
    waiting = _closed(list(ready), held, regions)
    if not waiting:
        return None
    first = min(waiting, key=builder.state.first_token)
    step, (token, answers) = steps[first], ready[first]
    mutual = regions.find_leading(first, [name for name in held if name != first])
    return step, Firing(token, _describe(builder, step, token, answers), tuple(mutual[:_MOST_NAMED]))


def _closed(gates: list[str], held: list[str], regions: Regions) -> list[str]:
    """Those of the gates to which no token can come but from these gates."""
    known = set(gates)
    others = [name for name in held if name not in known]
    following = regions.find_following(others) if others else ()
    return [name for name in gates if regions.of[name] not in following]


# --- joins -----------------------------------------------------------------------------------------------------------


def _arrive_at_join(builder: DecisionBuilder, step: Step, join: Join, token: Token) -> Firing | None:
    entry = builder.state.rounds.get(step.name) or JoinRound()
    source = token.source or ""
    swallowed = entry.awaited is not None and (join.rest == "ignore" or source in entry.awaited)
    if swallowed:
        builder.emit("step.skipped", step.name, {"from": source, "why": "round"}, parent=builder.last)
        # With the last of a round the next one begins, for which tokens may have been waiting.
    else:
        park(builder, step, token, saw=[], join=True)
    found = _find_complete(builder, step, join, arrives=True)
    return Firing(found.token, _describe(builder, step, found.token, found.held)) if found is not None else None


def _find_complete(
    builder: DecisionBuilder, step: Step, join: Join, *, arrives: bool = False, assume_quiet: bool = False
) -> _Admitted | None:
    """The token with which a join fires: enough places hold enough, and the rules beside it hold as well."""
    entry = builder.state.rounds.get(step.name)
    if entry is None or (entry.awaited is not None and join.rest != "keep"):
        return None
    tokens_per_firing(builder, step, join)
    complete = builder.gates.tally_of(step.name).complete
    if len(complete) < (join.need if join.need is not None else len(join.places)):
        return None
    token = entry.places[builder.gates.index.place_names[step.name][complete[-1]]][0]
    allowed, held = judge(builder, step, token, arrives=arrives, assume_quiet=assume_quiet)
    return _Admitted(token, held) if allowed else None


def tokens_per_firing(builder: DecisionBuilder, step: Step, join: Join) -> Mapping[str, int]:
    """How many tokens of each predecessor one firing takes; worked out again when what the numbers read has changed."""
    gates = builder.gates
    known = gates.tally_of(step.name).numbers
    if known is not None and (gates.index.numbers[step.name] is not None or not gates.index.is_volatile(step.name)):
        return known
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
    gates.set_numbers(step.name, numbers)
    return numbers


def plan_firing(builder: DecisionBuilder, step: Step, join: Join) -> dict[str, Any]:
    """What a firing of a join takes, and whose tokens of this round are still to come."""
    places = builder.state.rounds[step.name].places
    numbers, names = tokens_per_firing(builder, step, join), builder.gates.index.place_names[step.name]
    take = {names[at]: numbers[names[at]] for at in builder.gates.tally_of(step.name).complete}
    missing = [name for name in numbers if name not in take] if join.rest != "keep" else []
    if step.admission.fire == "once":  # there will be no other firing: all that is here goes with this one
        take = {name: len(tokens) for name, tokens in places.items() if tokens}
    return {"take": take, "missing": missing}
