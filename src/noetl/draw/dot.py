"""The picture as a Graphviz graph."""

from collections.abc import Iterator, Mapping

from noetl.draw.picture import END, ROUTER, Card, Link, Picture
from noetl.draw.plain import card_lines, identifiers, link_lines, look
from noetl.draw.tones import TONES, icon_kind

_FAILED, _LINE = "#c8445a", "#8c96a8"


def draw_dot(seen: Picture) -> str:
    """A `digraph`, top to bottom."""
    return "\n".join([f"digraph {_quote([seen.name])} {{", *(f"  {line}" for line in _lines(seen)), "}"]) + "\n"


def _lines(seen: Picture) -> Iterator[str]:
    ids = identifiers(seen)
    yield 'graph [rankdir=TB, nodesep=0.5, ranksep=0.6, fontname="Helvetica", bgcolor="transparent"];'
    yield 'node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=12, margin="0.2,0.12"];'
    yield f'edge [fontname="Helvetica", fontsize=10, color="{_LINE}", arrowsize=0.7];'
    for card in seen.cards:
        yield f"{ids[card.name]} {_attributes(_card(card))};"
    for mark in seen.marks:
        colour = _FAILED if mark.outcome == "failed" else TONES["end"].ink
        drawn: dict[str, str | list[str]] = {"label": [mark.outcome], "shape": "doublecircle"}
        drawn |= {"fillcolor": "#ffffff", "color": colour, "fontsize": "10"}
        yield f"{ids[mark.name]} {_attributes(drawn)};"
    for card in seen.cards:
        if card.start:
            yield f'begin [label="", shape=circle, width=0.2, fillcolor="{_LINE}", color="{_LINE}"];'
            yield f"begin -> {ids[card.name]};"
    for link in seen.links:
        yield f"{ids[link.source]} -> {ids[link.target]} {_attributes(_link(link))};"


def _card(card: Card) -> dict[str, str | list[str]]:
    seen_as = look(card)
    tone = TONES[seen_as if not card.rows or seen_as == "pipeline" else icon_kind(seen_as)]
    found: dict[str, str | list[str]] = {
        "label": card_lines(card),
        "tooltip": card.tooltip.split("\n"),
        "fillcolor": tone.tint if card.reachable else "#fafbfc",
        "color": tone.ink if card.reachable else "#d6dbe4",
        "fontcolor": "#1b2230" if card.reachable else "#98a1b2",
    }
    if card.role == ROUTER:
        found["shape"] = "hexagon"
    if card.role == END:
        found["peripheries"] = "2"
    return found


def _link(link: Link) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {"tooltip": link.tooltip.split("\n")}
    if label := link_lines(link):
        found["label"] = label
    if link.failure:
        found |= {"style": "dashed", "color": _FAILED, "fontcolor": _FAILED}
    return found


def _attributes(attributes: Mapping[str, str | list[str]]) -> str:
    """An attribute list; what is a list of lines comes from the author, and is escaped."""
    pairs = [
        f"{name}={_quote(value)}" if isinstance(value, list) else f'{name}="{value}"'
        for name, value in attributes.items()
    ]
    return f"[{', '.join(pairs)}]"


def _quote(lines: list[str]) -> str:
    return '"' + "\\n".join(map(_escape, lines)) + '"'


def _escape(text: str) -> str:
    """Graphviz reads `\\N` and the like in a label, and HTML entities."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
