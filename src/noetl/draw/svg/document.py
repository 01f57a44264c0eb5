"""The whole document: title, the connected parts of the net, legend."""

from collections.abc import Iterator, Mapping, Sequence

from noetl.draw.layout import NetLayout, Sizes, islands, lay_out
from noetl.draw.picture import APART, Card, Link, Mark, Picture
from noetl.draw.svg.cards import SMALL, Drawn, common_width, draw_card
from noetl.draw.svg.markup import curve_data, definitions, escape, group, number, path, rect, text, title, use
from noetl.draw.svg.theme import style_sheet
from noetl.draw.text_fitting import clean, elide, shorten, width, wrap

# A connected part of the net, laid out and drawn around its own origin.


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
        yield group(css, [path(curve_data(trunk.curve), "line", more=_arrow_head(failure=trunk.failure))])
    # Those that run behind cards come first, so that other lines are drawn over them.
    for arc, link in sorted(zip(layout.arcs, links, strict=True), key=lambda drawn: not drawn[0].direct):
        css = ("arc" if link.tooltip else "lead") + (" failure" if link.failure else "")
        css += ("" if link.reachable else " faded") + (" far" if arc.direct else "")
        head = "" if arc.joins else _arrow_head(failure=link.failure)
        line = path(curve_data(arc.curve), "line", more=head)
        if not link.tooltip:
            yield group(css, [line])
            continue
        data = f' data-from="{escape(clean(link.source))}" data-to="{escape(_destination(link))}"'
        yield group(css, [title(link.tooltip), line], data=data)


def _destination(link: Link) -> str:
    _, apart, outcome = link.target.rpartition(APART)
    return f"end:{clean(outcome)}" if apart else clean(link.target)


def _arrow_head(*, failure: bool) -> str:
    return f' marker-end="url(#noetl-head{"-failure" if failure else ""})"'


def _labels(layout: NetLayout, links: Sequence[Link], labels: Sequence[Drawn | None]) -> Iterator[str]:
    for arc, link, label in zip(layout.arcs, links, labels, strict=True):
        if label is None or arc.label is None:
            continue
        css = "label" if link.reachable else "label faded"
        yield group(css, [title(link.tooltip), *label.parts], at=(arc.label.x, arc.label.y))


# Labels of arcs: the condition on up to two lines, its number, what it cancels.


_ROOM = 196.0
_LABEL_LINE = 16.0
_PAD = 5.0
_NUMBER = 22.0
#: longer conditions are for the tooltip
_MOST = 44


def draw_label(link: Link) -> Drawn | None:
    """The label of an arc, None when it needs none."""
    if not link.text and not link.cancels:
        return None
    fixed = not link.otherwise
    lines = wrap(shorten(link.text, _MOST), _ROOM, SMALL, lines=2, fixed=fixed) if link.text else ()
    note = elide("cancels " + ", ".join(link.cancels), _ROOM - 16, SMALL) if link.cancels else ""
    before = _NUMBER if link.number is not None else 0.0
    wide = max([width(line, SMALL, fixed=fixed) for line in lines] + [0.0])
    wide = max(before + wide, width(note, SMALL) + 16 if note else 0.0) + 2 * _PAD
    high = _LABEL_LINE * (len(lines) + bool(note)) + 6
    parts = [rect((0, 0), (wide, high), "halo", radius=4)]
    css = "otherwise" if link.otherwise else "when failure" if link.failure else "when"
    if link.number is not None:
        middle = 3 + _LABEL_LINE * len(lines) / 2
        parts.append(f'<circle class="number" cx="{number(_PAD + 8)}" cy="{number(middle)}" r="8"/>')
        parts.append(text((_PAD + 8, middle + 4), str(link.number), "digit", anchor="middle"))
    # Centred, so that a font narrower than the estimate leaves the same air on both sides.
    centre = (before + wide) / 2
    for at, line in enumerate(lines):
        parts.append(text((centre, 15 + _LABEL_LINE * at), line, css, anchor="middle"))
    if note:
        base = 15 + _LABEL_LINE * len(lines)
        left = (wide - width(note, SMALL) - 16) / 2
        parts.append(use("cancel", (left, base - 10), 12, "icon failure"))
        parts.append(text((left + 16, base), note, "small failure"))
    return Drawn(wide, high, tuple(parts))


# The legend: one line that explains those signs of a picture that need it, and only the ones it has.


_GLYPH, _GAP, _LEGEND_LINE = 32.0, 24.0, 20.0


def draw_legend(seen: Picture, room: float, *, brief: bool) -> Drawn | None:
    """The legend, wrapped into `room`; None when there is nothing to explain."""
    entries = _entries(seen, brief=brief)
    if not entries:
        return None
    parts = []
    x, y = 0.0, 0.0
    for glyph, words in entries:
        needed = _GLYPH + width(words, SMALL)
        if x and x + needed > room:
            x, y = 0.0, y + _LEGEND_LINE
        parts.append(group("key", [glyph, text((_GLYPH, 14), words, "small")], at=(x, y)))
        x += needed + _GAP
    return Drawn(room, y + _LEGEND_LINE, tuple(parts))


def _entries(seen: Picture, *, brief: bool) -> list[tuple[str, str]]:
    entries = []
    if any(link.failure for link in seen.links):
        entries.append((path("M0 10H24", "line failure"), "after a failure"))
    if not brief and any(link.number is not None for link in seen.links):
        circle = '<circle class="number" cx="12" cy="10" r="8"/>' + text((12, 14), "1", "digit", anchor="middle")
        entries.append((circle, "the first match is taken"))
    if any(card.fans_out for card in seen.cards):
        entries.append((path("M2 10H22", "bar"), "every match is taken"))
    if any(card.gated for card in seen.cards):
        entries.append((path("M2 10H22", "bar gate"), "tokens wait here for one another or a condition"))
    return entries


_MARGIN = 36.0
_BETWEEN = 48.0
_NARROWEST = 420.0
_SHELF = 1100.0
_START = f"{APART}start"
#: in a larger net, cards show names only, and arcs have no labels
_MOST_DETAILED = 600


def draw_svg(seen: Picture) -> str:
    """A playbook's net, top to bottom."""
    brief = len(seen.cards) > _MOST_DETAILED
    wide = common_width(seen.cards)
    nodes = {card.name: _step(card, draw_card(card, wide, brief=brief)) for card in seen.cards}
    nodes.update((mark.name, _end_mark(mark)) for mark in seen.marks)
    links = list(seen.links)
    start = next((card for card in seen.cards if card.start), None)
    if start is not None:
        nodes = {_START: _start_mark(), start.name: nodes.pop(start.name), **nodes}
        links.insert(0, Link(_START, start.name))
    labels = [None if brief else draw_label(link) for link in links]
    body = _arrange(_components(nodes, links, labels))
    return _document(seen, body, draw_legend(seen, body.width, brief=brief))


def _components(nodes: dict[str, Drawn], links: list[Link], labels: list[Drawn | None]) -> list[Drawn]:
    found = islands(list(nodes), [(link.source, link.target) for link in links])
    home = {name: position for position, names in enumerate(found) for name in names}
    inside: list[list[int]] = [[] for _ in found]
    for position, link in enumerate(links):
        inside[home[link.source]].append(position)
    return [
        draw_component(
            {name: nodes[name] for name in names},
            [links[position] for position in positions],
            [labels[position] for position in positions],
        )
        for names, positions in zip(found, inside, strict=True)
    ]


def _arrange(parts: Sequence[Drawn]) -> Drawn:
    """The part with the start, and below it on shelves the parts that no arc connects with it."""
    if not parts:
        return Drawn(_NARROWEST, 0, ())
    top, others = parts[0], parts[1:]
    wide = max(_NARROWEST, top.width, min(_SHELF, sum(part.width + _BETWEEN for part in others) - _BETWEEN))
    wide = max([wide, *(part.width for part in others)])
    body = [group("part", top.parts, at=((wide - top.width) / 2, 0))]
    if not others:
        return Drawn(wide, top.height, tuple(body))
    y = top.height + _BETWEEN
    body.append(path(f"M0 {number(y)}H{number(wide)}", "rule"))
    body.append(text((0, y + 24), "Never reached from the start", "section"))
    y += 44
    x = shelf = 0.0
    for part in others:
        if x and x + part.width > wide:
            x, y, shelf = 0.0, y + shelf + _BETWEEN, 0.0
        body.append(group("part", part.parts, at=(x, y)))
        x += part.width + _BETWEEN
        shelf = max(shelf, part.height)
    return Drawn(wide, y + shelf, tuple(body))


def _step(card: Card, drawn: Drawn) -> Drawn:
    css = f"step {card.role}" + ("" if card.reachable else " faded")
    data = f' data-step="{escape(clean(card.name))}"'
    parts = [group(css, [title(card.tooltip), *drawn.parts], data=data)]
    if not card.reachable:
        # What is faded is seen through; no line should be.
        parts.insert(0, rect((0, 0), (drawn.width, drawn.height), "blank", radius=12))
    return Drawn(drawn.width, drawn.height, tuple(parts))


def _start_mark() -> Drawn:
    return Drawn(18, 18, (title("The execution starts here."), '<circle class="begin" cx="9" cy="9" r="8"/>'))


def _end_mark(mark: Mark) -> Drawn:
    failed = mark.outcome == "failed"
    tone = "bad" if failed else "good"
    sign = "M8.5 8.5l7 7M15.5 8.5l-7 7" if failed else "M7.8 12.3l2.9 2.9 5.5-6"
    parts = (
        title(f"The execution ends here: {clean(mark.outcome)}."),
        f'<circle class="icon card {tone}" cx="12" cy="12" r="11"/>',
        path(sign, f"icon {tone}"),
    )
    return Drawn(24, 24, (group("mark", parts),))


def _document(seen: Picture, body: Drawn, legend: Drawn | None) -> str:
    wide = body.width + 2 * _MARGIN
    top = _MARGIN + 60
    high = top + body.height + _MARGIN + (legend.height + _BETWEEN if legend is not None else 0)
    steps = f"{len(seen.cards)} step" + ("" if len(seen.cards) == 1 else "s")
    caption = " · ".join(filter(None, (seen.path if seen.path != seen.name else "", steps, seen.desc)))
    parts = [
        rect((0, 0), (wide, high), "page"),
        text((_MARGIN, _MARGIN + 14), elide(seen.name, body.width, 18, bold=True), "title"),
        text((_MARGIN, _MARGIN + 34), elide(caption, body.width, SMALL), "small"),
        group("net", body.parts, at=(_MARGIN, top)),
    ]
    if legend is not None:
        parts.append(group("legend", legend.parts, at=(_MARGIN, top + body.height + _BETWEEN)))
    names = ", ".join(clean(card.name) for card in seen.cards[:40])
    about = f"{steps}, {len(seen.links)} arcs: {names}" + (" …" if len(seen.cards) > 40 else "")
    size = f'width="{number(wide)}" height="{number(high)}" viewBox="0 0 {number(wide)} {number(high)}"'
    named = 'role="img" aria-labelledby="noetl-title noetl-desc"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="noetl-net" {size} {named}>',
            f'<title id="noetl-title">{escape(seen.name)}</title>',
            f'<desc id="noetl-desc">{escape(about)}</desc>',
            f"<style>\n{style_sheet()}\n</style>",
            f"<defs>{_head('head', '')}{_head('head-failure', ' failure')}{definitions(parts)}</defs>",
            *parts,
            "</svg>\n",
        )
    )


def _head(name: str, css: str) -> str:
    return (
        f'<marker id="noetl-{name}" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="10" refX="0" refY="5" '
        f'orient="auto"><path class="head{css}" d="M0 .8L8 5 0 9.2z"/></marker>'
    )
