"""Types of columns, told from rows that are JSON: what is text there stays text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.tools.datahost.failing import Failing

#: rows looked at where there are many
SAMPLE = 20_480
_LARGEST = 2**63


def columns_of(rows: Iterable[Any], first: int = 0) -> dict[str, str]:
    """The columns of rows in order of their appearance, each with a type that holds all of its values."""
    return {key: sort or "VARCHAR" for key, sort in sorts_of(rows, first).items()}


def sorts_of(rows: Iterable[Any], first: int = 0) -> dict[str, str | None]:
    """The same; None: no row has a value there."""
    found: dict[str, str | None] = {}
    for number, row in enumerate(rows, first + 1):
        if not isinstance(row, dict):
            raise not_a_map(number, row)
        for key, value in row.items():
            before = found.get(key)
            sort = _sort(value)
            found[key] = sort if before is None else before if sort is None else wider(before, sort)
    return found


def not_a_map(number: int, row: Any) -> Failing:
    """The failure of a row that has no columns."""
    return Failing("type", f"row {number:,} is no map of columns: {str(row)[:80]!r}", row=number)


def _sort(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -_LARGEST <= value < _LARGEST else "HUGEINT"
    if isinstance(value, float):
        return "DOUBLE"
    return "VARCHAR" if isinstance(value, str) else "JSON"


def wider(one: str, other: str) -> str:
    """A type that holds the values of both."""
    if one == other:
        return one
    numbers = {"BIGINT", "HUGEINT", "DOUBLE"}
    if {one, other} <= numbers:
        return "DOUBLE" if "DOUBLE" in (one, other) else "HUGEINT"
    return "JSON" if "JSON" in (one, other) else "VARCHAR"
