"""Branches of one fan-out that meet again: older engines waited there for all of them, and started the step once."""

from __future__ import annotations

import re
from collections import defaultdict

from noetl.lang.legacy.lowered_document import Lowering, ensure_map
from noetl.lang.reading.node import MapNode, entry, list_of, make, map_of, text_of

#: conditions that say no more than: at the end
_ALWAYS = re.compile(
    r"(?:\{\{\s*(?:true|event\.(?:name|type)\s*==\s*['\"](?:step|loop)\.done['\"]|event\.status\s*==\s*['\"]success['\"])\s*\}\}|true)?$"
)


def lower(doc: Lowering) -> None:
    """Make the steps where branches meet wait for them; where nothing else is older, a person decides."""
    if not (doc.accepted or doc.migrating):
        return
    net = _Net(doc)
    for name, step in net.steps.items():
        if "admit" in (map_of(map_of(step, "spec"), "policy") or ()) or not _does_anything(step):
            continue
        if not net.is_meeting(name):
            continue
        if not doc.found_legacy:
            said = (
                f"`{name}` runs once for each branch that leads to it; older engines waited for all: see `admit.join`"
            )
            doc.todo(step.entry("step"), said, step) if doc.migrating else None
        elif net.returns(name):
            said = f"branches meet at `{name}`, which is part of a cycle: say with `admit` which tokens it waits for"
            doc.todo(step.entry("step"), said, step)
        else:
            _wait(doc, step, net)


def _does_anything(step: MapNode) -> bool:
    """Whether it matters how often a step runs: not that of an `end` which is no more than a name."""
    return any(word in step for word in ("tool", "next", "set", "output"))


def _wait(doc: Lowering, step: MapNode, net: _Net) -> None:
    name = text_of(step, "step")
    near = step.get("step") or step
    doc.report_older("habit", f"branches that meet at `{name}`", "`admit.join`, or `quiet()`", near)
    sources = net.sources[name]
    if net.always_meets(name):
        admit: dict[str, object] = {"join": {"from": sources, "need": "all"}}
    else:
        admit = {"fire": "once", "rules": [{"when": "{{ quiet() }}", "then": {"allow": True}}]}
    policy = ensure_map(ensure_map(step, "spec", near), "policy", near)
    policy.put(entry("admit", make(admit, near=near), near=near))


class _Net:
    """The arcs of a lowered document."""

    def __init__(self, doc: Lowering) -> None:
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        self.arcs: dict[str, list[tuple[str, bool]]] = {}
        self.sources: dict[str, list[str]] = defaultdict(list)
        for name, step in self.steps.items():
            items = list_of(map_of(step, "next"), "arcs")
            arcs = [arc for arc in (items.items if items is not None else []) if isinstance(arc, MapNode)]
            self.arcs[name] = [(text_of(arc, "step"), _ALWAYS.match(text_of(arc, "when")) is not None) for arc in arcs]
            for target in dict.fromkeys(target for target, _ in self.arcs[name]):
                self.sources[target].append(name)

    def fans_out(self, name: str) -> bool:
        """Whether a step may send out several tokens."""
        spec = map_of(map_of(self.steps[name], "next"), "spec")
        return len({target for target, _ in self.arcs[name]}) > 1 and text_of(spec, "mode") == "inclusive"

    def reach(self, start: str, *, without: str) -> set[str]:
        """The steps that a token at a step can come to, not through another."""
        found: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in found and name != without and name in self.arcs:
                found.add(name)
                waiting.extend(target for target, _ in self.arcs[name])
        return found

    def is_meeting(self, name: str) -> bool:
        """Whether two branches of one fan-out come to a step by different predecessors."""
        sources = set(self.sources[name])
        if len(sources) < 2:
            return False
        for fork in self.steps:
            if fork == name or not self.fans_out(fork):
                continue
            branches = [
                {fork} if target == name else self.reach(target, without=name) & sources
                for target, _ in self.arcs[fork]
            ]
            branches = [branch for branch in branches if branch]
            if len(branches) > 1 and len(set().union(*branches)) > 1:
                return True
        return False

    def returns(self, name: str) -> bool:
        """Whether a token that leaves a step can come to it again."""
        return any(name == target or name in self.reach(target, without="") for target, _ in self.arcs[name])

    def always_meets(self, name: str) -> bool:
        """Whether every predecessor of a step sends it one token, always."""
        return all(self._sends_once(source, name, ()) for source in self.sources[name])

    def _sends_once(self, source: str, target: str, seen: tuple[str, ...]) -> bool:
        """Whether a step is sure to run once, and then to send a token on."""
        arcs = self.arcs[source]
        alone = len(arcs) == 1 or self.fans_out(source)
        if source in seen or not alone or [always for to, always in arcs if to == target] != [True]:
            return False
        before = self.sources[source]
        return not before or (len(before) == 1 and self._sends_once(before[0], source, (*seen, source)))
