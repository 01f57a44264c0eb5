"""Which arcs run backwards, and on which row each step stands: the part of a layered layout that asks no sizes."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

Edge = tuple[str, str]


def walk(roots: Iterable[str], edges: Sequence[Edge]) -> tuple[list[str], frozenset[int]]:
    """The nodes so that every arc but the backward ones leads onwards, and which arcs those are.

    A depth-first walk, without recursion: playbooks are data, and data may be deep. An arc to a node that the walk is
    still inside of closes a cycle; that finds the arc a reader would call "back", as the walk starts where tokens do.
    """
    out: dict[str, list[tuple[int, str]]] = {}
    for index, (source, target) in enumerate(edges):
        out.setdefault(source, []).append((index, target))
    finished: list[str] = []
    inside: dict[str, bool] = {}
    back: set[int] = set()
    for root in roots:
        stack: list[tuple[str, Iterator[tuple[int, str]]]] = []
        if root not in inside:
            inside[root] = True
            stack.append((root, iter(out.get(root, ()))))
        while stack:
            node, ahead = stack[-1]
            index, target = next(ahead, (-1, ""))
            if index < 0:
                inside[node] = False
                finished.append(node)
                stack.pop()
            elif target not in inside:
                inside[target] = True
                stack.append((target, iter(out.get(target, ()))))
            elif inside[target]:
                back.add(index)
    return finished[::-1], frozenset(back)


def rank(order: Sequence[str], edges: Sequence[Edge], top: str) -> dict[str, int]:
    """The row of each node, from 0: below everything that leads to it.

    `order` is topological for `edges`. A node nothing leads to stands right above what it leads to, except for `top`.
    """
    out: dict[str, list[str]] = {}
    for source, target in edges:
        out.setdefault(source, []).append(target)
    rows = dict.fromkeys(order, 0)
    entered = set()
    for node in order:
        for target in out.get(node, ()):
            rows[target] = max(rows[target], rows[node] + 1)
            entered.add(target)
    for node, targets in out.items():
        if node not in entered and node != top:
            rows[node] = min(rows[target] for target in targets) - 1
    return rows


def fold(rows: Mapping[str, int], small: Container[str], widest: int) -> dict[str, int]:
    """The rows, each with more than `widest` nodes made into several; the `small` nodes are not counted.

    A step that calls a hundred others would else make a picture a hundred steps wide. Neighbours are dealt out in
    turn, so that the lines to the lower ones pass between the upper ones.
    """
    members: dict[int, list[str]] = {}
    for node, row in rows.items():
        members.setdefault(row, []).append(node)
    folded: dict[str, int] = {}
    top = 0
    for row in sorted(members):
        large = [node for node in members[row] if node not in small]
        parts = -(-len(large) // widest) or 1
        folded.update((node, top) for node in members[row])
        folded.update((node, top + place % parts) for place, node in enumerate(large))
        top += parts
    return folded


def islands(nodes: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    """The connected parts of the graph, each in the order of `nodes`."""
    parent = {node: node for node in nodes}

    def root(node: str) -> str:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for source, target in edges:
        parent[root(target)] = root(source)
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(root(node), []).append(node)
    return list(found.values())
