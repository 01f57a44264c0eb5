"""Rows as Parquet, through DuckDB, in little memory however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.model.output import JSON, NDJSON
from noetl.ports import ResultDamaged
from noetl.tools.plain import plain

_TO_WRITE = "64MB"
#: no more than one group of rows, which somebody else may have made large
_TO_READ = "512MB"
#: the longest row that is looked at; DuckDB holds two buffers of this size
_LONGEST_ROW = 2 << 20
#: what one group of rows has, as JSON: it is held in memory until it is written, and read as a whole
_GROUP_BYTES = 8 << 20
#: DuckDB works with so many rows at a time
_VECTOR = 2_048
#: what DuckDB calls the place of a row in its file
_NUMBER = "file_row_number"
_FORMS = {JSON: "array", NDJSON: "newline_delimited"}
#: types whose values JSON holds as they are
_AS_THEY_ARE = frozenset({"BOOLEAN", "BIGINT", "INTEGER", "DOUBLE", "VARCHAR"})


def write(body: bytes, columns: Mapping[str, str], count: int, path: Path) -> bool:
    """Write rows, given as lines of JSON, to a new file."""
    lines = path.with_suffix(".lines")
    try:
        lines.write_bytes(body)
        return convert(lines, NDJSON, columns, count, path)
    finally:
        lines.unlink(missing_ok=True)


def convert(source: Path, content_type: str, columns: Mapping[str, str], count: int, path: Path) -> bool:
    """Write the rows of a file of JSON to a new file; False: a row is too long for that, or a name is taken."""
    import duckdb

    if _NUMBER in map(str.casefold, columns):
        return False

    typed = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in columns.items())
    options = f"format='{_FORMS[content_type]}', columns={{{typed}}}, maximum_object_size={_LONGEST_ROW}"
    rows_of = f"SELECT * FROM read_json({_text(str(source))}, {options})"  # noqa: S608  literals: COPY binds nothing
    groups = max(1, source.stat().st_size // _GROUP_BYTES)
    group = max(1, min(60, count // groups // _VECTOR)) * _VECTOR
    packing = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {group}"
    with _connect(_TO_WRITE, path.parent) as db:
        try:
            db.execute(f"COPY ({rows_of}) TO {_text(str(path))} ({packing})")
        except (duckdb.InvalidInputException, duckdb.OutOfMemoryException):
            path.unlink(missing_ok=True)
            return False
    return True


def runs(path: Path, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of a file from a number on, so many at a time."""
    import duckdb

    named = _text(str(path))
    rows_of = f"SELECT * EXCLUDE {_NUMBER} FROM read_parquet({named}, {_NUMBER}=true) WHERE {_NUMBER} >= {start}"  # noqa: S608
    if not start:
        rows_of = f"SELECT * FROM read_parquet({named})"  # noqa: S608  a literal
    try:
        with _connect(_TO_READ) as db:
            found = db.execute(rows_of)
            columns = {str(name): str(kind) for name, kind, *_ in found.description or ()}
            while records := found.fetchmany(size):
                yield _rows(records, columns)
    except duckdb.Error as error:
        raise ResultDamaged(f"the payload {path.name} cannot be read: {error}") from error


def _rows(records: list[Any], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = [dict(zip(columns, record, strict=True)) for record in records]
    for name, kind in columns.items():
        if kind not in _AS_THEY_ARE:
            convert = _from_json if kind == "JSON" else plain
            for row in rows:
                row[name] = convert(row[name])
    return rows


def _from_json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _connect(memory: str, folder: Path | None = None) -> Any:
    """A database in memory; what it cannot hold goes to a folder, or nowhere."""
    import duckdb

    # One thread, for each has buffers of its own; and no progress bar, which would be drawn on stdout.
    spill = "" if folder is None else str(folder)
    db = duckdb.connect(config={"memory_limit": memory, "threads": 1, "temp_directory": spill})
    db.execute("SET enable_progress_bar = false")
    return db


def _text(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
