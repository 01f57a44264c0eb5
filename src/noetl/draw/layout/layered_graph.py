"""A component of the net as a layered graph: the row of each step, and spots and wires that run from one row to the next.

Rows of cards and rows of labels take turns. A label is a spot of its own, so nothing is ever drawn over it; where a
line passes a row, it has a lane there, so it never runs behind a card. An arc that runs backwards leaves its step at
the bottom, turns, goes up in a lane beside the steps and enters from the top. Arcs that come from far to one step
share a lane, the trunk.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isqrt

import msgspec

from noetl.draw.picture import Link

# Which arcs run backwards, and on which row each step stands: the part of a layered layout that asks no sizes.


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


CARD, LABEL, LANE = "card", "label", "lane"
#: so many long arcs to one step are bundled
_BUNDLE = 3
#: a row has so many cards, and in a large net some more; marks and other small things are not counted
_WIDEST, _SMALL = 6, 40.0
#: how strongly lines pull: the way of success decides where steps stand, the other lines follow
_MAIN, _SIDE = 1.0, 0.25


class Spot:
    """A place in a row: a card, a label, or a lane for a passing line."""

    __slots__ = ("height", "index", "kind", "name", "row", "width", "x", "y")

    def __init__(self, kind: str, row: int, size: tuple[float, float] = (0.0, 0.0), name: str = "") -> None:
        self.kind = kind
        self.row = row
        self.width, self.height = size
        self.name = name
        self.index = 0
        self.x = 0.0
        self.y = 0.0


class Wire:
    """The way of one arc: the spots it passes, from its source on."""

    __slots__ = ("back", "direct", "joins", "label", "link", "spots")

    def __init__(self, link: Link, spots: list[Spot], label: Spot | None = None) -> None:
        self.link = link
        self.spots = spots
        self.label = label
        #: it runs up; its spots between source and target are a lane, listed from the bottom to the top
        self.back = False
        #: it ends in a trunk
        self.joins = False
        #: it is too long to be given a lane of its own, and runs behind the cards
        self.direct = False


class Trunk(msgspec.Struct):
    """A line that several arcs to the same step have joined."""

    spots: list[Spot]
    failure: bool
    reachable: bool


class Sizes(msgspec.Struct, frozen=True):
    """Width and height of every card and mark by name, and of the label of each link by its position."""

    nodes: Mapping[str, tuple[float, float]]
    labels: Sequence[tuple[float, float] | None]


class Plan:
    """A component as spots, wires between them, and pairs of spots in neighbouring rows."""

    def __init__(self, links: Sequence[Link], sizes: Sizes, nodes: Sequence[str], *, most_lanes: int) -> None:
        self.spots: list[Spot] = []
        self.wires: list[Wire] = []
        self.trunks: list[Trunk] = []
        #: lanes that run past several rows, from top to bottom: they may change sides as a whole
        self.chains: list[list[Spot]] = []
        #: (upper, lower) → how strongly a line between these two wants to be short
        self.pairs: dict[tuple[int, int], float] = {}
        self._sizes = sizes
        self._lanes_left = most_lanes
        edges = [(link.source, link.target) for link in links]
        order, back = walk(nodes, edges)
        forward = [edge for position, edge in enumerate(edges) if position not in back]
        small = {name for name, (wide, _) in sizes.nodes.items() if wide < _SMALL}
        levels = rank(order, forward, nodes[0])
        rows = fold(levels, small, _WIDEST + isqrt(len(nodes)) // 2)
        self.cards = {name: self._spot(CARD, 2 * rows[name] + 2, sizes.nodes[name], name) for name in nodes}
        # What is far only because a row was folded is not bundled: its lines would all cross in one place.
        far = [
            position
            for position, link in enumerate(links)
            if position not in back and levels[link.target] - levels[link.source] > 1
        ]
        bundled = self._bundle(links, far)
        for position, link in enumerate(links):
            if position in back:
                self._run_back(position, link)
            elif position in bundled:
                self._run_into(bundled[position], position, link)
            else:
                self._run_down(position, link)

    def _spot(self, kind: str, row: int, size: tuple[float, float] = (0.0, 0.0), name: str = "") -> Spot:
        spot = Spot(kind, row, size, name)
        spot.index = len(self.spots)
        self.spots.append(spot)
        return spot

    def _chain(self, spots: Sequence[Spot], pull: float) -> None:
        for upper, lower in pairwise(spots):
            key = (upper.index, lower.index)
            self.pairs[key] = max(pull, self.pairs.get(key, 0.0))

    def _below(self, position: int, row: int) -> Spot:
        """What stands between a card and the next row of cards: a label, or a lane."""
        size = self._sizes.labels[position]
        return self._spot(LANE, row) if size is None else self._spot(LABEL, row, size)

    def _affordable(self, lanes: int) -> bool:
        if lanes > self._lanes_left:
            return False
        self._lanes_left -= lanes
        return True

    def _run_down(self, position: int, link: Link) -> None:
        source, target = self.cards[link.source], self.cards[link.target]
        below = self._below(position, source.row + 1)
        wire = Wire(link, [source, below], below if below.kind == LABEL else None)
        if self._affordable(target.row - source.row - 2):
            wire.spots += [self._spot(LANE, row) for row in range(source.row + 2, target.row)]
        else:
            wire.direct = True
        wire.spots.append(target)
        self._chain(wire.spots if not wire.direct else wire.spots[:2], _pull(link))
        self.wires.append(wire)

    def _run_back(self, position: int, link: Link) -> None:
        source, target = self.cards[link.source], self.cards[link.target]
        size = self._sizes.labels[position]
        # Beside a self loop there is only the row of its own card to put a label in.
        at = source.row - 1 if source.row > target.row else source.row
        wire = Wire(link, [source])
        lane = []
        if self._affordable(source.row - target.row + 3):
            for row in range(target.row, source.row + 1):
                labelled = size is not None and row == at
                spot = self._spot(LABEL, row, size) if labelled and size is not None else self._spot(LANE, row)
                wire.label = spot if labelled else wire.label
                lane.append(spot)
            # The turns take no room of their own, but hold the lane near the cards it connects.
            above, below = self._spot(LANE, target.row - 1), self._spot(LANE, source.row + 1)
            self._chain([above, *lane, below], _SIDE)
            self.chains.append([above, *lane, below])
            self._chain([above, target], _SIDE)
            self._chain([source, below], _SIDE)
        wire.back, wire.direct = True, not lane
        wire.spots += [*reversed(lane), target]
        self.wires.append(wire)

    def _bundle(self, links: Sequence[Link], far: Sequence[int]) -> dict[int, Trunk]:
        """Which of the links that lead far share a trunk, and the trunks, their lanes made."""
        groups: dict[tuple[str, bool, bool], list[int]] = {}
        for position in far:
            link = links[position]
            groups.setdefault((link.target, link.failure, link.reachable), []).append(position)
        bundled: dict[int, Trunk] = {}
        for (name, failure, reachable), members in groups.items():
            target = self.cards[name]
            first = min(self.cards[links[position].source].row for position in members) + 2
            if len(members) < _BUNDLE or not self._affordable(target.row - first):
                continue
            lanes = [self._spot(LANE, row) for row in range(first, target.row)]
            trunk = Trunk([*lanes, target], failure, reachable)
            self._chain(trunk.spots, _SIDE if failure else _MAIN)
            self.trunks.append(trunk)
            self.chains.append(lanes)
            bundled.update(dict.fromkeys(members, trunk))
        return bundled

    def _run_into(self, trunk: Trunk, position: int, link: Link) -> None:
        source = self.cards[link.source]
        below = self._below(position, source.row + 1)
        joint = trunk.spots[source.row + 2 - trunk.spots[0].row]
        wire = Wire(link, [source, below, joint], below if below.kind == LABEL else None)
        wire.joins = True
        self._chain(wire.spots, _pull(link))
        self.wires.append(wire)


def _pull(link: Link) -> float:
    return _SIDE if link.failure else _MAIN
