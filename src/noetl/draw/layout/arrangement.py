"""The arrangement of a plan: of several orders, each placed, the one that looks best."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from noetl.draw.layout.crossings import Crossings, Rows
from noetl.draw.layout.placement import place
from noetl.draw.layout.plan import Plan, Spot

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
        place(plan, best, sweeps=sweeps)
        nearer = lines.exchange_neighbours(_sort_by_x(plan, lines, best), passes=rounds)
        scores.append((_score(plan, lines, nearer, sweeps), nearer))
        _, best = min(scores, key=itemgetter(0))
    if best is not scores[-1][1]:
        place(plan, best, sweeps=sweeps)
    return best


def _score(plan: Plan, lines: Crossings, rows: Rows, sweeps: int) -> float:
    """How bad a plan looks when its rows are in this order; it is placed so."""
    _keep_loops_close(plan, rows)
    place(plan, rows, sweeps=sweeps)
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
