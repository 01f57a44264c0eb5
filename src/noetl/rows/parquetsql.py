"""SQL that makes rows fit for Parquet without losing a digit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.rows.duck import name


def parquet_row(columns: Sequence[tuple[str, Any]]) -> str:
    """The columns of a SELECT whose result is written as Parquet."""
    return ", ".join(_column(key, kind) for key, kind in columns)


def _column(key: str, kind: Any) -> str:
    # Parquet has no integers of 128 bits, and DuckDB would write doubles.
    if kind.id in ("hugeint", "uhugeint"):
        return f"CAST({name(key)} AS DECIMAL(38, 0)) AS {name(key)}"
    if kind.id == "bit":
        return f"CAST({name(key)} AS VARCHAR) AS {name(key)}"
    if kind.id == "union":
        return f"to_json({name(key)}) AS {name(key)}"
    return name(key)
