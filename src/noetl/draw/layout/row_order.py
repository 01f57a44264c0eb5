"""The order of spots within each row: of several orders with few crossings, each placed, the one that looks best."""

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from operator import itemgetter

from noetl.draw.layout.layered_graph import Plan, Spot
from noetl.draw.layout.placement import place_spots

# How the lines of a plan cross, and which small changes make them cross less.


#: what it costs to cross a line that is not of the main flow; crossing a main one costs 1
_SIDE_COST = 0.25
_ROUNDING = 1e-9
#: of two steps with so many pairs of lines, nobody sees which order is better
_HUBS = 10_000
#: further out than any spot
_FAR = 1e9
#: the rows of a plan from top to bottom, each from left to right
Rows = list[list[Spot]]


class Crossings:
    """The lines between the rows of a plan, to count how they cross."""

    def __init__(self, plan: Plan) -> None:
        self.above: list[list[tuple[int, float]]] = [[] for _ in plan.spots]
        self.below: list[list[tuple[int, float]]] = [[] for _ in plan.spots]
        for (upper, lower), pull in plan.pairs.items():
            cost = 1.0 if pull >= 1 else _SIDE_COST
            self.above[lower].append((upper, cost))
            self.below[upper].append((lower, cost))
        self._spots = plan.spots
        self._at = [0] * len(plan.spots)

    def count(self, rows: Sequence[Sequence[Spot]]) -> float:
        """What all crossings cost, in a given order of the rows."""
        self._number(rows)
        total = 0.0
        for row in rows:
            ends = [
                end for spot in row for end in sorted((self._at[lower], cost) for lower, cost in self.below[spot.index])
            ]
            total += _inversions(ends)
        return total

    def _number(self, rows: Sequence[Sequence[Spot]]) -> None:
        for row in rows:
            for position, spot in enumerate(row):
                self._at[spot.index] = position

    def exchange_neighbours(self, rows: Rows, *, passes: int) -> Rows:
        """The rows with neighbours exchanged as long as that saves crossings."""
        better = [list(row) for row in rows]
        self._number(better)
        for _ in range(passes):
            if not sum([self._exchange(row) for row in better]):
                break
        return better

    def move_lane(self, rows: Rows, chain: Sequence[Spot]) -> Rows:
        """The rows of a placed plan with a lane where it crosses least: beside what it connects, or beside everything.

        The lane gets the `x` of where it went, so that another may be moved after it.
        """
        inside = {spot.index for spot in chain}
        # Only these rows, and the lines between them and to the rows beside them, change.
        at = {row[0].row: position for position, row in enumerate(rows)}
        first, end = max(at[chain[0].row] - 1, 0), at[chain[-1].row] + 1
        self._number(rows)
        best, cost = rows[first:end], self.count(rows[first:end])
        chosen: float | None = None
        for side in self._sides(chain, inside):
            moved = [sorted(row, key=lambda spot: side if spot.index in inside else spot.x) for row in rows[first:end]]
            crossed = self.count(moved)
            if crossed < cost - _ROUNDING:
                best, cost, chosen = moved, crossed, side
        if chosen is not None:
            for spot in chain:
                spot.x = chosen
        return [*rows[:first], *best, *rows[end:]]

    def _sides(self, chain: Sequence[Spot], inside: Container[int]) -> list[float]:
        """Places for a lane: beside everything, and on both sides of each card that it connects."""
        sides = [-_FAR, _FAR]
        for index, _ in (*self.below[chain[0].index], *self.above[chain[-1].index]):
            if index not in inside:
                card = self._spots[index]
                sides += [card.x - card.width / 2 - 1, card.x + card.width / 2 + 1]
        return sides

    def _exchange(self, row: list[Spot]) -> int:
        exchanged = 0
        for place in range(len(row) - 1):
            left, right = row[place], row[place + 1]
            saved = self._cost(left.index, right.index) - self._cost(right.index, left.index)
            # Where it makes no difference, a label stands near the step whose arc it is on.
            if saved > _ROUNDING or (saved > -_ROUNDING and self._source(left) > self._source(right)):
                row[place], row[place + 1] = right, left
                self._at[left.index], self._at[right.index] = place + 1, place
                exchanged += 1
        return exchanged

    def _source(self, spot: Spot) -> float:
        above = self.above[spot.index]
        return sum(self._at[upper] for upper, _ in above) / len(above) if above else self._at[spot.index]

    def _cost(self, left: int, right: int) -> float:
        """What the lines of two neighbours cost if they stand in this order."""
        if (len(self.above[left]) + len(self.below[left])) * (len(self.above[right]) + len(self.below[right])) > _HUBS:
            return 0.0
        return sum(
            cost * other_cost
            for ends, other_ends in ((self.above[left], self.above[right]), (self.below[left], self.below[right]))
            for end, cost in ends
            for other, other_cost in other_ends
            if self._at[end] > self._at[other]
        )


def _inversions(ends: Sequence[tuple[int, float]]) -> float:
    """What pairs in the wrong order cost, counted with a Fenwick tree."""
    if len(ends) < 2:
        return 0.0
    tree = [0.0] * (max(place for place, _ in ends) + 2)
    total = seen = 0.0
    for place, cost in ends:
        position, before = place + 1, 0.0
        while position > 0:
            before += tree[position]
            position -= position & -position
        total += (seen - before) * cost
        seen += cost
        position = place + 1
        while position < len(tree):
            tree[position] += cost
            position += position & -position
    return total


# The order of spots within the rows of a plan, with few crossings.
#
# This part of the Sugiyama method sorts every row by where its neighbours are, upwards and downwards in turn. Neither
# the mean nor the median of the neighbours is always better, and much depends on the first order, so several
# combinations are tried. Each order that a round finds is improved by exchanging neighbours.


#: rounds of sorting after which hardly any order still changes for the better
_MOST_SORTS = 8


def find_orders(plan: Plan, lines: Crossings, *, rounds: int, most: int) -> list[Rows]:
    """Up to `most` different orders, those with the fewest crossings first."""
    first = _walk_order(plan, lines)
    improved = lines.exchange_neighbours(first, passes=rounds)
    found = [improved]
    several = most > 1
    starts = (improved, first, [row[::-1] for row in first]) if several else (improved,)
    for start in starts if lines.count(improved) else ():
        for middle in (_mean, _median) if several else (_mean,):
            for proposed in _sort_repeatedly(lines, start, middle, rounds=min(rounds, _MOST_SORTS)):
                better = lines.exchange_neighbours(proposed, passes=rounds)
                if better not in found:
                    found.append(better)
    return sorted(found, key=lines.count)[:most]


def _sort_repeatedly(
    lines: Crossings, rows: Rows, middle: Callable[[Sequence[float]], float], *, rounds: int
) -> Iterator[Rows]:
    """The rows after each round of sorting, as long as a round finds something new."""
    seen: list[Rows] = []
    for _ in range(rounds):
        # Down last: among orders as good, labels then stand near the step whose arc they are on.
        rows = _sort(rows[::-1], lines.below, middle)[::-1]
        rows = _sort(rows, lines.above, middle)
        if rows in seen:
            return
        seen.append(rows)
        yield rows


def _sort(
    rows: Sequence[Sequence[Spot]],
    neighbours: Sequence[Sequence[tuple[int, float]]],
    middle: Callable[[Sequence[float]], float],
) -> Rows:
    """The rows, each sorted by the places of its spots' neighbours, which are in the row before it."""
    # A place is a part of the row's length, so that a spot without neighbours can be compared with the others.
    at: dict[int, float] = {}
    found: Rows = []
    for row in rows:
        wanted = {
            spot.index: middle([at[other] for other, _ in neighbours[spot.index]] or [(place + 0.5) / len(row)])
            for place, spot in enumerate(row)
        }
        found.append(sorted(row, key=lambda spot: wanted[spot.index]))
        at.update((spot.index, (place + 0.5) / len(row)) for place, spot in enumerate(found[-1]))
    return found


def _mean(places: Sequence[float]) -> float:
    return sum(places) / len(places)


def _median(places: Sequence[float]) -> float:
    ordered = sorted(places)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _walk_order(plan: Plan, lines: Crossings) -> Rows:
    """A first order: as a walk from the top comes by, so that branches stay together.

    The main flow is walked to its end before any side way is entered, so that failures begin on the right.
    """
    rows: Rows = [[] for _ in range(max(spot.row for spot in plan.spots) + 1)]
    seen = set()
    later = deque(spot.index for spot in plan.spots if not lines.above[spot.index])
    while later:
        stack = [later.popleft()]
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            rows[plan.spots[index].row].append(plan.spots[index])
            stack.extend(lower for lower, cost in reversed(lines.below[index]) if cost == 1)
            later.extend(lower for lower, cost in lines.below[index] if cost < 1)
    return [row for row in rows if row]


#: a picture is worth so many looks at a spot; the more spots there are, the fewer rounds of improvement
_LOOKS = 12_000
#: moving lanes as a whole is worth it where each spot gets so many
_LOOKS_FOR_LANES = 5
_MOST_ROUNDS, _MOST_SWEEPS, _MOST_ORDERS, _MOST_CHAINS = 24, 24, 5, 24
#: a crossing is as bad as a line that runs so far to the side
_CROSSING = 180.0


def arrange(plan: Plan) -> Rows:
    """Order the spots of a plan within their rows, and set the `x` of each to its middle."""
    looks = _LOOKS // len(plan.spots)
    rounds = min(max(looks, 1), _MOST_ROUNDS)
    sweeps = min(max(4 * looks, 4), _MOST_SWEEPS)
    lines = Crossings(plan)
    scores: list[tuple[float, Rows]] = []
    for rows in find_orders(plan, lines, rounds=rounds, most=min(max(looks // 4, 1), _MOST_ORDERS)):
        scores.append((_score(plan, lines, rows, sweeps), rows))
        if plan.chains and looks >= _LOOKS_FOR_LANES:
            moved = _move_lanes(plan, lines, rows, rounds)
            scores.append((_score(plan, lines, moved, sweeps), moved))
    _, best = min(scores, key=itemgetter(0))
    if len(scores) > 1:
        place_spots(plan, best, sweeps=sweeps)
        nearer = lines.exchange_neighbours(_sort_by_x(plan, lines, best), passes=rounds)
        scores.append((_score(plan, lines, nearer, sweeps), nearer))
        _, best = min(scores, key=itemgetter(0))
    if best is not scores[-1][1]:
        place_spots(plan, best, sweeps=sweeps)
    return best


def _score(plan: Plan, lines: Crossings, rows: Rows, sweeps: int) -> float:
    """How bad a plan looks when its rows are in this order; it is placed so."""
    _keep_loops_close(plan, rows)
    place_spots(plan, rows, sweeps=sweeps)
    return _CROSSING * lines.count(rows) + _sprawl(plan)


def _move_lanes(plan: Plan, lines: Crossings, rows: Rows, rounds: int) -> Rows:
    # The longest first: it has the most to cross, and shorter ones find their side beside it.
    for chain in sorted(plan.chains, key=len, reverse=True)[:_MOST_CHAINS]:
        rows = lines.move_lane(rows, chain)
    return lines.exchange_neighbours(rows, passes=rounds)


def _sort_by_x(plan: Plan, lines: Crossings, rows: Rows) -> Rows:
    """The rows of a placed plan, sorted by where the neighbours on both sides really stand."""

    def mean_x(spot: Spot) -> float:
        places = [plan.spots[other].x for other, _ in (*lines.above[spot.index], *lines.below[spot.index])]
        return sum(places) / len(places) if places else spot.x

    return [sorted(row, key=mean_x) for row in rows]


def _keep_loops_close(plan: Plan, rows: Rows) -> None:
    """A step's arc to itself runs right beside it, whatever else crosses there."""
    row_of = {row[0].row: row for row in rows}
    for wire in plan.wires:
        if wire.back and wire.spots[0] is wire.spots[-1] and not wire.direct:
            card, lane = wire.spots[:2]
            row = row_of[card.row]
            row.remove(lane)
            row.insert(row.index(card) + 1, lane)


def _sprawl(plan: Plan) -> float:
    """How far a placed plan runs to the sides: all its lines, by how much each wants to be short, and its width."""
    lines = sum(pull * abs(plan.spots[upper].x - plan.spots[lower].x) for (upper, lower), pull in plan.pairs.items())
    left = min(spot.x - spot.width / 2 for spot in plan.spots)
    right = max(spot.x + spot.width / 2 for spot in plan.spots)
    return lines + right - left
