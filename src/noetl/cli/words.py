"""Times, durations and values in the few words that fit on a line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

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


def stored(reference: dict[str, Any]) -> str:
    """What lies in the result store: `1,000,000 rows, 12.3 MB`."""
    meta = reference.get("meta") or {}
    rows = count(meta["rows"], "row") if isinstance(meta.get("rows"), int) else ""
    # Of a list in parts, the bytes are those of its index: they say nothing of the rows.
    in_parts = ".parts+" in str(meta.get("content_type"))
    measured = "" if in_parts else size(int(meta.get("bytes") or 0))
    return f"{', '.join(filter(None, (rows, measured)))} in the result store"


def items(found: list[Any] | dict[str, Any]) -> str:
    """How many elements a loop goes over: those of a list, or of what a reference leads to."""
    return count(len(found) if isinstance(found, list) else found["meta"]["rows"], "item")
