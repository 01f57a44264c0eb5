"""A layered layout of a net, top to bottom, without any format in mind: sizes go in, boxes and curves come out.

`lay_out` is the list of the passes, one per module:

* `ranks`: which arcs run backwards, and the row of each step
* `plan`: the layered graph of spots (cards, labels, lanes) and wires
* `order`, `crossings`: the order within the rows
* `placement`, `alignment`: the x of every spot
* `arrangement`: the best of several orders, each placed
* `ports`, `stack`: where arcs meet cards, and the y of every row
* `routes`: the curve of every arc
"""

from collections.abc import Sequence

from noetl.draw.layout.layered_graph import LANE, Plan, Sizes, Spot, islands
from noetl.draw.layout.routes import ArcRoute, Box, Curve, NetLayout, Routes, Stack, TrunkRoute, find_ports
from noetl.draw.layout.row_order import arrange
from noetl.draw.picture import Link

__all__ = ["ArcRoute", "Box", "Curve", "NetLayout", "Sizes", "TrunkRoute", "islands", "lay_out"]

#: arcs that would need more lanes than these, all together, run behind the cards
_MOST_LANES = 8_000


def lay_out(links: Sequence[Link], sizes: Sizes) -> NetLayout:
    """Lay out a connected part of a net, the first node of `sizes` on top."""
    plan = Plan(links, sizes, list(sizes.nodes), most_lanes=_MOST_LANES + len(links))
    rows = arrange(plan)
    width = _move_to_origin(plan)
    _put_loops_beside_labels(plan)
    ports = find_ports(plan)
    stack = Stack(plan, rows, ports)
    routes = Routes(plan, stack, ports)
    return NetLayout(
        width,
        stack.height,
        {name: _box(spot) for name, spot in plan.cards.items()},
        tuple(
            ArcRoute(
                routes.wire(position), _box(wire.label) if wire.label is not None else None, wire.joins, wire.direct
            )
            for position, wire in enumerate(plan.wires)
        ),
        tuple(
            TrunkRoute(routes.trunk(position), trunk.failure, trunk.reachable)
            for position, trunk in enumerate(plan.trunks)
        ),
    )


def _move_to_origin(plan: Plan) -> float:
    """Move all spots so that the leftmost edge is at 0, and return the width."""
    left = min(spot.x - spot.width / 2 for spot in plan.spots)
    right = max(spot.x + spot.width / 2 for spot in plan.spots)
    for spot in plan.spots:
        spot.x -= left
    return right - left


def _put_loops_beside_labels(plan: Plan) -> None:
    """Run a step's arc to itself between the card and the label, not through the label."""
    for wire in plan.wires:
        card, label = wire.spots[0], wire.label
        if label is not None and wire.spots[-1] is card:
            lane = Spot(LANE, card.row)
            lane.x = label.x + (label.width / 2 + 4) * (1 if label.x < card.x else -1)
            wire.spots[1] = lane


def _box(spot: Spot) -> Box:
    return Box(spot.x - spot.width / 2, spot.y, spot.width, spot.height)
