"""Numbers of CSV files whose digits a double would not keep: which type a column is to have instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from noetl.rows.duck import name
from noetl.tools.transfer.sampling import SAMPLE

#: digits that a double always keeps, and digits that a decimal has
_SURE, _MOST = 15, 38


def exact(connection: Any, relation: str, types: Mapping[str, str]) -> dict[str, str]:
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
