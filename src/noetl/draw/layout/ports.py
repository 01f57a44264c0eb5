"""Ports: where on the edge of a card its arcs leave and enter."""

import msgspec

from noetl.draw.layout.placement import spread
from noetl.draw.layout.plan import Plan, Spot

_DISTANCE = 16.0
#: from the corner of a card to its first port
_MARGIN = 14.0


class Ports(msgspec.Struct, frozen=True):
    """The x of every end of a line, by the position of its wire (or trunk) in the plan."""

    leave: dict[int, float]
    enter: dict[int, float]
    trunks: dict[int, float]


class _End(msgspec.Struct, frozen=True):
    """An end of a line, that would like to be right below (or above) the next spot of its line."""

    wanted: float
    position: int
    found: dict[int, float]


def find_ports(plan: Plan) -> Ports:
    """Ports of a plan whose spots have their `x`: lines are straight where they can be, and never share a port."""
    ports = Ports({}, {}, {})
    bottoms: dict[int, list[_End]] = {}
    tops: dict[int, list[_End]] = {}
    for position, wire in enumerate(plan.wires):
        bottoms.setdefault(wire.spots[0].index, []).append(_End(wire.spots[1].x, position, ports.leave))
        if not wire.joins:
            tops.setdefault(wire.spots[-1].index, []).append(_End(wire.spots[-2].x, position, ports.enter))
    for position, trunk in enumerate(plan.trunks):
        tops.setdefault(trunk.spots[-1].index, []).append(_End(trunk.spots[-2].x, position, ports.trunks))
    for edges in (bottoms, tops):
        for index, ends in edges.items():
            _share(plan.spots[index], sorted(ends, key=lambda end: end.wanted))
    return ports


def _share(card: Spot, ends: list[_End]) -> None:
    half = max(min(card.width / 2 - _MARGIN, card.width * 0.36), 0.0)
    apart = min(_DISTANCE, 2 * half / max(len(ends) - 1, 1))
    places = spread([end.wanted for end in ends], [1.0] * len(ends), [apart] * len(ends))
    for position, (end, place) in enumerate(zip(ends, places, strict=True)):
        # As far as the edge goes, less the room that the ends on either side of this one need.
        low = card.x - half + apart * position
        high = card.x + half - apart * (len(ends) - 1 - position)
        end.found[end.position] = min(max(place, low), high)
