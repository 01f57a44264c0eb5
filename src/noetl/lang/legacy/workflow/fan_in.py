"""Branches of one inclusive fan-out that meet: older engines joined them, so the step where they meet waits for all.

A token count says it where every branch surely arrives (`admit.join`); else the step waits until nothing else can reach
it (`quiet()`), and runs once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from noetl.lang.legacy.lowered_document import Lowering, ensure_map
from noetl.lang.reading.node import MapNode, Scalar, entry, list_of, make, map_of, text_of

#: conditions that say no more than: at the end of the step
_ALWAYS = re.compile(
    r"\{\{\s*(?:true|event\.(?:name|type)\s*==\s*['\"](?:step|loop)\.done['\"]|event\.status\s*==\s*['\"]success['\"])\s*\}\}|true"
)


@dataclass(frozen=True)
class _Arc:
    source: str
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
        self.arcs = [arc for step in self.steps.values() for arc in _arcs(step)]
        self.after: dict[str, list[_Arc]] = {name: [] for name in self.steps}
        for arc in self.arcs:
            self.after[arc.source].append(arc)

    @cached_property
    def before(self) -> dict[str, list[str]]:
        """By step, those with an arc to it."""
        found: dict[str, list[str]] = {name: [] for name in self.steps}
        for arc in self.arcs:
            if arc.target in found and arc.source not in found[arc.target] and arc.source != arc.target:
                found[arc.target].append(arc.source)
        return found

    def reach(self, start: str, *, without: frozenset[str] = frozenset()) -> set[str]:
        """The steps that a token at `start` can come to, itself included, not passing through some of them."""
        seen: set[str] = set()
        waiting = [start] if start in self.steps and start not in without else []
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += [
                    arc.target for arc in self.after[name] if arc.target in self.steps and arc.target not in without
                ]
        return seen

    def find_fan_out(self, name: str) -> str | None:
        """The step whose branches meet at a step."""
        before = self.before[name]
        for source, step in self.steps.items() if len(before) > 1 else ():
            arcs = self.after[source]
            if source == name or len(arcs) < 2 or not _is_inclusive(step):
                continue
            branches = [self.branch(source, arc, name) for arc in arcs]
            arrived = [[at for at, branch in enumerate(branches) if one in branch] for one in before]
            meeting = [found for found in arrived if found]
            if len(meeting) > 1 and len({at for found in meeting for at in found}) > 1:
                return source
        return None

    def branch(self, source: str, arc: _Arc, meeting: str) -> set[str]:
        """The steps of one branch; of an arc that leads to the meeting itself, the step that it comes from."""
        if arc.target == meeting:
            return {source}
        return self.reach(arc.target, without=frozenset({meeting, source}))

    def is_certain(self, source: str, meeting: str) -> bool:
        """Whether every step before the meeting gets its token, once, whatever happens."""
        inside: set[str] = {source}
        for arc in self.after[source]:
            inside |= self.branch(source, arc, meeting)
        inside = {one for one in inside if meeting in self.reach(one)}
        if not set(self.before[meeting]) <= inside:
            return False
        for name in inside:
            arcs = self.after[name]
            if any(arc.is_conditional for arc in arcs) or (len(arcs) > 1 and not _is_inclusive(self.steps[name])):
                return False
        return True


def _arcs(step: MapNode) -> list[_Arc]:
    arcs = list_of(map_of(step, "next"), "arcs")
    items = [arc for arc in arcs.items if isinstance(arc, MapNode)] if arcs is not None else []
    return [_Arc(text_of(step, "step"), text_of(arc, "step"), _is_conditional(arc)) for arc in items if "step" in arc]


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
    if fan_out in net.reach(name) or any(name in net.reach(arc.target) for arc in net.after[name]):
        said = f"{meeting}, and it is part of a cycle: say with `admit` what each of its runs waits for"
        doc.todo(holder, said, near) if doc.migrating else None
        return
    if (
        not doc.found_any or name in doc.given_args
    ):  # tokens with `args` of their own are no longer told apart by a join
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
