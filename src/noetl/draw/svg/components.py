"""A connected part of the net, laid out and drawn around its own origin."""

from collections.abc import Iterator, Mapping, Sequence

from noetl.draw.layout import NetLayout, Sizes, lay_out
from noetl.draw.picture import APART, Link
from noetl.draw.svg.cards import Drawn
from noetl.draw.svg.markup import curve_data, escape, group, path, title
from noetl.draw.text import clean


def draw_component(nodes: Mapping[str, Drawn], links: Sequence[Link], labels: Sequence[Drawn | None]) -> Drawn:
    """The nodes, the first of them on top, with all links between them."""
    sizes = Sizes(
        {name: (drawn.width, drawn.height) for name, drawn in nodes.items()},
        [(label.width, label.height) if label is not None else None for label in labels],
    )
    layout = lay_out(links, sizes)
    parts = [*_lines(layout, links)]
    for name, drawn in nodes.items():
        box = layout.boxes[name]
        parts.append(group("at", drawn.parts, at=(box.x, box.y)))
    parts.extend(_labels(layout, links, labels))
    return Drawn(layout.width, layout.height, tuple(parts))


def _lines(layout: NetLayout, links: Sequence[Link]) -> Iterator[str]:
    for trunk in layout.trunks:
        css = "trunk" + (" failure" if trunk.failure else "") + ("" if trunk.reachable else " faded")
        yield group(css, [path(curve_data(trunk.curve), "line", more=_head(failure=trunk.failure))])
    # Those that run behind cards come first, so that other lines are drawn over them.
    for arc, link in sorted(zip(layout.arcs, links, strict=True), key=lambda drawn: not drawn[0].direct):
        css = ("arc" if link.tooltip else "lead") + (" failure" if link.failure else "")
        css += ("" if link.reachable else " faded") + (" far" if arc.direct else "")
        head = "" if arc.joins else _head(failure=link.failure)
        line = path(curve_data(arc.curve), "line", more=head)
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


def _labels(layout: NetLayout, links: Sequence[Link], labels: Sequence[Drawn | None]) -> Iterator[str]:
    for arc, link, label in zip(layout.arcs, links, labels, strict=True):
        if label is None or arc.label is None:
            continue
        css = "label" if link.reachable else "label faded"
        yield group(css, [title(link.tooltip), *label.parts], at=(arc.label.x, arc.label.y))
