"""How the lines of a plan cross, and which small changes make them cross less."""

from collections.abc import Container, Sequence

from noetl.draw.layout.plan import Plan, Spot

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
