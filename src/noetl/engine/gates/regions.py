"""Regions of a net, and which of them a token can still come to: what `quiet()` asks, answered without a search.

A region is a step, or the steps of a circle, from each of which a token can come to every other. Between regions tokens
move one way. So a region that no token and no run can come to any more stays as it is, and all the changes of an
execution together touch each region and each way between two about once.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.model.graph import find_components, find_reachable
from noetl.model.net import Net


def _graph_of(net: Net) -> list[list[int]]:
    """What each step leads to. A node after the last stands for the steps that may be planned, which may lead anywhere."""
    number = {name: at for at, name in enumerate(net.steps)}
    graph: list[list[int]] = [[] for _ in number]
    for name, incoming in net.incoming.items():
        for one in incoming:
            graph[number[one.source]].append(number[name])
    planners = [number[step.name] for step in net.steps.values() if step.router.synthesize is not None]
    if planners:
        graph.append(list(number.values()))
        for planner in planners:
            graph[planner].append(len(number))
    return graph


class Regions:
    """The regions of a net, by number, and how they lead to each other."""

    def __init__(self, net: Net) -> None:
        graph = _graph_of(net)
        components = find_components(graph)
        region = [0] * len(graph)
        for at, component in enumerate(components):
            for node in component:
                region[node] = at
        #: of each step
        self.of = {name: region[node] for node, name in enumerate(net.steps)}
        #: whether a token can leave a step and come back to it
        self.circular = [len(one) > 1 or one[0] in graph[one[0]] for one in components]
        self.after: list[list[int]] = []
        self.before: list[list[int]] = [[] for _ in components]
        for at, component in enumerate(components):
            self.after.append(list({region[other] for node in component for other in graph[node]} - {at}))
            for other in self.after[at]:
                self.before[other].append(at)

    def find_following(self, steps: Iterable[str]) -> set[int]:
        """The regions to which tokens at some steps can come by at least one arc."""
        starts = {self.of[name] for name in steps}
        reached = find_reachable(self.after, {other for at in starts for other in self.after[at]})
        return reached | {at for at in starts if self.circular[at]}

    def find_leading(self, step: str, others: Iterable[str]) -> list[str]:
        """Those of some other steps from which a token can come to a step."""
        at, named = self.of[step], list(others)
        leading = {at} if self.circular[at] else set()
        if any(self.of[name] not in leading for name in named):
            leading |= find_reachable(self.before, self.before[at])
        return [name for name in named if self.of[name] in leading]


class Activity:
    """Where runs and tokens are, by region; which regions they can still come to; and which gates are quiet.

    Changes are noted at once and worked out when they are asked for, because a step ends before its tokens arrive.
    """

    def __init__(self, regions: Regions, asking: Iterable[str]) -> None:
        """`asking`: the gates that ask for `quiet()`."""
        self._regions = regions
        self._asking = frozenset(asking)
        size = len(regions.circular)
        #: the runs, ended steps that are not routed yet, steps with tokens, and tokens on their way of a region
        self._active = [0] * size
        #: whether it had some when the changes were worked out last
        self._counted = [False] * size
        #: how many of the regions before it still have tokens or can get some
        self._leading = [0] * size
        #: its steps that have tokens
        self._held: dict[int, dict[str, None]] = {}
        self._changed: set[int] = set()
        #: of a region without a circle, its gate
        self._single = {regions.of[name]: name for name in self._asking if not regions.circular[regions.of[name]]}
        #: of a region, the gate that is quiet; there is at most one
        self._quiet = dict(self._single)
        #: gates that became quiet, or are so no more, since somebody took this list
        self.turned: list[str] = []

    def shift(self, step: str, by: int) -> None:
        """Note that there is more, or less, under way at a step."""
        at = self._regions.of.get(step)
        if at is not None:
            self._active[at] += by
            self._changed.add(at)

    def hold(self, step: str, *, held: bool) -> None:
        """Note that a step has tokens now, or none any more."""
        at = self._regions.of.get(step)
        if at is None:
            return
        self.shift(step, 1 if held else -1)
        steps = self._held.setdefault(at, {})
        if held:
            steps[step] = None
        else:
            steps.pop(step, None)

    def is_quiet(self, step: str, arriving: int) -> bool:
        """Whether nothing can come to a step but the tokens that it has, and so many that arrive there just now."""
        self.settle()
        at = self._regions.of[step]
        if self._leading[at]:
            return False
        held = step in self._held.get(at, ())
        return not self._regions.circular[at] or self._active[at] == held + arriving

    def settle(self) -> None:
        """Work out what the changes mean."""
        if not self._changed:
            return
        touched, self._changed = self._changed, set()
        rising = [at for at in touched if self._active[at] and not self._counted[at]]
        falling = [at for at in touched if self._counted[at] and not self._active[at]]
        # What is new comes first: a token that moved on keeps open what it can still come to.
        for at in rising:
            self._counted[at] = True
            if not self._leading[at]:
                self._spread(at, 1, touched)
        for at in falling:
            self._counted[at] = False
            if not self._leading[at]:
                self._spread(at, -1, touched)
        for at in touched:
            self._compare(at)

    def _spread(self, start: int, by: int, touched: set[int]) -> None:
        """Tokens can come to a region, or none can any more: so it is with those after it that have no others."""
        waiting = [start]
        while waiting:
            for other in self._regions.after[waiting.pop()]:
                before = self._leading[other]
                self._leading[other] = now = before + by
                if before and now:
                    continue
                touched.add(other)
                if not self._counted[other]:
                    waiting.append(other)

    def _compare(self, at: int) -> None:
        before, now = self._quiet.get(at), self._find_quiet(at)
        if before == now:
            return
        self.turned += [gate for gate in (before, now) if gate is not None]
        if now is None:
            del self._quiet[at]
        else:
            self._quiet[at] = now

    def _find_quiet(self, at: int) -> str | None:
        if self._leading[at]:
            return None
        held = self._held.get(at, {})
        if self._regions.circular[at] and self._active[at] == len(held) == 1:
            gate = next(iter(held))
            return gate if gate in self._asking else None
        return self._single.get(at)
