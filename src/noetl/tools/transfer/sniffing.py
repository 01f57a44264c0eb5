"""How a CSV file is written, as DuckDB finds it out; and why it cannot, where rows have not all as many columns."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from noetl.rows.duck import literal
from noetl.tools.transfer.chunks import BUFFER
from noetl.tools.transfer.diagnosis import of_source
from noetl.tools.transfer.rewriting import open_text

_ASKED = (
    "Delimiter, Quote, Escape, NewLineDelimiter, Comment, SkipRows, HasHeader, Columns, DateFormat, TimestampFormat"
)
_DELIMITERS = ",;\t|"
#: no row is longer that DuckDB reads, and so neither a line nor a field
_LONGEST_ROW = 4 << 20
#: of so much of a file the lines are looked at that may be a title
_HEAD = 1 << 16
#: lines that a title may have
_LONGEST_TITLE = 10


def sniffed(connection: Any, path: Path, delimiter: str | None) -> tuple[Any, ...]:
    """What is asked of a file. Left to itself DuckDB would pass over whatever comes before the longest rows."""
    given = f", delim = {literal(delimiter)}" if delimiter else ""
    return _asked(connection, path, f"{given}, skip = {_title(path, delimiter)}")


def _title(path: Path, delimiter: str | None) -> int:
    """How many lines are a title: they have no delimiter, and an empty line sets them off from one that has."""
    lines = [line.strip() for line in _lines(path, _LONGEST_TITLE + 1)]
    below = next((at for at, line in enumerate(lines) if _has(line, delimiter)), 0)
    return below if below > 1 and lines[0] and not lines[below - 1] else 0


def _asked(connection: Any, path: Path, options: str) -> tuple[Any, ...]:
    query = f"SELECT {_ASKED} FROM sniff_csv($1, {BUFFER}{options})"
    found: tuple[Any, ...] = connection.execute(query, [str(path)]).fetchone()
    return found


def uneven(path: Path, delimiter: str | None) -> Exception | None:
    """The first row of a CSV file that has not as many columns as its header; DuckDB takes such a file for one column."""
    delimiter = delimiter or next((one for one in _DELIMITERS if one in "".join(_lines(path, 1))), None)
    if delimiter is None or len(delimiter) != 1:
        return None
    csv.field_size_limit(_LONGEST_ROW)
    with (
        contextlib.suppress(csv.Error),
        open_text(path) as file,
        io.TextIOWrapper(file, "utf-8-sig", "replace", newline="") as text,
    ):
        reader = csv.reader(_bounded(text), delimiter=delimiter)
        wanted = len(next(reader, []))
        for number, row in enumerate((one for one in reader if one), 1):
            if len(row) != wanted:
                others = "the others have" if number > 1 else "the line above it has"
                shown = delimiter.join(row)[:200]
                return of_source(f"row {number:,} has {len(row)} columns, {others} {wanted}: {shown!r}", number)
    return None


def _has(line: str, delimiter: str | None) -> bool:
    return delimiter in line if delimiter else any(one in line for one in _DELIMITERS)


def _lines(path: Path, count: int) -> list[str]:
    """The first lines of a file, the last of them perhaps not to its end: a file may be one line, and however long."""
    with open_text(path) as file:
        head = file.read(_HEAD)
    end = b"\n" if b"\n" in head else b"\r"
    return [line.decode("utf-8", "replace") for line in head.split(end)[:count]]


def _bounded(text: TextIO) -> Iterator[str]:
    """Lines. csv.Error: one is longer than any row is."""
    while line := text.readline(_LONGEST_ROW):
        if len(line) == _LONGEST_ROW:
            raise csv.Error("a line has no end")
        yield line
