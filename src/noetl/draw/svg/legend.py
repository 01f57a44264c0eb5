"""The legend: one line that explains those signs of a picture that need it, and only the ones it has."""

from noetl.draw.picture import Picture
from noetl.draw.svg.cards import SMALL, Drawn
from noetl.draw.svg.markup import group, path, text
from noetl.draw.text import width

_GLYPH, _GAP, _LINE = 32.0, 24.0, 20.0


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
            x, y = 0.0, y + _LINE
        parts.append(group("key", [glyph, text((_GLYPH, 14), words, "small")], at=(x, y)))
        x += needed + _GAP
    return Drawn(room, y + _LINE, tuple(parts))


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
