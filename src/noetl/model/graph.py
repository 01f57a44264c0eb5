"""Directed graphs of thousands of nodes: what is reachable, which parts are strongly connected, what lies on every way.

Nothing recurses, and everything is linear in nodes and edges, or nearly so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


def find_reachable(after: Callable[[NodeT], Iterable[NodeT]], starts: Iterable[NodeT]) -> set[NodeT]:
    """All nodes that can be reached from some nodes, these included; `after` gives what a node leads to."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for node in after(waiting.pop()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def find_components(graph: Mapping[NodeT, Sequence[NodeT]], nodes: Iterable[NodeT]) -> list[list[NodeT]]:
    """The strongly connected components, each after those that it leads to (Tarjan)."""
    index: dict[NodeT, int] = {}
    low: dict[NodeT, int] = {}
    on_stack: set[NodeT] = set()
    stack: list[NodeT] = []
    found: list[list[NodeT]] = []
    for root in nodes:
        if root in index:
            continue
        work: list[tuple[NodeT, int]] = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            else:
                low[node] = min(low[node], low[graph[node][position - 1]])
            for after_position in range(position, len(graph[node])):
                after = graph[node][after_position]
                if after not in index:
                    work += [(node, after_position + 1), (after, 0)]
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                if low[node] == index[node]:
                    found.append(_pop_component(stack, on_stack, node))
    return found


def _pop_component(stack: list[NodeT], on_stack: set[NodeT], root: NodeT) -> list[NodeT]:
    component: list[NodeT] = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == root:
            return component


def find_dominators(graph: Mapping[NodeT, Sequence[NodeT]], start: NodeT) -> dict[NodeT, NodeT]:
    """Of each reachable node, the last node that every way to it passes; of the start, itself (Lengauer and Tarjan)."""
    order, parent = _walk_depth_first(graph, start)
    number = {node: at for at, node in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for at, node in enumerate(order):
        for after in graph[node]:
            before[number[after]].append(at)
    forest = _Forest(len(order))
    semi, dominator = forest.semi, [0] * len(order)
    waiting: list[list[int]] = [[] for _ in order]
    for at in range(len(order) - 1, 0, -1):
        semi[at] = min(semi[forest.least(one)] for one in before[at])
        waiting[semi[at]].append(at)
        forest.link(parent[at], at)
        for one in waiting[parent[at]]:
            least = forest.least(one)
            dominator[one] = least if semi[least] < semi[one] else parent[at]
        waiting[parent[at]] = []
    for at in range(1, len(order)):
        if dominator[at] != semi[at]:
            dominator[at] = dominator[dominator[at]]
    return {node: order[dominator[at]] for at, node in enumerate(order)}


def _walk_depth_first(graph: Mapping[NodeT, Sequence[NodeT]], start: NodeT) -> tuple[list[NodeT], list[int]]:
    """The reachable nodes in the order of their discovery, and the position of the node from which each was found."""
    order, parent = [start], [0]
    number = {start: 0}
    work: list[tuple[int, Iterator[NodeT]]] = [(0, iter(graph[start]))]
    while work:
        at, following = work[-1]
        for after in following:
            if after not in number:
                number[after] = len(order)
                work.append((len(order), iter(graph[after])))
                order.append(after)
                parent.append(at)
                break
        else:
            work.pop()
    return order, parent


class _Forest:
    """Trees of nodes by their number; finds the ancestor with the least semidominator, and shortens the way on it."""

    def __init__(self, size: int) -> None:
        self.semi = list(range(size))
        self._ancestor = [-1] * size
        self._least = list(range(size))

    def link(self, parent: int, node: int) -> None:
        """Hang a tree below a node."""
        self._ancestor[node] = parent

    def least(self, node: int) -> int:
        """Of the nodes from this one up to below its root, the one whose semidominator is least."""
        ancestor, least, semi = self._ancestor, self._least, self.semi
        if ancestor[node] < 0:
            return node
        way = []
        while ancestor[ancestor[node]] >= 0:
            way.append(node)
            node = ancestor[node]
        for one in reversed(way):
            above = ancestor[one]
            if semi[least[above]] < semi[least[one]]:
                least[one] = least[above]
            ancestor[one] = ancestor[above]
        return least[way[0]] if way else least[node]


class Tree(Generic[NodeT]):
    """A tree, given by the parent of each node; the root is its own. Answers about ancestors without walking up."""

    def __init__(self, parents: Mapping[NodeT, NodeT], root: NodeT, *, order: Callable[[NodeT], Any]) -> None:
        """`order`: by which the children of a node are ordered."""
        self.parent = parents
        self._children: dict[NodeT, list[NodeT]] = {node: [] for node in parents}
        for node, above in parents.items():
            if node != root:
                self._children[above].append(node)
        #: when a walk through the tree enters a node, and when it has left all that is below it
        self.enter: dict[NodeT, int] = {}
        self.leave: dict[NodeT, int] = {}
        work = [(root, False)]
        while work:
            node, left = work.pop()
            if left:
                self.leave[node] = len(self.enter)
                continue
            self.enter[node] = len(self.enter)
            work.append((node, True))
            self._children[node].sort(key=order)
            work += [(child, False) for child in reversed(self._children[node])]
        self._heads = self._find_heads()

    def _find_heads(self) -> dict[NodeT, NodeT]:
        """The tree cut into paths that always follow the largest child: of each node, the first of its path."""
        heads: dict[NodeT, NodeT] = {}
        for node in self.enter:
            heads.setdefault(node, node)
            if below := self._children[node]:
                heads[max(below, key=lambda child: self.leave[child] - self.enter[child])] = heads[node]
        return heads

    def is_above(self, upper: NodeT, lower: NodeT) -> bool:
        """Whether a node is an ancestor of another, or that one itself."""
        return self.enter[upper] <= self.enter[lower] < self.leave[upper]

    def common(self, one: NodeT, other: NodeT) -> NodeT:
        """The lowest node above both, or one of them if it is above the other."""
        while not self.is_above(head := self._heads[one], other):
            one = self.parent[head]
        while not self.is_above(head := self._heads[other], one):
            other = self.parent[head]
        return one if self.enter[one] < self.enter[other] else other

    def child_towards(self, node: NodeT, lower: NodeT) -> NodeT:
        """The child of a node through which the way down to another leads."""
        children = self._children[node]
        return children[bisect_right(children, self.enter[lower], key=self.enter.__getitem__) - 1]
