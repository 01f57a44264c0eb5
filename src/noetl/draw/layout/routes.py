"""The curve of every arc of a placed plan: its ports on the cards, the tracks between rows, and the resulting geometry.

A line runs straight down through a row and bends only between rows.
"""

from collections.abc import Sequence

import msgspec

from noetl.draw.layout.layered_graph import LABEL, LANE, Plan, Spot
from noetl.draw.layout.placement import spread

# The result of a layout: boxes and curves, in the unit of the sizes it was given, with y growing downwards.


Point = tuple[float, float]


class Box(msgspec.Struct, frozen=True):
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Curve(msgspec.Struct, frozen=True):
    """A line of straight and curved pieces.

    Each piece starts where the one before it ends. A piece of one point is straight and ends there; one of two or three
    points is a Bézier curve: its control points, then its end.
    """

    start: Point
    pieces: tuple[tuple[Point, ...], ...]


class ArcRoute(msgspec.Struct, frozen=True):
    """The way of an arc from its source to its target, or to the trunk that it joins."""

    curve: Curve
    #: where its label stands, if it has one
    label: Box | None = None
    #: it ends in a trunk, which has the arrow
    joins: bool = False
    #: it is too long for a lane of its own, and runs behind the cards
    direct: bool = False


class TrunkRoute(msgspec.Struct, frozen=True):
    """The common way of several arcs to the same target."""

    curve: Curve
    failure: bool
    reachable: bool


class NetLayout(msgspec.Struct, frozen=True):
    """Where everything stands in a connected part of a net."""

    width: float
    height: float
    #: by the name of a card or mark
    boxes: dict[str, Box]
    #: in the order of the links that were given
    arcs: tuple[ArcRoute, ...]
    trunks: tuple[TrunkRoute, ...]


# Ports: where on the edge of a card its arcs leave and enter.


_DISTANCE = 16.0
#: from the corner of a card to its first port
_MARGIN = 14.0


class Ports(msgspec.Struct, frozen=True):
    """The x of every end of a line, by the position of its wire (or trunk) in the plan."""

    leave: dict[int, float]
    enter: dict[int, float]
    trunks: dict[int, float]


class _End(msgspec.Struct, frozen=True):
    """An end of a line, that would like to be right below (or above) the next spot of its line."""

    wanted: float
    position: int
    found: dict[int, float]


def find_ports(plan: Plan) -> Ports:
    """Ports of a plan whose spots have their `x`: lines are straight where they can be, and never share a port."""
    ports = Ports({}, {}, {})
    bottoms: dict[int, list[_End]] = {}
    tops: dict[int, list[_End]] = {}
    for position, wire in enumerate(plan.wires):
        bottoms.setdefault(wire.spots[0].index, []).append(_End(wire.spots[1].x, position, ports.leave))
        if not wire.joins:
            tops.setdefault(wire.spots[-1].index, []).append(_End(wire.spots[-2].x, position, ports.enter))
    for position, trunk in enumerate(plan.trunks):
        tops.setdefault(trunk.spots[-1].index, []).append(_End(trunk.spots[-2].x, position, ports.trunks))
    for edges in (bottoms, tops):
        for index, ends in edges.items():
            _share(plan.spots[index], sorted(ends, key=lambda end: end.wanted))
    return ports


def _share(card: Spot, ends: list[_End]) -> None:
    half = max(min(card.width / 2 - _MARGIN, card.width * 0.36), 0.0)
    apart = min(_DISTANCE, 2 * half / max(len(ends) - 1, 1))
    places = spread([end.wanted for end in ends], [1.0] * len(ends), [apart] * len(ends))
    for position, (end, place) in enumerate(zip(ends, places, strict=True)):
        # As far as the edge goes, less the room that the ends on either side of this one need.
        low = card.x - half + apart * position
        high = card.x + half - apart * (len(ends) - 1 - position)
        end.found[end.position] = min(max(place, low), high)


# The stack of rows: how far apart they are, and the tracks on which backward arcs turn between them.


TRACK = 9.0
#: from a card to the first track below it, and from the head of an arrow to the first track above
_BELOW, _ABOVE = 13.0, 21.0


class Stack:
    """Top and bottom of every row. It sets the `y` of every spot."""

    def __init__(self, plan: Plan, rows: Sequence[Sequence[Spot]], ports: Ports) -> None:
        self._rows = rows
        self._at = {row[0].row: position for position, row in enumerate(rows)}
        self._high = [max(spot.height for spot in row) for row in rows]
        #: the track of each backward wire below its source, above its target
        self.below, self._under = self._tracks(plan, ports.leave, end=0)
        self.above, self._over = self._tracks(plan, ports.enter, end=-1)
        self._tops: list[float] = []
        self.height = self._pile(self._reach(plan))

    def _tracks(self, plan: Plan, ports: dict[int, float], *, end: int) -> tuple[dict[int, int], dict[int, int]]:
        """Tracks by wire, and how many there are by row: the nearest lane turns first, so that turns nest."""
        turning: dict[int, list[tuple[float, int]]] = {}
        for position, wire in enumerate(plan.wires):
            if wire.back and not wire.direct:
                lane = wire.spots[1 if end == 0 else -2]
                turning.setdefault(wire.spots[end].row, []).append((abs(lane.x - ports[position]), position))
        tracks = {position: track for turns in turning.values() for track, (_, position) in enumerate(sorted(turns))}
        return tracks, {self._at[row]: len(turns) for row, turns in turning.items()}

    def _reach(self, plan: Plan) -> list[float]:
        """How far lines run sideways below each row."""
        reach = [0.0] * len(self._rows)
        for upper, lower in plan.pairs:
            first, second = plan.spots[upper], plan.spots[lower]
            at = self._at[first.row]
            reach[at] = max(reach[at], abs(first.x - second.x))
        return reach

    def _pile(self, reach: Sequence[float]) -> float:
        y = 0.0
        for position, row in enumerate(self._rows):
            self._tops.append(y)
            high = self._high[position]
            for spot in row:
                spot.y = y + (high - spot.height) / 2 if spot.kind == LABEL else y
            y += high + self._gap(position, reach[position])
        return y - self._gap(len(self._rows) - 1, 0.0)

    def _gap(self, position: int, reach: float) -> float:
        """The space below a row: enough for its lines to bend gently, and for its turns."""
        turns = 0.0
        if position in self._under:
            turns = _BELOW + TRACK * self._under[position]
        if position + 1 in self._over:
            turns = _ABOVE + TRACK * self._over[position + 1]
        return max(min(18 + 0.07 * reach, 46.0), turns)

    def top(self, spot: Spot) -> float:
        """The top of the row a spot is in."""
        return self._tops[self._at[spot.row]]

    def bottom(self, spot: Spot) -> float:
        """The bottom of the row a spot is in."""
        at = self._at[spot.row]
        return self._tops[at] + self._high[at]

    def is_flat(self, spot: Spot) -> bool:
        """Whether nothing but lines is in its row, so that nobody minds how they cross it."""
        return not self._high[self._at[spot.row]]

    def turn_below(self, position: int, source: Spot) -> float:
        """The y at which a backward wire turns below its source."""
        return self.bottom(source) + _BELOW + TRACK * self.below[position]

    def turn_above(self, position: int, target: Spot) -> float:
        """The y at which a backward wire turns above its target."""
        return self.top(target) - _ABOVE - TRACK * self.above[position]


#: length of the arrow's head, which continues the path
ARROW = 7.0
_RADIUS = 9.0


class _Pen:
    """Draws a curve from where it stands."""

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y
        self._start = (x, y)
        self._pieces: list[tuple[Point, ...]] = []

    @property
    def curve(self) -> Curve:
        """What it has drawn so far."""
        return Curve(self._start, tuple(self._pieces))

    def _draw(self, *points: Point) -> None:
        self._pieces.append(points)
        self.x, self.y = points[-1]

    def down(self, y: float) -> None:
        """Straight down, or up."""
        if abs(y - self.y) > 0.05:
            self._draw((self.x, y))

    def bend(self, x: float, y: float) -> None:
        """To the side, arriving as upright as it leaves."""
        if abs(x - self.x) < 0.6:
            self.down(y)
            return
        middle = (self.y + y) / 2
        self._draw((self.x, middle), (x, middle), (x, y))

    def turn(self, x: float, y: float, then: float) -> None:
        """Around: on to the height `y`, across to `x`, and on to the height `then`, with round corners."""
        side = 1 if x > self.x else -1
        radius = min(_RADIUS, abs(x - self.x) / 2)
        coming = 1 if y > self.y else -1
        going = 1 if then > y else -1
        self.down(y - coming * radius)
        self._draw((self.x, y), (self.x + side * radius, y))
        self._draw((x - side * radius, y))
        self._draw((x, y), (x, y + going * radius))
        self.down(then)


class Routes:
    """Curves, by the position of a wire or trunk in the plan."""

    def __init__(self, plan: Plan, stack: Stack, ports: Ports) -> None:
        self._plan = plan
        self._stack = stack
        self._ports = ports

    def wire(self, position: int) -> Curve:
        """The curve of an arc; it ends where the arrow's head begins, or in its trunk."""
        wire = self._plan.wires[position]
        source, last = wire.spots[0], wire.spots[-1]
        pen = _Pen(self._ports.leave[position], source.y + source.height)
        if wire.back and not wire.direct:
            self._up(pen, position, wire.spots)
        elif wire.joins:
            pen.down(self._stack.bottom(source))
            self._through(pen, wire.spots[1:-1])
            pen.bend(last.x, self._stack.top(last))
        else:
            pen.down(self._stack.bottom(source))
            self._through(pen, wire.spots[1:-1])
            pen.bend(self._ports.enter[position], last.y - ARROW)
        return pen.curve

    def trunk(self, position: int) -> Curve:
        """The curve of a trunk."""
        spots = self._plan.trunks[position].spots
        pen = _Pen(spots[0].x, self._stack.top(spots[0]))
        self._through(pen, spots[:-1])
        pen.bend(self._ports.trunks[position], spots[-1].y - ARROW)
        return pen.curve

    def _through(self, pen: _Pen, spots: Sequence[Spot]) -> None:
        for spot in spots:
            if spot.kind == LANE and self._stack.is_flat(spot):
                continue
            pen.bend(spot.x, self._stack.top(spot))
            pen.down(self._stack.bottom(spot))

    def _up(self, pen: _Pen, position: int, spots: Sequence[Spot]) -> None:
        source, target, lane = spots[0], spots[-1], spots[1:-1]
        pen.turn(lane[0].x, self._stack.turn_below(position, source), self._stack.bottom(lane[0]))
        for spot in lane:
            if spot.kind == LANE and self._stack.is_flat(spot):
                continue
            pen.bend(spot.x, self._stack.bottom(spot))
            pen.down(self._stack.top(spot))
        pen.turn(self._ports.enter[position], self._stack.turn_above(position, target), target.y - ARROW)
