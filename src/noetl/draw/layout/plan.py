"""Spots and wires: a component of the net as a layered graph in which every line runs from one row to the next.

Rows of cards and rows of labels take turns. A label is a spot of its own, so nothing is ever drawn over it; where a
line passes a row, it has a lane there, so it never runs behind a card. An arc that runs backwards leaves its step at
the bottom, turns, goes up in a lane beside the steps and enters from the top. Arcs that come from far to one step
share a lane, the trunk.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isqrt

import msgspec

from noetl.draw.layout.ranks import fold, rank, walk
from noetl.draw.picture import Link

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
