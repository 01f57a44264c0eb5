"""What is printed, and how: colours for people at a terminal, plain text for everything else."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

import msgspec


def out(text: str) -> None:
    """Write to stdout as it is."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """Tell the person at the terminal something that is no part of the output."""
    sys.stderr.write(f"{text}\n")


def as_json(data: Any) -> str:
    """A JSON document with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def in_colour(stream: TextIO) -> bool:
    """Whether what goes to the stream is seen by a person who wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
