"""Why rows do not fit: the column, the row and the value, found when it is too late and only then."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.drivers.datahost import DataHostFailed, failure_of
from noetl.rows.duck import name
from noetl.tools.transfer.chunks import Chunk
from noetl.tools.transfer.column_types import build_altered_condition
from noetl.tools.transfer.text_files import UnclosedQuote

_RAGGED = re.compile(
    r"CSV Error on Line: (\d+)\nOriginal Line: ?(.*?)\n.*?Expected Number of Columns: (\d+) Found: (\d+)", re.DOTALL
)
_DELIMITER = re.compile(r"\n  delimiter = (.+?) \(")
_OPEN = re.compile(r"CSV Error on Line: (\d+)\nOriginal Line: ?(.*?)\n\n?Value with unterminated quote", re.DOTALL)
_NO_UTF8 = "not utf-8 encoded"
_LINE = re.compile(r"CSV Error on Line: (\d+)\n(?:Original Line: ?(.*?)\n)?(.*?)\n", re.DOTALL)
_NULL = re.compile(r"NOT NULL constraint failed: (?:[^.\s]+\.)*(\S+)")


def explain_error(error: Exception, chunk: Chunk, connection: Any, wanted: Mapping[str, str]) -> DataHostFailed:
    """The failure, with the place if it can be found. `wanted` are the types that columns of the rows should have."""
    if isinstance(error, DataHostFailed):
        return error
    found = failure_of(error)
    if found["kind"] != "sql":
        return DataHostFailed(**found)
    said = str(error)
    place = (
        _explain_encoding(said, chunk.first)
        or _explain_ragged(said, chunk)
        or _open_quote_failure(said, chunk)
        or _null_failure(said, chunk, connection)
    )
    for column, kind in wanted.items():
        place = place or _cast_failure(chunk, connection, column, kind)
    if place is None and (line := _LINE.search(said)):
        row = chunk.first + int(line[1])
        place = source_failure(f"row {row:,} cannot be read: {line[3]}", row)
    if place is not None:
        return place
    rows = f"rows {chunk.first + 1:,} to {chunk.first + chunk.size:,}"
    head, newline, rest = found["message"].partition("\n")
    return DataHostFailed(**{**found, "message": f"{head} (among {rows}){newline}{rest}"})


def unreadable_failure(error: Exception, path: Path) -> DataHostFailed:
    """What is wrong with a CSV file that could not even be looked at."""
    found = failure_of(error)
    if found["kind"] != "sql":
        return DataHostFailed(**found)
    place = _explain_encoding(str(error), 0)
    if place is not None:
        return place
    return source_failure(f"`{path}` cannot be read as CSV: {' '.join(str(error).splitlines()[:2])}", None)


def explain_unclosed(error: UnclosedQuote, first: int) -> DataHostFailed:
    """A quote that nothing closes."""
    row, shown = first + error.rows + 1, error.text[:80].decode("utf-8", "replace")
    return source_failure(f"row {row:,} opens a quote that is never closed: {shown!r}", row)


def source_failure(message: str, row: int | None) -> DataHostFailed:
    """No target can do anything about it."""
    return DataHostFailed("type", f"the source: {message}", row=row, at="source")


def _explain_encoding(said: str, first: int) -> DataHostFailed | None:
    if _NO_UTF8 not in said:
        return None
    line = _LINE.search(said)
    row = first + int(line[1]) if line else None
    where = f"row {row:,}" if row else "the file"
    return source_failure(f"{where} is not UTF-8; say in `source.encoding` what it is, such as latin-1 or utf-16", row)


def find_misfit(chunk: Chunk, connection: Any, column: str, kind: str) -> DataHostFailed | None:
    """The first value of a column that would not be the same in another type, which earlier rows have settled."""
    back = f"TRY_CAST(TRY_CAST(v AS {kind}) AS {chunk.columns()[column]})"
    row = _first_row(connection, chunk.relation(connection, {}), name(column), f"v IS DISTINCT FROM {back}")
    if row is None:
        return None
    at, value = chunk.first + row[0], str(row[1])[:200]
    message = (
        f"column `{column}`, row {at:,}: {value!r} is not of type {kind}, as the rows of earlier chunks are; a file has one "
        "type for a column: give it one in `mapping`"
    )
    return DataHostFailed("type", message, column=column, row=at, value=value)


def _explain_ragged(said: str, chunk: Chunk) -> DataHostFailed | None:
    match = _RAGGED.search(said)
    if match is None:
        return None
    row = chunk.first + int(match[1])
    # DuckDB stops counting behind the first that is too many.
    delimiter = _DELIMITER.search(said)
    fields = next(csv.reader([match[2]], delimiter=delimiter[1]), []) if delimiter and len(delimiter[1]) == 1 else []
    message = (
        f"row {row:,} has {max(int(match[4]), len(fields))} columns, the others have {match[3]}: {match[2][:200]!r}"
    )
    return source_failure(message, row)


def _open_quote_failure(said: str, chunk: Chunk) -> DataHostFailed | None:
    match = _OPEN.search(said)
    if match is None:
        return None
    row = chunk.first + int(match[1])
    return source_failure(f"row {row:,} opens a quote that is not closed where the field ends: {match[2][:80]!r}", row)


def _null_failure(said: str, chunk: Chunk, connection: Any) -> DataHostFailed | None:
    match = _NULL.search(said)
    if match is None:
        return None
    column = match[1].strip('"')
    row = (
        _first_row(connection, *_raw_column(chunk, connection, column), "v IS NULL")
        if column in chunk.columns()
        else None
    )
    where = f"row {chunk.first + row[0]:,}: " if row else ""
    return DataHostFailed("type", f"{where}column `{column}` must not be empty", column=column)


def _cast_failure(chunk: Chunk, connection: Any, column: str, kind: str) -> DataHostFailed | None:
    source, text = _raw_column(chunk, connection, column)
    changed = f" OR {condition}" if (condition := build_altered_condition("CAST(v AS VARCHAR)", kind)) else ""
    row = _first_row(connection, source, text, f"v IS NOT NULL AND (TRY_CAST(v AS {kind}) IS NULL{changed})")
    if row is None:
        return None
    number, value = chunk.first + row[0], str(row[1])[:200]
    message = (
        f"column `{column}`, row {number:,}: {value!r} is not of type {kind}, which it has by earlier rows, by the table or by "
        "what was said; `source.columns` or `mapping` can give it another"
    )
    return DataHostFailed("type", message, column=column, row=number, value=value)


def _raw_column(chunk: Chunk, connection: Any, column: str) -> tuple[str, str]:
    return chunk.raw_column(connection, column)


def _first_row(connection: Any, source: str, text: str, holds: str) -> Any:
    numbered = f"SELECT row_number() OVER () AS n, {text} AS v FROM {source}"
    try:
        return connection.execute(f"SELECT n, CAST(v AS VARCHAR) FROM ({numbered}) WHERE {holds} LIMIT 1").fetchone()
    except Exception:  # noqa: BLE001  what cannot be looked at is not the place
        return None
