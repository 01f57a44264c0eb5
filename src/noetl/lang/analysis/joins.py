"""Dead joins: steps that wait for others of which only one can run, or for one that only runs after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from noetl.model.diagnostics import Diagnostics
from noetl.model.graph import Tree, find_dominators
from noetl.model.net import Net
from noetl.model.playbook import Condition, Step

#: steps (their names) and arcs (step and position), so that "every way to b passes this arc of a" can be asked
NodeId: TypeAlias = str | tuple[str, int]
Graph: TypeAlias = Mapping[NodeId, Sequence[NodeId]]

#: words that make a condition more than a list of things that all must hold
_NOT_A_CONJUNCTION = re.compile(r"\b(?:or|not|if|else)\b|\?")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WAITS_FOR = frozenset({"done", "ok", "fail", "loop_done", "all_done"})


def report(
    reached: Iterable[Step], net: Net, graph: Graph, circles: Iterable[list[NodeId]], problems: Diagnostics
) -> None:
    """Report joins that can never fire, of the steps that a token can reach."""
    waiting = [(step, waits) for step in reached if (waits := _find_waits(step))]
    if not waiting:
        return
    exclusions = _Exclusions(net, graph, circles)
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

    What lies on every way to a step is above it in the tree of dominators. Two steps part for good at a step that
    chooses once if the ways down to them lead through two of its arcs: it is then the lowest node above both.
    """

    def __init__(self, net: Net, graph: Graph, circles: Iterable[list[NodeId]]) -> None:
        # The arcs of a step come first, so that steps below different arcs of it are neighbours.
        self._tree: Tree[NodeId] = Tree(
            find_dominators(graph, net.start), net.start, order=lambda node: isinstance(node, str)
        )
        self._choosers = self._find_choosers(net, {node for circle in circles for node in circle})

    def _find_choosers(self, net: Net, in_circle: set[NodeId]) -> set[NodeId]:
        """The steps that run at most once, if no circle leads back to them, and then take one arc."""
        splits = {
            step.name for step in net.steps.values() if step.router.mode == "inclusive" and len(step.router.arcs) > 1
        }
        # After a split of which a step is not forced through one arc, two tokens may arrive.
        once: dict[NodeId, bool] = {}
        found: set[NodeId] = set()
        for node in self._tree.enter:
            above = self._tree.parent[node]
            once[node] = once.get(above, True) and not (above in splits and above != node and isinstance(node, str))
            if once[node] and isinstance(node, str) and net.steps[node].router.mode == "exclusive":
                found.add(node)
        return found - in_circle

    def explain(self, wait: set[str], step: Step) -> str | None:
        """Why not all of these steps can run before another; None: they may."""
        known = sorted(name for name in wait if name in self._tree.enter)
        for name in known:
            if name != step.name and self._tree.is_above(step.name, name):
                return f"`{name}` runs only after it"
        excluded = min(self._find_exclusions(known), default=None)
        if excluded is None:
            return None
        one, other, chooser = excluded
        return f"`{chooser}` leads to `{one}` or to `{other}`, never to both"

    def _find_exclusions(self, names: list[str]) -> Iterator[tuple[str, str, str]]:
        """Of each step that chooses between some of these: the first two names of which it lets only one run."""
        tree = self._tree
        nodes: set[NodeId] = {*names}
        ordered = sorted(nodes, key=tree.enter.__getitem__)
        nodes.update(tree.common(one, other) for one, other in pairwise(ordered))
        #: of a node, the first of the names at or below it
        first: dict[NodeId, str] = {name: name for name in names}
        #: of a node, the first names below each of its arcs
        below: dict[NodeId, list[str]] = {}
        for node, above in self._walk_up(nodes):
            if node in self._choosers and len(found := sorted(below.get(node, ()))) > 1:
                yield found[0], found[1], str(node)
            if above is not None:
                name = first[node]
                first[above] = min(name, first.get(above, name))
                if not isinstance(tree.child_towards(above, node), str):
                    below.setdefault(above, []).append(name)

    def _walk_up(self, nodes: set[NodeId]) -> Iterator[tuple[NodeId, NodeId | None]]:
        """The nodes, each after those below it, with the next of them above it."""
        tree, above = self._tree, list[NodeId]()
        for node in sorted(nodes, key=tree.enter.__getitem__):
            while above and not tree.is_above(above[-1], node):
                yield above.pop(), above[-1] if above else None
            above.append(node)
        while above:
            yield above.pop(), above[-1] if above else None
