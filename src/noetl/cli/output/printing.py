"""What is printed, and how: colours for people at a terminal, plain text for everything else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TextIO

import msgspec

# Times, durations and values in the few words that fit on a line.


#: characters of a value that is only to be recognised
GLIMPSE = 200


def seconds_of(timestamp: str) -> float:
    """A recorded time in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def between(earlier: str, later: str) -> float:
    """Seconds from one recorded time to another."""
    return seconds_of(later) - seconds_of(earlier)


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `2 min 05 s`, `3 h 20 min`."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def local_time(timestamp: str | float) -> str:
    """A time as the clock on the wall shows it."""
    moment = datetime.fromtimestamp(seconds_of(timestamp) if isinstance(timestamp, str) else timestamp).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def glimpse(value: Any, most: int = GLIMPSE) -> str:
    """A value as JSON on one line, cut where it gets long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"


def rate(per_second: float) -> str:
    """`1,234/s`, `3.2/s`, `12/min`."""
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min"


def count(number: int, word: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """`12 bytes`, `3.4 kB`, `1.2 GB`."""
    if number < 1000:
        return count(number, "byte")
    scaled, units = number / 1000, ["TB", "GB", "MB", "kB"]
    while scaled >= 999.5 and len(units) > 1:
        scaled /= 1000
        units.pop()
    return f"{scaled:.1f} {units[-1]}" if scaled < 99.95 else f"{scaled:,.0f} {units[-1]}"


def describe_stored(reference: dict[str, Any]) -> str:
    """What lies in the result store: `1,000,000 rows, 12.3 MB`."""
    meta = reference.get("meta") or {}
    rows = count(meta["rows"], "row") if isinstance(meta.get("rows"), int) else ""
    measured = size(stored) if (stored := _stored_bytes(meta)) else ""
    return f"{', '.join(filter(None, (rows, measured)))} in the result store"


def _stored_bytes(meta: dict[str, Any]) -> int:
    """The size of a stored file; 0: it says nothing, as that of the index of a list in parts."""
    in_parts = ".parts+" in str(meta.get("content_type"))
    return 0 if in_parts else int(meta.get("stored_bytes") or meta.get("bytes") or 0)


def items(found: list[Any] | dict[str, Any]) -> str:
    """How many elements a loop goes over: those of a list, or of what a reference leads to."""
    return count(len(found) if isinstance(found, list) else found["meta"]["rows"], "item")


#: control characters, without line breaks, tabs and the beginnings of colours
_OBEYED = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def out(text: str) -> None:
    """Write to stdout as it is."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """Tell the person at the terminal something that is no part of the output."""
    with suppress(OSError):  # who has stopped listening must not change how a command ends
        sys.stderr.write(f"{disarm(text)}\n")


def disarm(text: str) -> str:
    """Return a text in which a terminal obeys nothing but colours: it may have names that somebody else has chosen."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def note_with_time(text: str) -> None:
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
    "paused, interrupted": "33", "stuck": "31", "stuck, interrupted": "31",
    "running": "36", "requested": "36", "scheduled": "36", "waiting": "36", "skipped": "2", "never ran": "2",
    "bold": "1", "dim": "2",
}  # fmt: skip


def colorize(text: str, style: str, *, colour: bool) -> str:
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
            cells[paint] = colorize(cells[paint], row[paint], colour=colour)
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
