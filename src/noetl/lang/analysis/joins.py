"""Dead joins: steps that wait for others of which only one can run, or for one that only runs after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from noetl.model.diagnostics import Diagnostics
from noetl.model.graph import Tree, find_dominators
from noetl.model.net import Net
from noetl.model.playbook import Condition, Step

#: words that make a condition more than a list of things that all must hold
_NOT_A_CONJUNCTION = re.compile(r"\b(?:or|not|if|else)\b|\?")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WAITS_FOR = frozenset({"done", "ok", "fail", "loop_done", "all_done"})


def report(reached: Iterable[Step], net: Net, in_circle: set[str], problems: Diagnostics) -> None:
    """Report joins that can never fire, of the steps that a token can reach; `in_circle`: those that can run again."""
    waiting = [(step, waits) for step in reached if (waits := _find_waits(step))]
    if not waiting:
        return
    exclusions = _Exclusions(net, in_circle)
    for step, waits in waiting:
        reasons = [exclusions.explain(wait, step) for wait in waits]
        if all(reasons):
            problems.warning("dead-join", f"step `{step.name}` waits for ever: {reasons[0]}", step.at,
                             fix="wait for one of them (`any_done([…])`, `need: 1`), or use `mode: inclusive`")  # fmt: skip


def _find_waits(step: Step) -> list[set[str]]:
    """Sets of steps that all must have run for the step to be admitted, one set for each way in."""
    joined: list[set[str]] = []
    join = step.admission.join
    if join is not None and (join.need is None or join.need >= len(join.places)):
        joined.append(set(join.places))
    waits = list(joined)
    allowing = [rule for rule in step.admission.rules or () if rule.allow]
    for rule in allowing:
        if rule.when is None:
            return joined  # an `else` that allows: nothing need be awaited
        waits.append(_needs(rule.when))
    return [wait for wait in waits if wait] if all(waits) else []


def _needs(condition: Condition) -> set[str]:
    if _NOT_A_CONJUNCTION.search(_QUOTED.sub("", condition.source)):
        return set()
    names: set[str] = set()
    for call in getattr(condition, "calls", ()):
        if call.name in _WAITS_FOR and call.args:
            names.update(name for name in call.args if name is not None)
    return names


class _Exclusions:
    """Finds, among steps that are waited for, two of which a choice lets only one run.

    What lies on every way to a step is above it in the tree of dominators. Its nodes are the steps, and after them their
    arcs. Two steps part for good at a step that chooses once if the ways down to them lead through two of its arcs: it
    is then the lowest node above both.
    """

    def __init__(self, net: Net, in_circle: set[str]) -> None:
        self._names = list(net.steps)
        self._number = {name: at for at, name in enumerate(self._names)}
        graph: list[list[int]] = [[] for _ in self._names]
        for at, step in enumerate(net.steps.values()):
            for arc in step.router.arcs:
                graph[at].append(len(graph))
                graph.append([self._number[arc.step]] if arc.step in self._number else [])
        start = self._number[net.start]
        # The arcs of a step come first, so that steps below different arcs of it are neighbours.
        self._tree = Tree(find_dominators(graph, start), start, last=[self._is_step(at) for at in range(len(graph))])
        self._choosers = self._find_choosers(net, in_circle)

    def _is_step(self, node: int) -> bool:
        return node < len(self._names)

    def _find_choosers(self, net: Net, in_circle: set[str]) -> set[int]:
        """The steps that run at most once, if no circle leads back to them, and then take one arc."""
        steps = list(net.steps.values())
        # After a split of which a step is not forced through one arc, two tokens may arrive.
        splits = [step.router.mode == "inclusive" and len(step.router.arcs) > 1 for step in steps]
        once = [True] * len(self._tree.parent)
        found = set()
        for node in self._tree.order[1:]:
            above = self._tree.parent[node]
            once[node] = once[above] and not (self._is_step(above) and splits[above] and self._is_step(node))
        for node in filter(self._is_step, self._tree.order):
            step = steps[node]
            if once[node] and step.router.mode == "exclusive" and step.name not in in_circle:
                found.add(node)
        return found

    def explain(self, wait: set[str], step: Step) -> str | None:
        """Why not all of these steps can run before another; None: they may."""
        tree, number = self._tree, self._number
        known = [number[name] for name in sorted(wait) if name in number and tree.enter[number[name]] >= 0]
        for node in known:
            if node != number[step.name] and tree.is_above(number[step.name], node):
                return f"`{self._names[node]}` runs only after it"
        excluded = min(self._find_exclusions(known), default=None)
        if excluded is None:
            return None
        one, other, chooser = excluded
        return f"`{chooser}` leads to `{one}` or to `{other}`, never to both"

    def _find_exclusions(self, steps: list[int]) -> Iterator[tuple[str, str, str]]:
        """Of each step that chooses between some of these: the first two names of which it lets only one run."""
        tree, nodes = self._tree, set(steps)
        ordered = sorted(nodes, key=tree.enter.__getitem__)
        nodes.update(tree.find_common(one, other) for one, other in pairwise(ordered))
        #: of a node, the first of the names at or below it
        first = {node: self._names[node] for node in steps}
        #: of a node, the first names below each of its arcs
        below: dict[int, list[str]] = {}
        for node, above in self._walk_up(nodes):
            if node in self._choosers and len(found := sorted(below.get(node, ()))) > 1:
                yield found[0], found[1], self._names[node]
            if above is not None:
                name = first[node]
                first[above] = min(name, first.get(above, name))
                if not self._is_step(tree.child_towards(above, node)):
                    below.setdefault(above, []).append(name)

    def _walk_up(self, nodes: set[int]) -> Iterator[tuple[int, int | None]]:
        """The nodes, each after those below it, with the next of them above it."""
        tree, above = self._tree, list[int]()
        for node in sorted(nodes, key=tree.enter.__getitem__):
            while above and not tree.is_above(above[-1], node):
                yield above.pop(), above[-1] if above else None
            above.append(node)
        while above:
            yield above.pop(), above[-1] if above else None
