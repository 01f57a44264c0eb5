"""The net as a plain graph: what leads where, in which rounds it runs in circles, and what lies on every way.

Nodes are steps (their names) and arcs (step name and position), so that "every way to b passes this arc of a" can be
asked as well. All of it is linear in the size of the net, or nearly so: nets have thousands of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from noetl.model.net import Net

NodeId: TypeAlias = str | tuple[str, int]
Graph: TypeAlias = Mapping[NodeId, Sequence[NodeId]]


def graph_of(net: Net) -> dict[NodeId, list[NodeId]]:
    """Every step leads to its arcs, every arc to its step."""
    graph: dict[NodeId, list[NodeId]] = {}
    for step in net.steps.values():
        arcs: list[NodeId] = [(step.name, index) for index in range(len(step.router.arcs))]
        graph[step.name] = arcs
        for index, arc in enumerate(step.router.arcs):
            graph[step.name, index] = [arc.step] if arc.step is not None and arc.step in net.steps else []
    return graph


def reachable(graph: Graph, start: NodeId) -> set[NodeId]:
    """All that can be reached from a node, itself included."""
    seen: set[NodeId] = {start}
    waiting = [start]
    while waiting:
        for after in graph[waiting.pop()]:
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


def circles(graph: Graph, nodes: Iterable[NodeId]) -> list[list[NodeId]]:
    """The strongly connected parts in which a token can go round (Tarjan, without recursion)."""
    index: dict[NodeId, int] = {}
    low: dict[NodeId, int] = {}
    on_stack: set[NodeId] = set()
    stack: list[NodeId] = []
    found: list[list[NodeId]] = []
    for root in nodes:
        if root in index:
            continue
        work: list[tuple[NodeId, int]] = [(root, 0)]
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
                    found.append(_pop_part(stack, on_stack, node))
    return [part for part in found if len(part) > 1]


def _pop_part(stack: list[NodeId], on_stack: set[NodeId], root: NodeId) -> list[NodeId]:
    part: list[NodeId] = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        part.append(node)
        if node == root:
            return part


def dominators(graph: Graph, start: NodeId) -> dict[NodeId, NodeId]:
    """Of each reachable node, the last node that every way to it passes (Cooper, Harvey and Kennedy)."""
    order = _postorder(graph, start)
    number = {node: at for at, node in enumerate(order)}
    before: dict[NodeId, list[NodeId]] = {node: [] for node in order}
    for node in order:
        for after in graph[node]:
            before[after].append(node)
    dominator: dict[NodeId, NodeId] = {start: start}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [one for one in before[node] if one in dominator]
            best = known[0]
            for other in known[1:]:
                best = _common(best, other, dominator, number)
            if dominator.get(node) != best:
                dominator[node] = best
                changed = True
    return dominator


def _common(one: NodeId, other: NodeId, dominator: Mapping[NodeId, NodeId], number: Mapping[NodeId, int]) -> NodeId:
    while one != other:
        while number[one] < number[other]:
            one = dominator[one]
        while number[other] < number[one]:
            other = dominator[other]
    return one


def _postorder(graph: Graph, start: NodeId) -> list[NodeId]:
    order: list[NodeId] = []
    seen = {start}
    work: list[tuple[NodeId, int]] = [(start, 0)]
    while work:
        node, position = work.pop()
        if position < len(graph[node]):
            work.append((node, position + 1))
            after = graph[node][position]
            if after not in seen:
                seen.add(after)
                work.append((after, 0))
        else:
            order.append(node)
    return order
