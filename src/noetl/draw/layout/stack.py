"""The stack of rows: how far apart they are, and the tracks on which backward arcs turn between them."""

from collections.abc import Sequence

from noetl.draw.layout.plan import LABEL, Plan, Spot
from noetl.draw.layout.ports import Ports

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
