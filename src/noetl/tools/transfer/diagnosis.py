"""Why rows do not fit: the column, the row and the value, found when it is too late and only then."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.rows.duck import name
from noetl.tools.datahost.failing import Failing, failure_of
from noetl.tools.transfer.chunks import Chunk

_RAGGED = re.compile(
    r"CSV Error on Line: (\d+)\nOriginal Line: ?(.*?)\n.*?Expected Number of Columns: (\d+) Found: (\d+)", re.DOTALL
)
_LINE = re.compile(r"CSV Error on Line: (\d+)\n(?:Original Line: ?(.*?)\n)?(.*?)\n", re.DOTALL)
_NUMBERS = frozenset({"BIGINT", "HUGEINT", "DOUBLE"})
_NULL = re.compile(r"NOT NULL constraint failed: (?:[^.\s]+\.)*(\S+)")


def explained(error: Exception, chunk: Chunk, connection: Any, wanted: Mapping[str, str]) -> Failing:
    """The failure, with the place if it can be found. `wanted` are the types that columns of the rows should have."""
    if isinstance(error, Failing):
        return error
    found = failure_of(error)
    if found["kind"] != "sql":
        return Failing(**found)
    said = found["message"]
    place = _ragged(said, chunk) or _null(said, chunk, connection)
    for column, kind in wanted.items():
        place = place or _unfit(chunk, connection, column, kind)
    if place is None and (line := _LINE.search(said)):
        row = chunk.first + int(line[1])
        place = Failing("type", f"row {row:,} cannot be read: {line[3]}", row=row)
    if place is not None:
        return place
    rows = f"rows {chunk.first + 1:,} to {chunk.first + chunk.size:,}"
    return Failing(**{**found, "message": f"{said} (among {rows})"})


def misfit(chunk: Chunk, connection: Any, column: str, kind: str) -> Failing | None:
    """The first value of a column that would not be the same in another type, which earlier rows have settled."""
    same = f"TRY_CAST(TRY_CAST(v AS {kind}) AS VARCHAR) IS NOT DISTINCT FROM CAST(v AS VARCHAR)"
    number = f"coalesce(TRY_CAST(v AS DOUBLE) = TRY_CAST(TRY_CAST(v AS {kind}) AS DOUBLE), false)"
    number = number if kind in _NUMBERS else "false"
    row = _first(
        connection, chunk.relation(connection, {}), name(column), f"v IS NOT NULL AND NOT ({same} OR {number})"
    )
    if row is None:
        return None
    at, value = chunk.first + row[0], str(row[1])[:200]
    message = (
        f"column `{column}`, row {at:,}: {value!r} is not of type {kind}, as the rows of earlier chunks are; a file has one "
        "type for a column: give it one in `mapping`"
    )
    return Failing("type", message, column=column, row=at, value=value)


def uneven(path: Path, header: str) -> Failing | None:
    """The first row of a CSV file that has not as many columns as its header; DuckDB takes such a file for one column."""
    delimiter = next((one for one in ",;\t|" if one in header), None)
    if delimiter is None:
        return None
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.reader(file, delimiter=delimiter)
        wanted = len(next(reader, []))
        for number, row in enumerate((one for one in reader if one), 1):
            if len(row) != wanted:
                shown = delimiter.join(row)[:200]
                message = f"row {number:,} has {len(row)} columns, the others have {wanted}: {shown!r}"
                return Failing("type", message, row=number)
    return None


def _ragged(said: str, chunk: Chunk) -> Failing | None:
    match = _RAGGED.search(said)
    if match is None:
        return None
    row = chunk.first + int(match[1])
    message = f"row {row:,} has {match[4]} columns, the others have {match[3]}: {match[2][:200]!r}"
    return Failing("type", message, row=row)


def _null(said: str, chunk: Chunk, connection: Any) -> Failing | None:
    match = _NULL.search(said)
    if match is None:
        return None
    column = match[1].strip('"')
    row = _first(connection, *_look(chunk, connection, column), "v IS NULL") if column in chunk.columns() else None
    where = f"row {chunk.first + row[0]:,}: " if row else ""
    return Failing("type", f"{where}column `{column}` must not be empty", column=column)


def _unfit(chunk: Chunk, connection: Any, column: str, kind: str) -> Failing | None:
    source, text = _look(chunk, connection, column)
    row = _first(connection, source, text, f"v IS NOT NULL AND TRY_CAST(v AS {kind}) IS NULL")
    if row is None:
        return None
    number, value = chunk.first + row[0], str(row[1])[:200]
    message = f"column `{column}`, row {number:,}: {value!r} is not of type {kind}"
    return Failing("type", message, column=column, row=number, value=value)


def _look(chunk: Chunk, connection: Any, column: str) -> tuple[str, str]:
    return chunk.doubtful(connection, column)


def _first(connection: Any, source: str, text: str, holds: str) -> Any:
    numbered = f"SELECT row_number() OVER () AS n, {text} AS v FROM {source}"
    try:
        return connection.execute(f"SELECT n, CAST(v AS VARCHAR) FROM ({numbered}) WHERE {holds} LIMIT 1").fetchone()
    except Exception:  # noqa: BLE001  what cannot be looked at is not the place
        return None
