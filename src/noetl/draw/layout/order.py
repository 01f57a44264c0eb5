"""The order of spots within the rows of a plan, with few crossings.

This part of the Sugiyama method sorts every row by where its neighbours are, upwards and downwards in turn. Neither
the mean nor the median of the neighbours is always better, and much depends on the first order, so several
combinations are tried. Each order that a round finds is improved by exchanging neighbours.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from noetl.draw.layout.crossings import Crossings, Rows
from noetl.draw.layout.plan import Plan, Spot

#: rounds of sorting after which hardly any order still changes for the better
_MOST_ROUNDS = 8


def find_orders(plan: Plan, lines: Crossings, *, rounds: int, most: int) -> list[Rows]:
    """Up to `most` different orders, those with the fewest crossings first."""
    first = _walk_order(plan, lines)
    improved = lines.exchange_neighbours(first, passes=rounds)
    found = [improved]
    several = most > 1
    starts = (improved, first, [row[::-1] for row in first]) if several else (improved,)
    for start in starts if lines.count(improved) else ():
        for middle in (_mean, _median) if several else (_mean,):
            for proposed in _sort_repeatedly(lines, start, middle, rounds=min(rounds, _MOST_ROUNDS)):
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
