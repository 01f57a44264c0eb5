"""Pictures of a playbook's net: SVG to look at, Mermaid and Graphviz to paste elsewhere."""

from collections.abc import Callable, Mapping

from noetl.draw.mermaid_and_dot import draw_dot, draw_mermaid
from noetl.draw.picture import Picture, picture
from noetl.draw.svg import draw_svg
from noetl.model.net import Net

#: format → what draws it
FORMATS: Mapping[str, Callable[[Picture], str]] = {"svg": draw_svg, "mermaid": draw_mermaid, "dot": draw_dot}


def draw(net: Net, format: str) -> str:  # noqa: A002 - the word of the command line
    """The net as a picture; `format` is one of `FORMATS`."""
    if format not in FORMATS:
        raise ValueError(f"no picture format {format!r}; there are {', '.join(FORMATS)}")
    return FORMATS[format](picture(net))
