"""The curve of every arc of a placed plan.

A line runs straight down through a row and bends only between rows.
"""

from collections.abc import Sequence

from noetl.draw.layout.geometry import Curve, Point
from noetl.draw.layout.plan import LANE, Plan, Spot
from noetl.draw.layout.ports import Ports
from noetl.draw.layout.stack import Stack

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
