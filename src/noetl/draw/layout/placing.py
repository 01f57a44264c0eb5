"""Where the spots of a plan stand from left to right.

First each row is moved to where its neighbours above or below want it, as far as the distances within the row allow;
that finds the shape of the whole. Then spots that a line should pass straight are tied into blocks, and the blocks
are moved until every line is short.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from noetl.draw.layout.plan import CARD, LANE, Plan, Spot
from noetl.draw.layout.spread import spread
from noetl.draw.layout.straight import straighten

#: space between two neighbours of a row, by what they are
_BETWEEN_CARDS = 40.0
_BESIDE_LANE = 18.0


def place(plan: Plan, rows: Sequence[Sequence[Spot]], *, sweeps: int) -> None:
    """Set the `x` of every spot to its middle: near its neighbours, lines straight, nothing overlapping."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for upper, lower in plan.pairs:
        below.setdefault(upper, []).append(lower)
        above.setdefault(lower, []).append(upper)
    for row in rows:
        _spread(row, [0.0] * len(row), [1.0] * len(row))
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        looked_at = above if down else below
        for row in rows if down else reversed(rows):
            _pull(plan, row, looked_at, down=down)
    distances = {(left.index, right.index): distance(left, right) for row in rows for left, right in pairwise(row)}
    straighten(plan, rows, distances, rounds=2 * sweeps)


def _pull(plan: Plan, row: Sequence[Spot], looked_at: Mapping[int, Sequence[int]], *, down: bool) -> None:
    wanted, weights = [], []
    for spot in row:
        total = mass = 0.0
        for index in looked_at.get(spot.index, ()):
            other = plan.spots[index]
            pair = (index, spot.index) if down else (spot.index, index)
            weight = plan.pairs[pair] * (8.0 if spot.kind == LANE and other.kind == LANE else 1.0)
            total += weight * other.x
            mass += weight
        wanted.append(total / mass if mass else spot.x)
        weights.append(mass or 0.05)
    _spread(row, wanted, weights)


def _spread(row: Sequence[Spot], wanted: Sequence[float], weights: Sequence[float]) -> None:
    distances = [0.0, *(distance(left, right) for left, right in pairwise(row))]
    for spot, at in zip(row, spread(wanted, weights, distances), strict=True):
        spot.x = at


def distance(left: Spot, right: Spot) -> float:
    """How far apart the middles of two neighbours have to be."""
    space = _BETWEEN_CARDS if left.kind == CARD and right.kind == CARD else _BESIDE_LANE
    return (left.width + right.width) / 2 + space
