"""SVG text: numbers without noise, everything else escaped."""

import re
from collections.abc import Iterable

from noetl.draw.layout import Curve

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def escape(text: str) -> str:
    """A cleaned text, safe in XML content and attributes."""
    return text.translate(_ESCAPES)


def number(value: float) -> str:
    """A coordinate with at most one decimal place."""
    return f"{value:.1f}".removesuffix(".0")


def text(at: tuple[float, float], content: str, css: str, *, anchor: str = "") -> str:
    """A line of text; `at` is the left end (or, by `anchor`, the middle or right end) of its base line."""
    x, y = at
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{css}" x="{number(x)}" y="{number(y)}"{anchored}>{escape(content)}</text>'


def rect(at: tuple[float, float], size: tuple[float, float], css: str, *, radius: float = 0) -> str:
    """A rectangle by its upper left corner."""
    (x, y), (wide, high) = at, size
    rounded = f' rx="{number(radius)}"' if radius else ""
    return (
        f'<rect class="{css}" x="{number(x)}" y="{number(y)}" width="{number(wide)}" height="{number(high)}"{rounded}/>'
    )


def path(data: str, css: str, *, more: str = "") -> str:
    """A path; `more` is further attributes, written out."""
    return f'<path class="{css}" d="{data}"{more}/>'


def curve_data(curve: Curve) -> str:
    """A curve as the data of a path."""
    x, y = curve.start
    data = [f"M{number(x)} {number(y)}"]
    for piece in curve.pieces:
        end_x, end_y = piece[-1]
        if len(piece) > 1:
            data.append("QC"[len(piece) - 2] + " ".join(f"{number(x)} {number(y)}" for x, y in piece))
        elif end_x == x:
            data.append(f"V{number(end_y)}")
        elif end_y == y:
            data.append(f"H{number(end_x)}")
        else:
            data.append(f"L{number(end_x)} {number(end_y)}")
        x, y = end_x, end_y
    return "".join(data)


def title(tooltip: str) -> str:
    """What a browser shows on hovering, and a screen reader says."""
    return f"<title>{escape(tooltip)}</title>"


def group(css: str, parts: Iterable[str], *, at: tuple[float, float] | None = None, data: str = "") -> str:
    """Parts that belong together, moved to `at`."""
    moved = f' transform="translate({number(at[0])} {number(at[1])})"' if at is not None else ""
    return f'<g class="{css}"{moved}{data}>{"".join(parts)}</g>'


# Line icons on a grid of 16: one per tool kind, role and badge.


_USED = re.compile(r' href="#noetl-(\w+)"')
ICONS = {
    "http": "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M2 8h12M8 2c2.4 2 2.4 10 0 12M8 2c-2.4 2-2.4 10 0 12",
    "python": "M5.3 4.5L2 8l3.3 3.5M10.7 4.5L14 8l-3.3 3.5M9.2 3.2L6.8 12.8",
    "postgres": "M3 4.2a5 2.2 0 1 0 10 0a5 2.2 0 1 0 -10 0M3 4.2v7.6c0 1.2 2.2 2.2 5 2.2s5-1 5-2.2V4.2"
    "M3 8c0 1.2 2.2 2.2 5 2.2s5-1 5-2.2",
    "duckdb": "M2.5 13.5h11M4 11V8M8 11V2.5M12 11V5.5",
    "shell": "M2.5 3h11a.5 .5 0 0 1 .5 .5v9a.5 .5 0 0 1 -.5 .5h-11a.5 .5 0 0 1 -.5 -.5v-9a.5 .5 0 0 1 .5 -.5"
    "M4.8 6l2 2-2 2M8.6 10.2h2.8",
    "playbook": "M3.5 2h9a1 1 0 0 1 1 1v10a1 1 0 0 1 -1 1h-9a1 1 0 0 1 -1 -1v-10a1 1 0 0 1 1 -1M6.6 5.4v5.2l4-2.6z",
    "workbook": "M8 4.2C6.6 3 4.6 2.7 2.2 2.8v9.4c2.4-.1 4.4.2 5.8 1.4 1.4-1.2 3.4-1.5 5.8-1.4V2.8C11.4 2.7 9.4 3 8 4.2"
    "v9.4",
    "transfer": "M2.5 5.3h10.5M10.2 2.5L13 5.3l-2.8 2.8M13.5 10.7H3M5.8 7.9L3 10.7l2.8 2.8",
    "wait": "M4 2.2h8M4 13.8h8M5 2.2v2.4L8 8l3-3.4V2.2M5 13.8v-2.4L8 8l3 3.4v2.4",
    "resolve": "M8 2v7.5M5 6.7l3 3 3-3M2.5 10.5v2.2a1 1 0 0 0 1 1h9a1 1 0 0 0 1 -1v-2.2",
    "secrets": "M2.4 10.4a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0M7.9 8.1L13.4 2.6M10.6 5.4l2.2 2.2",
    "noop": "M4.5 8h7",
    "plugin": "M8 2l5.2 3v6L8 14l-5.2-3V5z",
    "pipeline": "M8 2.2L2.3 5.2 8 8.2l5.7-3zM2.3 8.2L8 11.2l5.7-3M2.3 11L8 14l5.7-3",
    "router": "M8 2l6 6-6 6-6-6z",
    "end": "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M5.8 8a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0",
    "gate": "M3 2.5v11M13 2.5v11M3 6h10M3 10.5h10",
    "loop": "M13.5 6.5A5.7 5.7 0 0 0 3.3 5M2.5 9.5A5.7 5.7 0 0 0 12.7 11M13.7 3v3.6h-3.6M2.3 13V9.4h3.6",
    "retry": "M13.2 9.3A5.4 5.4 0 1 1 12.4 5M13.4 2.2v3.6H9.8",
    "jump": "M6 5.5L2.8 8.7 6 11.9M2.8 8.7h7.4a2.9 2.9 0 0 0 0 -5.8H8",
    "clock": "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M8 4.6V8l2.4 1.6",
    "spark": "M8 1.8l1.5 4.7L14.2 8l-4.7 1.5L8 14.2 6.5 9.5 1.8 8l4.7-1.5z",
    "cancel": "M2.5 8a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0M4.2 4.2l7.6 7.6",
}


def use(icon: str, at: tuple[float, float], size: float, css: str) -> str:
    """An icon, its upper left corner at `at`."""
    scale = f" scale({size / 16:g})" if size != 16 else ""
    return f'<use class="{css}" href="#noetl-{icon}" transform="translate({number(at[0])} {number(at[1])}){scale}"/>'


def definitions(drawn: Iterable[str]) -> str:
    """The icons that the drawn parts use, once each. (No author's text can look like a use: its quotes are escaped.)"""
    used = {icon for part in drawn for icon in _USED.findall(part)}
    return "".join(f'<path id="noetl-{icon}" d="{ICONS[icon]}"/>' for icon in sorted(used))
