"""Where the spots of a plan stand from left to right.

First each row is moved to where its neighbours above or below want it, as far as the distances within the row allow;
that finds the shape of the whole. Then spots that a line should pass straight are tied into blocks, and the blocks
are moved until every line is short.
"""

from collections.abc import Sequence
from itertools import pairwise

from noetl.draw.layout.alignment import straighten
from noetl.draw.layout.plan import CARD, LANE, Plan, Spot

#: space between two neighbours of a row, by what they are
_BETWEEN_CARDS = 40.0
_BESIDE_LANE = 18.0
#: how much more strongly the spots of a lane pull each other
_LANE_PULL = 8.0
#: how strongly a spot without neighbours stays where it is
_REST = 0.05
#: by spot: its neighbours in one direction, and how strongly each pulls
_Pulls = list[list[tuple[Spot, float]]]


def place(plan: Plan, rows: Sequence[Sequence[Spot]], *, sweeps: int) -> None:
    """Set the `x` of every spot to its middle: near its neighbours, lines straight, nothing overlapping."""
    above: _Pulls = [[] for _ in plan.spots]
    below: _Pulls = [[] for _ in plan.spots]
    for (upper, lower), pull in plan.pairs.items():
        first, second = plan.spots[upper], plan.spots[lower]
        weight = pull * (_LANE_PULL if first.kind == LANE and second.kind == LANE else 1.0)
        below[upper].append((second, weight))
        above[lower].append((first, weight))
    spaced = [(row, [0.0, *(distance(left, right) for left, right in pairwise(row))]) for row in rows]
    for row, distances in spaced:
        _set(row, spread([0.0] * len(row), [1.0] * len(row), distances))
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        for row, distances in spaced if down else reversed(spaced):
            _pull(row, distances, above if down else below)
    apart = {(left.index, right.index): distance(left, right) for row in rows for left, right in pairwise(row)}
    straighten(plan, rows, apart, rounds=2 * sweeps)


def _pull(row: Sequence[Spot], distances: Sequence[float], pulls: _Pulls) -> None:
    """Move a row to where its neighbours want it."""
    wanted, weights = [], []
    for spot in row:
        total = mass = 0.0
        for other, weight in pulls[spot.index]:
            total += weight * other.x
            mass += weight
        wanted.append(total / mass if mass else spot.x)
        weights.append(mass or _REST)
    _set(row, spread(wanted, weights, distances))


def _set(row: Sequence[Spot], places: Sequence[float]) -> None:
    for spot, x in zip(row, places, strict=True):
        spot.x = x


def distance(left: Spot, right: Spot) -> float:
    """How far apart the middles of two neighbours have to be."""
    space = _BETWEEN_CARDS if left.kind == CARD and right.kind == CARD else _BESIDE_LANE
    return (left.width + right.width) / 2 + space


def spread(wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Places in the given order, the least weighted squares away from `wanted`.

    `distances[i]` is the least distance between place `i` and the one before it (the first is not looked at).
    Without the distances this is isotonic regression, solved exactly by pooling adjacent violators.
    """
    offsets: list[float] = []
    offset = 0.0
    blocks: list[tuple[float, float, int]] = []
    for want, weight, least in zip(wanted, weights, distances, strict=True):
        offset += least if offsets else 0.0
        offsets.append(offset)
        moment, mass, count = (want - offset) * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > moment / mass:
            more_moment, more_mass, more = blocks.pop()
            moment, mass, count = moment + more_moment, mass + more_mass, count + more
        blocks.append((moment, mass, count))
    means = [moment / mass for moment, mass, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
