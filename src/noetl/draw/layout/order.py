"""The order of spots within the rows of a plan, with few crossings.

grandalf does this part of the Sugiyama method: it sorts every row by where its neighbours are, downwards and upwards.
Its own preparation (`init_all`) finds cycles and ranks recursively; here both are known already. Its coordinates are
not used: they know nothing of lanes, trunks and labels. What it finds is then polished by exchanging neighbours.
"""

from collections import deque
from collections.abc import Iterator

from grandalf.graphs import Edge, Vertex, graph_core  # type: ignore[import-untyped]
from grandalf.layouts import Layer, SugiyamaLayout, VertexViewer  # type: ignore[import-untyped]

from noetl.draw.layout.lines import Lines, Rows
from noetl.draw.layout.plan import Plan

#: grandalf compares every row with every other one
_MOST_ROWS = 1_500


def orders(plan: Plan, lines: Lines, *, rounds: int, most: int) -> list[Rows]:
    """Up to `most` different orders, those with the fewest crossings first."""
    first = _first(plan, lines)
    polished = lines.polished(first, passes=rounds)
    found = [polished]
    starts = (polished, first, [row[::-1] for row in first]) if most > 1 else (polished,)
    for start in starts if lines.crossings(polished) else ():
        for proposed in _proposals(plan, start, rounds):
            better = lines.polished(proposed, passes=rounds)
            if better not in found:
                found.append(better)
    return sorted(found, key=lines.crossings)[:most]


def _proposals(plan: Plan, rows: Rows, rounds: int) -> Iterator[Rows]:
    """What grandalf makes of the rows, round by round, as long as it finds something new."""
    if len(rows) > _MOST_ROWS:
        return
    layout = _layout(plan, rows)
    before: Rows = []
    for _ in range(rounds):
        # One way down last: among orders as good, labels then stand near the step whose arc they are on.
        for oneway in (False, True):
            for _layer in layout.ordering_step(oneway=oneway):
                pass
        found = [[vertex.data for vertex in layer] for layer in layout.layers]
        if found == before:
            return
        before = found
        yield found


def _first(plan: Plan, lines: Lines) -> Rows:
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


def _layout(plan: Plan, rows: Rows) -> SugiyamaLayout:
    vertices = [Vertex(spot) for spot in plan.spots]
    graph = graph_core()
    for vertex in vertices:
        vertex.view = VertexViewer(1, 1)
        graph.sV.add(vertex)
    for upper, lower in plan.pairs:
        graph.sE.add(Edge(vertices[upper], vertices[lower])).attach()
    layout = SugiyamaLayout(graph)
    layout.alt_e = []
    layout.layers = [Layer(vertices[spot.index] for spot in row) for row in rows]
    for height, layer in enumerate(layout.layers):
        for vertex in layer:
            layout.grx[vertex].rank = height
    for layer in layout.layers:
        layer.setup(layout)
    return layout
