"""SVG text: numbers without noise, everything else escaped."""

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
