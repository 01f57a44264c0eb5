"""Branches of one inclusive fan-out that meet: older engines joined them, so the step where they meet waits for all.

A token count says it where every branch surely arrives (`admit.join`); else the step waits until nothing else can reach
it (`quiet()`), and runs once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

from noetl.lang.legacy.lowered_document import Lowering, ensure_map
from noetl.lang.reading.node import MapNode, Scalar, entry, list_of, make, map_of, text_of
from noetl.model.graph import find_components, find_reachable

#: conditions that say no more than: at the end of the step
_ALWAYS = re.compile(
    r"\{\{\s*(?:true|event\.(?:name|type)\s*==\s*['\"](?:step|loop)\.done['\"]|event\.status\s*==\s*['\"]success['\"])\s*\}\}|true"
)


@dataclass(frozen=True)
class _Arc:
    target: str
    is_conditional: bool


def lower(doc: Lowering) -> None:
    """Let every step wait at which branches of a fan-out meet, in a document that is rewritten anyway."""
    if not (doc.accepted or doc.migrating):
        return
    net = _Net(doc)
    for name, step in net.steps.items():
        fan_out = net.find_fan_out(name) if _does_anything(step) and not _admits(step) else None
        if fan_out is not None:
            _join(doc, net, name, fan_out)


class _Net:
    """The steps of a document and the arcs between them."""

    def __init__(self, doc: Lowering) -> None:
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        self.after: dict[str, list[_Arc]] = {
            name: [arc for arc in _arcs(step) if arc.target in self.steps] for name, step in self.steps.items()
        }
        #: the steps as nodes of a graph, by their place
        self.places = {name: place for place, name in enumerate(self.steps)}
        self.graph = [[self.places[arc.target] for arc in self.after[name]] for name in self.steps]
        first = self.places.get(text_of(doc.first_step(), "step"))
        reached = find_reachable(self.graph, [first]) if first is not None else set[int]()
        #: steps that send out several tokens at once, as far as a token comes to them at all
        self.fan_outs = {
            name for name, arcs in self.after.items()
            if len(arcs) > 1 and self.places[name] in reached and _is_inclusive(self.steps[name])
        }  # fmt: skip

    @cached_property
    def before(self) -> dict[str, list[str]]:
        """By step, those with an arc to it."""
        found: dict[str, list[str]] = {name: [] for name in self.steps}
        for source, arcs in self.after.items():
            for arc in arcs:
                if source not in found[arc.target] and source != arc.target:
                    found[arc.target].append(source)
        return found

    @cached_property
    def on_cycles(self) -> set[str]:
        """The steps that a token can come to again."""
        again = {place for part in find_components(self.graph) if len(part) > 1 for place in part}
        return {name for name, place in self.places.items() if place in again or place in self.graph[place]}

    def ancestors(self, name: str) -> dict[str, None]:
        """The steps from which a token can come to a step, the nearest first, without that step."""
        found: dict[str, None] = {}
        waiting = deque(self.before[name])
        while waiting:
            one = waiting.popleft()
            if one not in found and one != name:
                found[one] = None
                waiting.extend(self.before[one])
        return found

    def find_fan_out(self, name: str) -> str | None:
        """The nearest step whose branches meet at a step."""
        if len(self.before[name]) < 2 or not self.fan_outs:
            return None
        ancestors = self.ancestors(name)
        return next((one for one in ancestors if one in self.fan_outs and self.meet(one, name, ancestors)), None)

    def meet(self, source: str, name: str, ancestors: Container[str]) -> bool:
        """Whether tokens of two branches of a step come to another one, by two ways."""
        arrived: dict[str, set[int]] = {}
        leading = [at for at, arc in enumerate(self.after[source]) if arc.target == name or arc.target in ancestors]
        for at in leading if len(leading) > 1 else ():
            branch = self.branch(source, self.after[source][at], name, ancestors)
            for one in branch.intersection(self.before[name]):
                arrived.setdefault(one, set()).add(at)
        return len(arrived) > 1 and len(set().union(*arrived.values())) > 1

    def branch(self, source: str, arc: _Arc, meeting: str, ancestors: Container[str]) -> set[str]:
        """The steps of one branch that lead to a meeting; of an arc that leads to it directly, the step that it comes from."""
        if arc.target == meeting:
            return {source}
        seen: set[str] = set()
        waiting = [arc.target]
        while waiting:
            name = waiting.pop()
            if name not in seen and name != source and name in ancestors:
                seen.add(name)
                waiting += [after.target for after in self.after[name]]
        return seen

    def is_certain(self, source: str, meeting: str) -> bool:
        """Whether every step before the meeting gets its token, once, whatever happens."""
        ancestors = self.ancestors(meeting)
        inside = {source}.union(*(self.branch(source, arc, meeting, ancestors) for arc in self.after[source]))
        if not set(self.before[meeting]) <= inside:
            return False
        for name in inside:
            arcs = self.after[name]
            if any(arc.is_conditional for arc in arcs) or (len(arcs) > 1 and name not in self.fan_outs):
                return False
        return True


def _arcs(step: MapNode) -> list[_Arc]:
    arcs = list_of(map_of(step, "next"), "arcs")
    items = [arc for arc in arcs.items if isinstance(arc, MapNode)] if arcs is not None else []
    return [_Arc(text_of(arc, "step"), _is_conditional(arc)) for arc in items if "step" in arc]


def _is_conditional(arc: MapNode) -> bool:
    when = arc.get("when")
    return when is not None and not (isinstance(when, Scalar) and _ALWAYS.fullmatch(when.text.strip()))


def _is_inclusive(step: MapNode) -> bool:
    return text_of(map_of(map_of(step, "next"), "spec"), "mode") == "inclusive"


def _admits(step: MapNode) -> bool:
    policy = map_of(map_of(step, "spec"), "policy")
    return policy is not None and "admit" in policy


def _does_anything(step: MapNode) -> bool:
    """Whether it matters how often a step runs: one without a body that leads nowhere does nothing."""
    return "tool" in step or "next" in step


def _join(doc: Lowering, net: _Net, name: str, fan_out: str) -> None:
    step = net.steps[name]
    near = step.get("step") or step
    holder = step.entry("step")
    meeting = f"branches of `{fan_out}` meet at `{name}`"
    if name in net.on_cycles:
        said = f"{meeting}, and it is part of a cycle: say with `admit` what each of its runs waits for"
        doc.todo(holder, said, near) if doc.migrating else None
        return
    # Of tokens with `args` of their own, a join would keep those of one alone.
    if not doc.found_any or name in doc.given_args:
        said = f"{meeting}: it runs once for each. If it is to wait for all, add `admit.join`"
        doc.todo(holder, said, near) if doc.migrating else None
        return
    admit = ensure_map(ensure_map(ensure_map(step, "spec", near), "policy", near), "admit", near)
    if net.is_certain(fan_out, name):
        doc.report_older("habit", f"{meeting}, which older engines joined,", "`admit.join`", near)
        admit.put(entry("join", make({"from": net.before[name], "need": "all"}, near=near), near=near))
        return
    doc.report_older("habit", f"{meeting}, which older engines joined,", "`admit` with `quiet()`", near)
    rules = [{"when": "{{ quiet() }}", "then": {"allow": True}}]
    admit.put(entry("rules", make(rules, near=near), near=near))
    admit.put(entry("fire", make("once", near=near), near=near))
