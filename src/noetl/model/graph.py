"""Directed graphs of many nodes: what is reachable, which parts are strongly connected, what lies on every way.

Nodes are numbers, and a graph is a list of what each of them leads to. Nothing recurses, and everything is linear in
nodes and edges, or nearly so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Graph: TypeAlias = Sequence[Sequence[int]]


def find_reachable(graph: Graph, starts: Iterable[int]) -> set[int]:
    """All nodes that can be reached from some nodes, these included."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for node in graph[waiting.pop()]:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def find_components(graph: Graph) -> list[list[int]]:
    """The strongly connected components, each after those that it leads to (Tarjan)."""
    index = [-1] * len(graph)
    low = [0] * len(graph)
    on_stack = [False] * len(graph)
    stack: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(len(graph)):
        if index[root] >= 0:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        node: int | None = root
        while node is not None or work:
            if node is not None:
                index[node] = low[node] = count
                count += 1
                stack.append(node)
                on_stack[node] = True
                work.append((node, iter(graph[node])))
            at, following = work[-1]
            node = None
            for after in following:
                if index[after] < 0:
                    node = after
                    break
                if on_stack[after]:
                    low[at] = min(low[at], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    found.append(_pop_component(stack, on_stack, at))
    return found


def _pop_component(stack: list[int], on_stack: list[bool], root: int) -> list[int]:
    component: list[int] = []
    while True:
        node = stack.pop()
        on_stack[node] = False
        component.append(node)
        if node == root:
            return component


def find_dominators(graph: Graph, start: int) -> list[int]:
    """Of each node, the last node that every way to it passes; of the start, itself; -1: it cannot be reached.

    The algorithm of Lengauer and Tarjan.
    """
    order, number, parent = _walk_depth_first(graph, start)
    before: list[list[int]] = [[] for _ in order]
    for at, node in enumerate(order):
        for after in graph[node]:
            before[number[after]].append(at)
    forest = _Forest(len(order))
    semi, dominator = forest.semi, [0] * len(order)
    waiting: list[list[int]] = [[] for _ in order]
    for at in range(len(order) - 1, 0, -1):
        # A node that was found earlier is not in the forest yet, and stands for itself.
        semi[at] = min([one if one < at else semi[forest.find_least(one)] for one in before[at]])
        waiting[semi[at]].append(at)
        above = parent[at]
        forest.ancestor[at] = above
        for one in waiting[above]:
            least = forest.find_least(one)
            dominator[one] = least if semi[least] < above else above
        waiting[above] = []
    found = [-1] * len(graph)
    found[start] = start
    for at in range(1, len(order)):
        if dominator[at] != semi[at]:
            dominator[at] = dominator[dominator[at]]
        found[order[at]] = order[dominator[at]]
    return found


def _walk_depth_first(graph: Graph, start: int) -> tuple[list[int], list[int], list[int]]:
    """The reachable nodes in the order of their discovery; of each node its place there; of each place that of its parent."""
    order, parent = [start], [0]
    number = [-1] * len(graph)
    number[start] = 0
    work = [(0, iter(graph[start]))]
    while work:
        at, following = work[-1]
        for after in following:
            if number[after] < 0:
                number[after] = len(order)
                work.append((len(order), iter(graph[after])))
                order.append(after)
                parent.append(at)
                break
        else:
            work.pop()
    return order, number, parent


class _Forest:
    """Trees of nodes; finds the ancestor with the least semidominator, and shortens the way on it."""

    def __init__(self, size: int) -> None:
        self.semi = list(range(size))
        #: of a node in the forest, one above it
        self.ancestor = [-1] * size
        self._least = list(range(size))

    def find_least(self, node: int) -> int:
        """Of the nodes from this one up to below its root, the one whose semidominator is least."""
        ancestor, least, semi = self.ancestor, self._least, self.semi
        way = []
        while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
            way.append(node)
            node = ancestor[node]
        if not way:
            return least[node]
        for one in reversed(way):
            above = ancestor[one]
            if semi[least[above]] < semi[least[one]]:
                least[one] = least[above]
            ancestor[one] = ancestor[above]
        return least[way[0]]


class Tree:
    """A tree, given by the parent of each node: the root is its own, and -1 stands for what is not in it.

    Answers about ancestors without walking up.
    """

    def __init__(self, parents: Sequence[int], root: int, *, last: Sequence[bool]) -> None:
        """`last`: the nodes that come after their siblings."""
        self.parent = parents
        self._children: list[list[int]] = [[] for _ in parents]
        for late in (False, True):
            for node, above in enumerate(parents):
                if above >= 0 and node != root and last[node] is late:
                    self._children[above].append(node)
        #: the nodes in the order in which a walk through the tree enters them
        self.order: list[int] = []
        #: when the walk enters a node, -1 if it never does; and when it has left all that is below it
        self.enter = [-1] * len(parents)
        self._leave = [0] * len(parents)
        work = [root]
        while work:
            node = work.pop()
            if node < 0:
                self._leave[~node] = len(self.order)
                continue
            self.enter[node] = len(self.order)
            self.order.append(node)
            work.append(~node)
            work.extend(reversed(self._children[node]))
        self._heads = self._find_heads()

    def _find_heads(self) -> list[int]:
        """The tree cut into paths that always follow the largest child: of each node, the first of its path."""
        heads = list(range(len(self.parent)))
        for node in self.order:
            if below := self._children[node]:
                heads[max(below, key=lambda child: self._leave[child] - self.enter[child])] = heads[node]
        return heads

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether a node is an ancestor of another, or that one itself."""
        return self.enter[upper] <= self.enter[lower] < self._leave[upper]

    def find_common(self, one: int, other: int) -> int:
        """The lowest node above both, or one of them if it is above the other."""
        while not self.is_above(head := self._heads[one], other):
            one = self.parent[head]
        while not self.is_above(head := self._heads[other], one):
            other = self.parent[head]
        return one if self.enter[one] < self.enter[other] else other

    def child_towards(self, node: int, lower: int) -> int:
        """The child of a node through which the way down to another leads."""
        children = self._children[node]
        return children[bisect_right(children, self.enter[lower], key=self.enter.__getitem__) - 1]
