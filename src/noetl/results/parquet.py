"""Rows as Parquet, through DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.ports import ResultDamaged

_MEMORY = "512MB"


def write(rows: list[dict[str, Any]], shape: Mapping[str, str], path: Path) -> None:
    """Write rows of a known shape to a new file."""
    lines = path.with_suffix(".lines")
    try:
        lines.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        # An object may be as large as the whole file.
        most = max(16 << 20, lines.stat().st_size + 1)
        columns = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in shape.items())
        options = f"format='newline_delimited', columns={{{columns}}}, maximum_object_size={most}"
        rows_of = f"SELECT * FROM read_json({_text(str(lines))}, {options})"  # noqa: S608  literals: COPY binds nothing
        packing = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1"
        with _connect() as db:
            db.execute(f"COPY ({rows_of}) TO {_text(str(path))} ({packing})")
    finally:
        lines.unlink(missing_ok=True)


def read(path: Path, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
    """The rows of a file, all or some; values of every type as JSON has them."""
    from noetl.rows.reading import parquet

    try:
        return parquet([str(path)], start, stop)
    except NoetlError as error:
        raise ResultDamaged(f"the payload {path.name} cannot be read: {error}") from error


def _connect() -> Any:
    import duckdb

    return duckdb.connect(config={"memory_limit": _MEMORY, "threads": 2, "preserve_insertion_order": "true"})


def _text(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
