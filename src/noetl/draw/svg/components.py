"""A connected part of the net, laid out and drawn around its own origin."""

from collections.abc import Iterator, Mapping, Sequence

from noetl.draw.layout.arranging import arrange
from noetl.draw.layout.plan import LANE, Plan, Sizes, Spot
from noetl.draw.layout.ports import find_ports
from noetl.draw.layout.stack import Stack
from noetl.draw.picture import APART, Link
from noetl.draw.svg.cards import Drawn
from noetl.draw.svg.markup import escape, group, path, title
from noetl.draw.svg.routes import Routes
from noetl.draw.text import clean

#: arcs that would need more lanes than these, all together, run behind the cards
_MOST_LANES = 8_000


def draw_component(nodes: Mapping[str, Drawn], links: Sequence[Link], labels: Sequence[Drawn | None]) -> Drawn:
    """The nodes, the first of them on top, with all links between them."""
    sizes = Sizes(
        {name: (drawn.width, drawn.height) for name, drawn in nodes.items()},
        [(label.width, label.height) if label is not None else None for label in labels],
    )
    plan = Plan(links, sizes, list(nodes), most_lanes=_MOST_LANES + len(links))
    rows = arrange(plan)
    left = min(spot.x - spot.width / 2 for spot in plan.spots)
    right = max(spot.x + spot.width / 2 for spot in plan.spots)
    for spot in plan.spots:
        spot.x -= left
    _loop_beside_label(plan)
    ports = find_ports(plan)
    stack = Stack(plan, rows, ports)
    routes = Routes(plan, stack, ports)
    parts = [*_lines(plan, routes)]
    for name, drawn in nodes.items():
        spot = plan.cards[name]
        parts.append(group("at", drawn.parts, at=(spot.x - spot.width / 2, spot.y)))
    parts.extend(_labels(plan, links, labels))
    return Drawn(right - left, stack.height, tuple(parts))


def _loop_beside_label(plan: Plan) -> None:
    """A step's arc to itself runs between the card and the label, not through the label."""
    for wire in plan.wires:
        card, label = wire.spots[0], wire.label
        if label is not None and wire.spots[-1] is card:
            lane = Spot(LANE, card.row)
            lane.x = label.x + (label.width / 2 + 4) * (1 if label.x < card.x else -1)
            wire.spots[1] = lane


def _lines(plan: Plan, routes: Routes) -> Iterator[str]:
    far_first = sorted(range(len(plan.wires)), key=lambda position: not plan.wires[position].direct)
    for position, trunk in enumerate(plan.trunks):
        css = "trunk" + (" failure" if trunk.failure else "") + ("" if trunk.reachable else " faded")
        yield group(css, [path(routes.trunk(position), "line", more=_head(failure=trunk.failure))])
    for position in far_first:
        wire = plan.wires[position]
        link = wire.link
        css = ("arc" if link.tooltip else "lead") + (" failure" if link.failure else "")
        css += ("" if link.reachable else " faded") + (" far" if wire.direct else "")
        head = "" if wire.joins else _head(failure=link.failure)
        line = path(routes.wire(position), "line", more=head)
        if not link.tooltip:
            yield group(css, [line])
            continue
        data = f' data-from="{escape(clean(link.source))}" data-to="{escape(_destination(link))}"'
        yield group(css, [title(link.tooltip), line], data=data)


def _destination(link: Link) -> str:
    _, apart, outcome = link.target.rpartition(APART)
    return f"end:{clean(outcome)}" if apart else clean(link.target)


def _head(*, failure: bool) -> str:
    return f' marker-end="url(#noetl-head{"-failure" if failure else ""})"'


def _labels(plan: Plan, links: Sequence[Link], labels: Sequence[Drawn | None]) -> Iterator[str]:
    drawn = {id(link): label for link, label in zip(links, labels, strict=True)}
    for wire in plan.wires:
        label = drawn[id(wire.link)]
        if label is None or wire.label is None:
            continue
        spot = wire.label
        css = "label" if wire.link.reachable else "label faded"
        yield group(css, [title(wire.link.tooltip), *label.parts], at=(spot.x - label.width / 2, spot.y))
