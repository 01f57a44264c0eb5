"""SQL out of `sql/`: a schema, and queries by their names."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def queries(dialect: str) -> dict[str, str]:
    """The named queries of a dialect."""
    _, *parts = _NAME.split(_text(dialect, "queries"))
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def schema(dialect: str, version: int = 1) -> str:
    """The statements that make the tables, or what a later version has more than the one before."""
    return _text(dialect, "schema" if version == 1 else f"schema-{version}")


def _text(dialect: str, name: str) -> str:
    return (Path(__file__).parent / "sql" / dialect / f"{name}.sql").read_text(encoding="utf-8")
