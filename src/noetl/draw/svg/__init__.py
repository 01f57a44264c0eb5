"""The picture as SVG: self-contained, readable by people, screen readers and both kinds of pages."""

from noetl.draw.svg.document import draw_svg

__all__ = ["draw_svg"]
