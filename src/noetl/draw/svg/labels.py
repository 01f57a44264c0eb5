"""Labels of arcs: the condition on up to two lines, its number, what it cancels."""

from noetl.draw.picture import Link
from noetl.draw.svg.cards import SMALL, Drawn
from noetl.draw.svg.icons import use
from noetl.draw.svg.markup import number, rect, text
from noetl.draw.text import elide, shorten, width, wrap

_ROOM = 196.0
_LINE = 16.0
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
    high = _LINE * (len(lines) + bool(note)) + 6
    parts = [rect((0, 0), (wide, high), "halo", radius=4)]
    css = "otherwise" if link.otherwise else "when failure" if link.failure else "when"
    if link.number is not None:
        middle = 3 + _LINE * len(lines) / 2
        parts.append(f'<circle class="number" cx="{number(_PAD + 8)}" cy="{number(middle)}" r="8"/>')
        parts.append(text((_PAD + 8, middle + 4), str(link.number), "digit", anchor="middle"))
    # Centred, so that a font narrower than the estimate leaves the same air on both sides.
    centre = (before + wide) / 2
    for at, line in enumerate(lines):
        parts.append(text((centre, 15 + _LINE * at), line, css, anchor="middle"))
    if note:
        base = 15 + _LINE * len(lines)
        left = (wide - width(note, SMALL) - 16) / 2
        parts.append(use("cancel", (left, base - 10), 12, "icon failure"))
        parts.append(text((left + 16, base), note, "small failure"))
    return Drawn(wide, high, tuple(parts))
