"""The picture as a Mermaid flowchart, to paste into Markdown."""

from collections.abc import Iterator

from noetl.draw.picture import END, ROUTER, Card, Picture
from noetl.draw.plain import card_lines, identifiers, link_lines, look
from noetl.draw.tones import TONES, icon_kind

_HARMLESS = frozenset(" .,-_/=+!")
_FAILED = "#c8445a"


def draw_mermaid(seen: Picture) -> str:
    """A `flowchart TD`."""
    return "\n".join(["flowchart TD", *(f"  {line}" for line in _lines(seen))]) + "\n"


def _lines(seen: Picture) -> Iterator[str]:
    ids = identifiers(seen)
    classes: dict[str, list[str]] = {}
    for card in seen.cards:
        yield ids[card.name] + _shape(card)
        classes.setdefault(_class(card), []).append(ids[card.name])
        if not card.reachable:
            classes.setdefault("faded", []).append(ids[card.name])
    for mark in seen.marks:
        yield f"{ids[mark.name]}((({_quote([mark.outcome])})))"
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
        arrow = ("-.->" if link.failure else "-->") + (f"|{_quote(label)}|" if label else "")
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
    label = _quote(card_lines(card))
    if card.role == END:
        return f"([{label}])"
    return f"{{{{{label}}}}}" if card.role == ROUTER else f"({label})"


def _quote(lines: list[str]) -> str:
    return '"' + "<br/>".join(map(_escape, lines)) + '"'


def _escape(text: str) -> str:
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
