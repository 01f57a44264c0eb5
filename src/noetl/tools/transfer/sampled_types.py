"""Types of columns, told from rows that are JSON: what is text there stays text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from noetl.drivers.datahost import DataHostFailed
from noetl.rows.duck import name

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
            raise not_a_map_failure(number, row)
        for key, value in row.items():
            before = found.get(key)
            sort = _sort(value)
            found[key] = sort if before is None else before if sort is None else wider_type(before, sort)
    return found


def not_a_map_failure(number: int, row: Any) -> DataHostFailed:
    """The failure of a row that has no columns."""
    return DataHostFailed("type", f"row {number:,} is no map of columns: {str(row)[:80]!r}", row=number)


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


def wider_type(one: str, other: str) -> str:
    """A type that holds the values of both."""
    if one == other:
        return one
    numbers = {"BIGINT", "HUGEINT", "DOUBLE"}
    if {one, other} <= numbers:
        return "DOUBLE" if "DOUBLE" in (one, other) else "HUGEINT"
    return "JSON" if "JSON" in (one, other) else "VARCHAR"


# Numbers of CSV files whose digits a double would not keep: which type a column is to have instead.


#: digits that a double always keeps, and digits that a decimal has
_SURE, _MOST = 15, 38


def exact_types(connection: Any, relation: str, types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns; one of numbers that a double would change is of decimals, or else of text.

    `relation` has the columns as text; as many rows are looked at as DuckDB does to find out types.
    """
    found = dict(types)
    doubles = [column for column, kind in types.items() if kind == "DOUBLE"]
    if not doubles:
        return found
    digits = [f"max(length(regexp_replace({name(one)}, '[^0-9]', '', 'g')))" for one in doubles]
    some = f"(FROM {relation} LIMIT {SAMPLE})"
    longest = connection.execute(f"SELECT {', '.join(digits)} FROM {some}").fetchone()
    for column, most in zip(doubles, longest, strict=True):
        if most is not None and most > _SURE:
            values = connection.execute(f"SELECT DISTINCT {name(column)} FROM {some}").fetchall()
            found[column] = _kind(value for (value,) in values if value)
    return found


def _kind(values: Iterable[str]) -> str:
    """The type that keeps all digits of some numbers."""
    texts = list(values)
    try:
        numbers = [Decimal(text.strip()) for text in texts]
    except InvalidOperation:
        return "VARCHAR"
    if all(not one.is_finite() or one == Decimal(repr(float(one))) for one in numbers):
        return "DOUBLE"
    if not all(one.is_finite() for one in numbers):
        return "VARCHAR"
    behind = max(max(0, -int(one.as_tuple().exponent)) for one in numbers)
    before = max(max(0, one.adjusted() + 1) for one in numbers)
    return f"DECIMAL({_MOST}, {behind})" if behind + before <= _MOST else "VARCHAR"
