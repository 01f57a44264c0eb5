"""Where the spots of a plan stand from left to right.

First each row is moved to where its neighbours above or below want it, as far as the distances within the row allow;
that finds the shape of the whole. Then spots that a line should pass straight are tied into blocks, and the blocks
are moved until every line is short.
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

import msgspec

from noetl.draw.layout.layered_graph import CARD, LANE, Plan, Spot

# Straight lines: spots that a line should pass without a bend are tied into blocks, and blocks are moved as one.
#
# Ties never cross, so "left of" is a partial order of the blocks, and any wish can be brought in line with it twice:
# by pushing everything to the right, and by pushing everything to the left. The mean of the two keeps all distances.


_Pair = tuple[int, int]


def straighten(plan: Plan, rows: Sequence[Sequence[Spot]], distances: Mapping[_Pair, float], *, rounds: int) -> None:
    """Move the spots of a plan so that lines are straight and short; `distances` between neighbours are kept."""
    block_of = _blocks(plan, rows)
    count = max(block_of) + 1
    apart: dict[_Pair, float] = {}
    for (left, right), distance in distances.items():
        pair = (block_of[left], block_of[right])
        apart[pair] = max(apart.get(pair, 0.0), distance)
    neighbours = _Neighbours(count, apart)
    pulls: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for (upper, lower), pull in plan.pairs.items():
        first, second = block_of[upper], block_of[lower]
        if first != second:
            pulls[first].append((second, pull))
            pulls[second].append((first, pull))
    sums = [[0.0, 0] for _ in range(count)]
    for spot in plan.spots:
        sums[block_of[spot.index]][0] += spot.x
        sums[block_of[spot.index]][1] += 1
    places = neighbours.apart([total / number for total, number in sums])
    for _ in range(rounds):
        wanted = [_wish(at, pulls[block], places) for block, at in enumerate(places)]
        places = neighbours.apart(wanted)
    for spot in plan.spots:
        spot.x = places[block_of[spot.index]]


def _wish(at: float, pulls: Sequence[tuple[int, float]], places: Sequence[float]) -> float:
    mass = sum(pull for _, pull in pulls)
    if not mass:
        return at
    # Half the way: all blocks move at once, and two that pull each other would swap places for ever.
    return (at + sum(pull * places[other] for other, pull in pulls) / mass) / 2


class _Neighbours:
    """Blocks in an order in which whatever is left of another comes before it."""

    def __init__(self, count: int, apart: Mapping[_Pair, float]) -> None:
        self._left: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self._right: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        waits = [0] * count
        for (left, right), distance in apart.items():
            self._left[right].append((left, distance))
            self._right[left].append((right, distance))
            waits[right] += 1
        self._order = [block for block in range(count) if not waits[block]]
        for block in self._order:
            for right, _ in self._right[block]:
                waits[right] -= 1
                if not waits[right]:
                    self._order.append(right)

    def apart(self, wanted: Sequence[float]) -> list[float]:
        """The places nearest to those wanted, all distances kept."""
        pushed_right, pushed_left = list(wanted), list(wanted)
        for block in self._order:
            for left, distance in self._left[block]:
                pushed_right[block] = max(pushed_right[block], pushed_right[left] + distance)
        for block in reversed(self._order):
            for right, distance in self._right[block]:
                pushed_left[block] = min(pushed_left[block], pushed_left[right] - distance)
        return [(low + high) / 2 for low, high in zip(pushed_left, pushed_right, strict=True)]


def _blocks(plan: Plan, rows: Sequence[Sequence[Spot]]) -> list[int]:
    """The block of every spot."""
    at = [0] * len(plan.spots)
    for row in rows:
        for position, spot in enumerate(row):
            at[spot.index] = position
    below = _select_uncrossed(plan, at)
    block_of = [-1] * len(plan.spots)
    count = 0
    for row in rows:
        for spot in row:
            if block_of[spot.index] < 0:
                index: int | None = spot.index
                while index is not None:
                    block_of[index] = count
                    index = below.get(index)
                count += 1
    return block_of


def _select_uncrossed(plan: Plan, at: Sequence[int]) -> dict[int, int]:
    """The ties, upper → lower, of which none crosses another; where two do, the more important one stays."""
    kept: dict[int, list[_Pair]] = {}
    below: dict[int, int] = {}
    above: set[int] = set()
    for _, upper, lower in sorted(_ties(plan, at)):
        if upper in below or lower in above:
            continue
        ties = kept.setdefault(plan.spots[upper].row, [])
        tie = (at[upper], at[lower])
        place = bisect(ties, tie)
        if (place and ties[place - 1][1] > tie[1]) or (place < len(ties) and ties[place][1] < tie[1]):
            continue
        ties.insert(place, tie)
        below[upper] = lower
        above.add(lower)
    return below


class _Chain(msgspec.Struct, frozen=True):
    """The spots of a forward line, from top to bottom."""

    spots: Sequence[Spot]
    failure: bool


def _ties(plan: Plan, at: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Pairs that should stand on a line, with how unimportant each is."""
    leaving: dict[int, list[_Chain]] = {}
    entering: dict[int, list[_Chain]] = {}
    for wire in plan.wires:
        chain = _Chain(wire.spots, wire.link.failure)
        yield from _inner_ties(wire.spots[-2:0:-1] if wire.back else wire.spots[1:-1])
        if not wire.back:
            leaving.setdefault(wire.spots[0].index, []).append(chain)
        if not (wire.back or wire.joins or wire.direct):
            entering.setdefault(wire.spots[-1].index, []).append(chain)
    for trunk in plan.trunks:
        yield from _inner_ties(trunk.spots[:-1])
        entering.setdefault(trunk.spots[-1].index, []).append(_Chain(trunk.spots, trunk.failure))
    for index, chains in leaving.items():
        if (chosen := _favourite([(at[chain.spots[1].index], chain) for chain in chains])) is not None:
            yield 1, index, chosen.spots[1].index
    for index, chains in entering.items():
        if (chosen := _favourite([(at[chain.spots[-2].index], chain) for chain in chains])) is not None:
            yield 1, chosen.spots[-2].index, index


def _inner_ties(spots: Sequence[Spot]) -> Iterator[tuple[int, int, int]]:
    return ((0, upper.index, lower.index) for upper, lower in pairwise(spots))


def _favourite(placed: Sequence[tuple[int, _Chain]]) -> _Chain | None:
    """The line that goes on straight: the only one, the only way of success, or the one in the middle."""
    good = [(place, chain) for place, chain in placed if not chain.failure] or placed
    if len(good) % 2 == 0:
        return None
    return sorted(good, key=itemgetter(0))[len(good) // 2][1]


#: space between two neighbours of a row, by what they are
_BETWEEN_CARDS = 40.0
_BESIDE_LANE = 18.0
#: how much more strongly the spots of a lane pull each other
_LANE_PULL = 8.0
#: how strongly a spot without neighbours stays where it is
_REST = 0.05
#: by spot: its neighbours in one direction, and how strongly each pulls
_Pulls = list[list[tuple[Spot, float]]]


def place_spots(plan: Plan, rows: Sequence[Sequence[Spot]], *, sweeps: int) -> None:
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
