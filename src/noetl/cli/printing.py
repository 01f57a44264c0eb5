"""What is printed, and how: colours for people at a terminal, plain text for everything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO

import msgspec


def out(text: str) -> None:
    """Write to stdout as it is."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """Tell the person at the terminal something that is no part of the output."""
    with suppress(OSError):  # who has stopped listening must not change how a command ends
        sys.stderr.write(f"{text}\n")


def stamped(text: str) -> None:
    """The same of a process that runs for long, with the time in front."""
    import time

    note(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}")


def as_json(data: Any) -> str:
    """A JSON document with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def in_colour(stream: TextIO) -> bool:
    """Whether what goes to the stream is seen by a person who wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


#: what statuses and signs look like: the parameters of the escape sequence
_STYLES = {
    "completed": "32", "done": "32", "failed": "31", "cancelled": "33", "interrupted": "33", "paused": "33",
    "paused, interrupted": "33",
    "running": "36", "requested": "36", "scheduled": "36", "waiting": "36", "skipped": "2", "never ran": "2",
    "bold": "1", "dim": "2",
}  # fmt: skip


def painted(text: str, style: str, *, colour: bool) -> str:
    """Text in the colour of a status, or `bold` or `dim`."""
    code = _STYLES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code is not None else text


def columns(rows: Sequence[Sequence[str]], *, paint: int | None = None, colour: bool = False) -> str:
    """Rows under one another, each column as wide as its widest; `paint` is the column that holds statuses."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = row[-1]
        if paint is not None:
            cells[paint] = painted(cells[paint], row[paint], colour=colour)
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
