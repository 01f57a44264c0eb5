"""Cards: how a step looks, as SVG around its own origin, and how large that is."""

from collections.abc import Sequence

import msgspec

from noetl.draw.picture import END, ROUTER, Badge, Card, Row
from noetl.draw.svg.markup import escape, group, number, path, rect, text, use
from noetl.draw.text_fitting import clean, elide, width, wrap
from noetl.draw.tones import icon_kind

NAME, SMALL, ROW = 14.0, 12.0, 12.5
_PAD = 14.0
_TILE = 34.0
_ROW_HEIGHT = 24.0
#: between a card and the ring that marks the end
_RING = 4.0
_CHIP_HEIGHT, _CHIP_GAP = 22.0, 6.0
_NARROWEST, _WIDEST = 228.0, 304.0
#: so many tasks are listed; of more, the first and the last ones
_MOST_ROWS, _FIRST_ROWS, _LAST_ROWS = 6, 3, 2


class Drawn(msgspec.Struct, frozen=True):
    """SVG parts around their own origin (the upper left corner), and the room they take."""

    width: float
    height: float
    parts: tuple[str, ...]


def common_width(cards: Sequence[Card]) -> float:
    """One width for all cards of a picture: as wide as the longest name or badge wants, within limits."""
    wide = _NARROWEST
    for card in cards:
        wide = max(wide, 2 * _PAD + _TILE + 10 + width(clean(card.name), NAME, bold=True))
        wide = max([wide, *(2 * _PAD + _chip_width(badge, _WIDEST) for badge in card.badges)])
    return min(wide, _WIDEST)


def draw_card(card: Card, wide: float, *, brief: bool) -> Drawn:
    """A step as a card; `brief` shows its name only, for nets too large to read anyway."""
    if card.role != ROUTER and card.rows:
        return _draw_step(card, wide, brief=brief)
    return _draw_pill(card, wide, brief=brief)


def _draw_step(card: Card, wide: float, *, brief: bool) -> Drawn:
    kinds = tuple(dict.fromkeys(icon_kind(row.kind) for row in card.rows))
    look = kinds[0] if len(card.rows) == 1 else "pipeline"
    tile = 24.0 if brief else _TILE
    left = _PAD + tile + 10
    lines = () if brief else _subtitle(card, wide - left - _PAD)
    header = max(tile, 19 + 16 * len(lines))
    parts = [
        rect((_PAD, _PAD), (tile, tile), f"tint t-{look}", radius=8),
        use(look, (_PAD + tile / 2 - 9, _PAD + tile / 2 - 9), 18, f"icon i-{look}"),
        text((left, _PAD + (14 if lines else tile / 2 + 5)), _name(card, wide - left - _PAD), "name"),
        *(_subtitle_line(line, left, _PAD + 32 + 16 * at, first=at == 0, card=card) for at, line in enumerate(lines)),
    ]
    y = _PAD + header
    if len(card.rows) > 1 and not brief:
        y = _add_rows(parts, card.rows, y + 10, wide)
    if card.badges and not brief:
        y = _add_chips(parts, card.badges, y + 10, wide)
    return _draw_frame(card, (wide, y + _PAD), parts, radius=12)


def _draw_pill(card: Card, wide: float, *, brief: bool) -> Drawn:
    look = card.role if card.role == END else ROUTER
    left = 38.0
    room = wide - left - 18
    name = _name(card, room)
    lines = () if brief else wrap(card.desc, room, SMALL, lines=2)
    badges = () if brief else card.badges
    needed = left + 18 + width(name, NAME, bold=True)
    if lines:
        needed = max(needed, left + 18 + max(width(line, SMALL) for line in lines))
    if badges:
        needed = max(needed, min(wide, 28 + max(_chip_width(badge, wide - 28) for badge in badges)))
    parts = [
        use(look, (14, 10), 16, f"icon i-{look}"),
        text((left, 23), name, "name"),
        *(text((left, 40 + 16 * at), line, "small") for at, line in enumerate(lines)),
    ]
    y = 36.0 + (16 * len(lines) if lines else 0)
    if badges:
        y = _add_chips(parts, badges, y + 4, needed) + _PAD
    return _draw_frame(card, (needed, y), parts, radius=18)


def _draw_frame(card: Card, size: tuple[float, float], parts: list[str], *, radius: float) -> Drawn:
    wide, high = size
    frame = [rect((0, 0), size, "card" if card.rows else "card routed", radius=radius)]
    side = number(radius), number(wide - radius)
    if card.gated:
        frame.append(path(f"M{side[0]} 2H{side[1]}", "bar gate"))
    if card.fans_out:
        frame.append(path(f"M{side[0]} {number(high - 2)}H{side[1]}", "bar"))
    if card.role != END:
        return Drawn(wide, high, (*frame, *parts))
    ring = rect((0, 0), (wide + 2 * _RING, high + 2 * _RING), "ring", radius=radius + _RING)
    return Drawn(wide + 2 * _RING, high + 2 * _RING, (ring, group("in", (*frame, *parts), at=(_RING, _RING))))


def _name(card: Card, room: float) -> str:
    return elide(clean(card.name), room, NAME, bold=True)


def _prefix(card: Card) -> str:
    return card.rows[0].kind if len(card.rows) == 1 else f"{len(card.rows)} tasks"


def _subtitle(card: Card, room: float) -> tuple[str, ...]:
    """The kind (or how many tasks there are), and the description."""
    words = _prefix(card) + (f" · {card.desc}" if card.desc else "")
    return wrap(words, room, SMALL, lines=2)


def _subtitle_line(line: str, x: float, y: float, *, first: bool, card: Card) -> str:
    prefix = _prefix(card)
    if not first or not line.startswith(prefix):
        return text((x, y), line, "small")
    look = icon_kind(card.rows[0].kind) if len(card.rows) == 1 else "pipeline"
    coloured = f'<tspan class="kind k-{look}">{escape(prefix)}</tspan>{escape(line[len(prefix) :])}'
    return f'<text class="small" x="{number(x)}" y="{number(y)}">{coloured}</text>'


def _add_rows(parts: list[str], rows: Sequence[Row], y: float, wide: float) -> float:
    """The tasks of a pipeline on a thread, top to bottom; the y below them."""
    shown: list[Row | None] = list(rows)
    if len(rows) > _MOST_ROWS:
        shown = [*rows[:_FIRST_ROWS], None, *rows[-_LAST_ROWS:]]
    parts.append(path(f"M0 {number(y)}H{number(wide)}", "rule"))
    y += 6
    x = _PAD + _TILE / 2
    ends = y + _ROW_HEIGHT / 2, y + _ROW_HEIGHT * (len(shown) - 0.5)
    parts.append(path(f"M{number(x)} {number(ends[0])}V{number(ends[1])}", "thread"))
    for row in shown:
        if row is None:
            hidden = rows[_FIRST_ROWS:-_LAST_ROWS]
            parts.append(_draw_hidden_rows(hidden, y))
        else:
            parts.extend(_task_row(row, y, wide))
        y += _ROW_HEIGHT
    return y


def _task_row(row: Row, y: float, wide: float) -> list[str]:
    look = icon_kind(row.kind)
    left, right = _PAD + _TILE + 10, wide - _PAD
    base = y + _ROW_HEIGHT / 2 + 4.5
    x = _PAD + _TILE / 2
    parts = [
        f'<circle class="tint t-{look}" cx="{number(x)}" cy="{number(y + _ROW_HEIGHT / 2)}" r="10"/>',
        use(look, (x - 6, y + _ROW_HEIGHT / 2 - 6), 12, f"icon i-{look}"),
    ]
    # Hints have what the name leaves over, or half of the line.
    least = left + min(width(row.name, ROW) + 14, (right - left) / 2)
    for hint in reversed(row.hints):
        words = elide(hint.text, right - least - 16, SMALL)
        taken = width(words, SMALL) + 16
        if right - taken < least:
            break
        parts.append(use(hint.icon, (right - taken, base - 10), 12, "icon muted"))
        parts.append(text((right - taken + 16, base), words, "small"))
        right -= taken + 8
    name = elide(row.name, right - left - 6, ROW)
    parts.append(text((left, base), name, "row"))
    if not row.hints and left + width(name, ROW) + 14 + width(row.kind, SMALL) <= right:
        parts.append(text((right, base), row.kind, "small", anchor="end"))
    return parts


def _draw_hidden_rows(hidden: Sequence[Row], y: float) -> str:
    kinds = list(dict.fromkeys(icon_kind(row.kind) for row in hidden))[:6]
    middle = y + _ROW_HEIGHT / 2
    x = _PAD + _TILE + 10
    words = f"{len(hidden)} more"
    dots = "".join(
        f'<circle class="dot" cx="{number(_PAD + _TILE / 2)}" cy="{number(middle + at)}" r="1.5"/>' for at in (-5, 0, 5)
    )
    pause = rect((_PAD + _TILE / 2 - 4, middle - 8), (8, 16), "blank")
    beside = x + width(words, SMALL) + 10
    icons = [use(kind, (beside + 18 * at, middle - 6), 12, f"icon i-{kind}") for at, kind in enumerate(kinds)]
    return pause + dots + text((x, middle + 4.5), words, "small") + "".join(icons)


def _chip_width(badge: Badge, room: float) -> float:
    return min(room, width(badge.text, SMALL) + 32)


def _add_chips(parts: list[str], badges: Sequence[Badge], y: float, wide: float) -> float:
    """Badges as chips, wrapped into as many lines as they need; the y below them."""
    x, room = _PAD, wide - 2 * _PAD
    for badge in badges:
        chip = _chip_width(badge, room)
        if x > _PAD and x + chip > wide - _PAD:
            x = _PAD
            y += _CHIP_HEIGHT + _CHIP_GAP
        words = elide(badge.text, chip - 31.9, SMALL)
        inside = [
            rect((0, 0), (chip, _CHIP_HEIGHT), f"tint t-{badge.icon}", radius=_CHIP_HEIGHT / 2),
            use(badge.icon, (8, 5), 12, f"icon i-{badge.icon}"),
            text((24, 15.5), words, f"chip k-{badge.icon}"),
        ]
        parts.append(group("badge", inside, at=(x, y)))
        x += chip + _CHIP_GAP
    return y + _CHIP_HEIGHT
