"""The picture as Mermaid and as Graphviz DOT: steps and arcs as lines of text; those formats do the layout."""

import re
from collections.abc import Iterator, Mapping

from noetl.draw.picture import END, ROUTER, Card, Link, Picture, Row
from noetl.draw.text_fitting import clean, shorten
from noetl.draw.tones import TONES, icon_kind

_MOST_TASKS, _FIRST_TASKS, _LAST_TASKS = 6, 3, 2
_MOST_CHARACTERS, _MOST_OF_A_CONDITION = 60, 36
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def identifiers(seen: Picture) -> dict[str, str]:
    """For every card and mark a name that is safe in any language, unlike any other and unlike any keyword."""
    names = [card.name for card in seen.cards] + [mark.name for mark in seen.marks]
    return {name: f"s{position}_{_UNSAFE.sub('_', name)[:24].strip('_')}" for position, name in enumerate(names)}


def card_lines(card: Card) -> list[str]:
    """What a card says, line by line, its name first."""
    lines = [clean(card.name), _what(card)]
    if len(card.rows) > 1:
        lines += _tasks(card.rows)
    lines += [badge.text for badge in card.badges]
    if card.fans_out:
        lines.append("every matching arc is taken")
    return [shorten(line, _MOST_CHARACTERS) for line in lines if line]


def _what(card: Card) -> str:
    kind = ""
    if card.rows:
        kind = card.rows[0].kind if len(card.rows) == 1 else f"{len(card.rows)} tasks"
    return " · ".join(filter(None, (kind, card.desc)))


def _tasks(rows: tuple[Row, ...]) -> list[str]:
    lines = [f"{number}. {row.name} ({row.kind})" for number, row in enumerate(rows, 1)]
    if len(lines) <= _MOST_TASKS:
        return lines
    hidden = len(lines) - _FIRST_TASKS - _LAST_TASKS
    return [*lines[:_FIRST_TASKS], f"… {hidden} more", *lines[-_LAST_TASKS:]]


def link_lines(link: Link) -> list[str]:
    """What stands beside an arc, line by line."""
    number = f"{link.number} · " if link.number is not None else ""
    lines = [number + shorten(link.text, _MOST_OF_A_CONDITION)] if link.text else []
    if link.cancels:
        lines.append(shorten("cancels " + ", ".join(link.cancels), _MOST_OF_A_CONDITION))
    return lines


def look(card: Card) -> str:
    """The kind whose colours a card has."""
    if not card.rows:
        return card.role
    return card.rows[0].kind if len(card.rows) == 1 else "pipeline"


# The picture as a Graphviz graph.


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


# The picture as a Mermaid flowchart, to paste into Markdown.


_HARMLESS = frozenset(" .,-_/=+!")


def draw_mermaid(seen: Picture) -> str:
    """A `flowchart TD`."""
    return "\n".join(["flowchart TD", *(f"  {line}" for line in _mermaid_lines(seen))]) + "\n"


def _mermaid_lines(seen: Picture) -> Iterator[str]:
    ids = identifiers(seen)
    classes: dict[str, list[str]] = {}
    for card in seen.cards:
        yield ids[card.name] + _shape(card)
        classes.setdefault(_class(card), []).append(ids[card.name])
        if not card.reachable:
            classes.setdefault("faded", []).append(ids[card.name])
    for mark in seen.marks:
        yield f"{ids[mark.name]}((({_quote_mermaid([mark.outcome])})))"
        classes.setdefault("failed" if mark.outcome == "failed" else "completed", []).append(ids[mark.name])
    failures = []
    edges = 0
    for card in seen.cards:
        if card.start:
            yield f"begin(( )) --> {ids[card.name]}"
            classes["begin"] = ["begin"]
            edges += 1
    for link in seen.links:
        label = link_lines(link)
        arrow = ("-.->" if link.failure else "-->") + (f"|{_quote_mermaid(label)}|" if label else "")
        yield f"{ids[link.source]} {arrow} {ids[link.target]}"
        if link.failure:
            failures.append(str(edges))
        edges += 1
    for name, members in classes.items():
        yield f"classDef {name} {_style(name)}"
        yield f"class {','.join(members)} {name}"
    if failures:
        yield f"linkStyle {','.join(failures)} stroke:{_FAILED},color:{_FAILED}"


def _shape(card: Card) -> str:
    label = _quote_mermaid(card_lines(card))
    if card.role == END:
        return f"([{label}])"
    return f"{{{{{label}}}}}" if card.role == ROUTER else f"({label})"


def _quote_mermaid(lines: list[str]) -> str:
    return '"' + "<br/>".join(map(_escape_mermaid, lines)) + '"'


def _escape_mermaid(text: str) -> str:
    """Mermaid's own entities for all ASCII but letters, digits and a few signs: `%%{` or a backtick may mean much."""
    return "".join(
        character if character.isalnum() or character in _HARMLESS or character > "~" else f"#{ord(character)};"
        for character in text
    )


def _class(card: Card) -> str:
    # Not the bare name: `end` and `default` are words of the language.
    seen_as = look(card)
    return f"k_{seen_as if not card.rows or seen_as == 'pipeline' else icon_kind(seen_as)}"


def _style(name: str) -> str:
    if name == "faded":
        return "opacity:0.45"
    if name == "begin":
        return "fill:#8c96a8,stroke:#8c96a8"
    if name in ("failed", "completed"):
        tone = TONES["secrets" if name == "failed" else "end"]
    else:
        tone = TONES[name.removeprefix("k_")]
    return f"fill:{tone.tint},stroke:{tone.ink},color:#1b2230"
