"""Formats of files: how chunks are added to one, and how it becomes visible."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.rows.duck import literal, name
from noetl.rows.jsonsql import text_row
from noetl.rows.parquetsql import parquet_row
from noetl.tools.datahost.failing import Failing
from noetl.tools.text import as_text
from noetl.tools.transfer.chunks import Chunk, Csv
from noetl.tools.transfer.diagnosis import explained
from noetl.tools.transfer.mapping import Column, Mapped, Projection
from noetl.tools.transfer.sampling import columns_of, not_a_map, sorts_of, wider
from noetl.tools.transfer.targets.target import Given

_QUOTE = '"'
#: what a cell of CSV has to stand in quotes for
_needs_quotes = re.compile(r'^$|[",\r\n]|^\s|\s$').search


class Format:
    """One file."""

    content_type = JSON
    #: whether appending is done where the file is
    in_place = False

    def __init__(self, path: Path, token: str, *, append: bool) -> None:
        self.path = path
        self.append = append
        self.in_place = append and type(self).in_place
        self.work = path if self.in_place else path.with_name(f".{path.name}.{token}.part")
        #: the columns, where they are the same for all rows
        self.columns: list[str] | None = None
        #: of a format whose cells are text: by column the type that this text is of; None: that is not known
        self.types: dict[str, str] | None = None

    def begin(self) -> int:
        """Before the first chunk: bytes that were there before."""
        if self.in_place:
            return self.path.stat().st_size if self.path.exists() else 0
        self.work.write_bytes(b"")
        return 0

    def add(self, given: Given, projection: Projection) -> int:
        """Add a chunk: bytes that the file has now."""
        with self.work.open("ab") as file:
            self._put(file, given, projection)
            return file.tell()

    def _put(self, file: IO[bytes], given: Given, projection: Projection) -> None:
        raise NotImplementedError

    def cut(self, size: int, chunks: int) -> None:  # noqa: ARG002
        """Back to how long it was noted to be."""
        if self.work.exists():
            os.truncate(self.work, size)

    def undo(self, before: int) -> None:
        """Back to how it was before the transfer."""
        if self.in_place and self.work.exists():
            os.truncate(self.work, before)
        else:
            self.abandon()

    def abandon(self) -> None:
        """Remove what was never seen."""
        if not self.in_place:
            self.work.unlink(missing_ok=True)

    def publish(self) -> None:
        """Make it visible; more than once does no harm."""
        if not self.in_place and self.work.exists():
            _settled(self.work)
            self.work.replace(self.path)


class JsonLines(Format):
    """A JSON value a line."""

    content_type = NDJSON
    in_place = True

    def _put(self, file: IO[bytes], given: Given, projection: Projection) -> None:
        for body in bodies(given, projection):
            file.write(body)
            file.write(b"\n")


class JsonArray(Format):
    """One JSON array. To append to one is to write it anew."""

    def begin(self) -> int:
        kept = self.path.read_bytes().rstrip() if self.append and self.path.exists() else b""
        if kept and not (kept.startswith(b"[") and kept.endswith(b"]")):
            raise Failing("type", f"`{self.path}` holds no JSON array that could be appended to")
        self.work.write_bytes(kept[:-1].rstrip() if kept else b"[")
        return 0

    def _put(self, file: IO[bytes], given: Given, projection: Projection) -> None:
        first = file.tell() == 1
        for body in bodies(given, projection):
            file.write(b"\n" if first else b",\n")
            file.write(body)
            first = False

    def publish(self) -> None:
        if self.work.exists():
            with self.work.open("r+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                if file.read(1) != b"]" or file.tell() == 1:
                    file.seek(0, os.SEEK_END)
                    file.write(b"\n]\n" if file.tell() > 1 else b"]\n")
        super().publish()


class CsvText(Format):
    """Comma-separated values with a header."""

    content_type = "text/csv"
    in_place = True

    def begin(self) -> int:
        before = super().begin()
        if before:
            with self.path.open(newline="", encoding="utf-8") as file:
                self.columns = next(csv.reader(file), None)
        else:
            self.types = {}
        return before

    def _put(self, file: IO[bytes], given: Given, projection: Projection) -> None:
        chunk = given.chunk
        header = file.tell() == 0
        if chunk.in_sql and not projection.per_row:
            mapped = projection.of(chunk, given.about, given.connection)
            self._settle([one.name for one in mapped.columns], mapped.chunk)
            self._see_columns(mapped)
            file.write(_csv_of(mapped, self.columns or [], given, header=header))
            return
        rows = projection.rows(chunk, given.about, given.connection)
        types = sorts_of(rows, chunk.first)
        self._see(types)
        if self.columns is None:
            self.columns = list(types)
        written = [_line(self.columns)] if header else []
        known = set(self.columns)
        for number, row in enumerate(rows, chunk.first + 1):
            if not isinstance(row, dict):
                raise not_a_map(number, row)
            if not known.issuperset(row):
                raise self._surplus(next(key for key in row if key not in known), number)
            written.append(_line([None if row.get(key) is None else as_text(row[key]) for key in self.columns]))
        file.write("".join(written).encode())

    def _see_columns(self, mapped: Mapped) -> None:
        known = mapped.chunk.columns()
        if isinstance(mapped.chunk, Csv):
            self.types = None  # text is written as it was, and is of the type that one takes it for
            return
        self._see({one.name: known[one.source] if one.source else _sort(one.value) for one in mapped.columns})

    def _see(self, types: Mapping[str, str | None]) -> None:
        """Take note of the types of more rows."""
        seen = self.types
        for column, kind in types.items():
            if seen is not None and kind is not None:
                seen[column] = wider(seen.get(column, kind), kind)

    def _settle(self, columns: list[str], chunk: Chunk) -> None:
        if self.columns is None:
            self.columns = columns
        if surplus := set(columns) - set(self.columns):
            raise self._surplus(min(surplus), chunk.row_with(min(surplus)) or chunk.first + 1)

    def _surplus(self, key: str, row: int) -> Failing:
        has = ", ".join(f"`{column}`" for column in self.columns or ())
        message = f"row {row:,} has a column `{key}`, the file `{self.path}` has only {has}"
        return Failing("type", message, column=key, row=row)


class Parquet(Format):
    """Parquet: chunks are files of their own, put together at the end."""

    content_type = PARQUET

    def begin(self) -> int:
        self.abandon()  # parts of an attempt that nobody knows of any more
        self.work.mkdir(parents=True, exist_ok=True)
        return 0

    def _part(self, index: int) -> Path:
        return self.work / f"{index:09}.parquet"

    def add(self, given: Given, projection: Projection) -> int:
        mapped = projection.of(given.chunk, given.about, given.connection)
        part = self._part(given.index)
        connection = given.connection
        types = mapped.chunk.columns()
        source = mapped.chunk.relation(connection, {})
        chosen = ", ".join(_chosen(one) for one in mapped.columns)
        try:
            described = connection.execute(f"SELECT {chosen} FROM {source} LIMIT 0").description
            row = parquet_row([(column[0], column[1]) for column in described])
            connection.execute(f"COPY (SELECT {row} FROM (SELECT {chosen} FROM {source})) TO {literal(str(part))}")
        except Exception as error:
            wanted = {one.source: types[one.source] for one in mapped.columns if one.source}
            raise explained(error, mapped.chunk, connection, wanted) from error
        return part.stat().st_size

    def cut(self, size: int, chunks: int) -> None:  # noqa: ARG002
        for part in self.work.glob("*.parquet"):
            if int(part.stem) >= chunks:
                part.unlink()

    def abandon(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def publish(self) -> None:
        from noetl.rows.duck import duckdb

        parts = sorted(self.work.glob("*.parquet")) if self.work.exists() else []
        if parts:
            whole = self.work / "whole"
            first = [self.path] if self.append and self.path.exists() else []
            if len(parts) == 1 and not first:
                whole = parts[0]
            else:
                files = [str(one) for one in (*first, *parts)]
                with duckdb().connect(":memory:", config={"memory_limit": "200MB"}) as connection:
                    source = f"read_parquet({literal(files)}, union_by_name = true)"
                    connection.execute(f"COPY (FROM {source}) TO {literal(str(whole))} (FORMAT parquet)")
            _settled(whole)
            whole.replace(self.path)
        self.abandon()


FORMATS: dict[str, type[Format]] = {"csv": CsvText, "json": JsonArray, "ndjson": JsonLines, "parquet": Parquet}


def bodies(given: Given, projection: Projection) -> Sequence[bytes]:
    """The rows of a chunk as JSON, after the mapping."""
    if projection.is_plain:
        return given.chunk.bodies(given.connection)
    if projection.per_row or given.chunk.is_json:
        return [msgspec.json.encode(row) for row in projection.rows(given.chunk, given.about, given.connection)]
    mapped = projection.of(given.chunk, given.about, given.connection)
    return given.chunk.bodies(given.connection, ", ".join(_chosen(one) for one in mapped.columns))


def _csv_of(mapped: Mapped, columns: list[str], given: Given, *, header: bool) -> bytes:
    """A chunk as CSV, made by DuckDB; text that came out of CSV is written as it was."""
    chunk, connection = mapped.chunk, given.connection
    types = chunk.columns()
    as_written = dict.fromkeys(types, "VARCHAR") if isinstance(chunk, Csv) else {}
    source = chunk.relation(connection, as_written)
    by_name = {one.name: one for one in mapped.columns}
    chosen = ", ".join(_chosen(by_name[key]) if key in by_name else f"NULL AS {name(key)}" for key in columns)
    path = Path(given.scratch) / f"csv-{id(mapped)}"
    try:
        described = connection.execute(f"SELECT {chosen} FROM {source} LIMIT 0").description
        row = text_row([(column[0], column[1]) for column in described])
        query = f"SELECT {row} FROM (SELECT {chosen} FROM {source})"
        head = "true" if header else "false"
        connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT csv, HEADER {head})")
        return path.read_bytes()
    except Exception as error:
        raise explained(error, chunk, connection, {**types, **as_written}) from error
    finally:
        path.unlink(missing_ok=True)


def _chosen(column: Column) -> str:
    if column.source:
        return f"{name(column.source)} AS {name(column.name)}"
    return f"{literal(column.value)} AS {name(column.name)}"


def _line(cells: Sequence[str | None]) -> str:
    """A row of CSV; what is empty is in quotes, what is not there has none."""
    shown = (
        "" if cell is None else f'"{cell.replace(_QUOTE, _QUOTE * 2)}"' if _needs_quotes(cell) else cell
        for cell in cells
    )
    return ",".join(shown) + "\n"


def _sort(value: Any) -> str:
    return columns_of([{"value": value}])["value"]


def schema_of(formats: Sequence[Format]) -> dict[str, str] | None:
    """By column the type that text in files is of; None: it is not known of all of them, or they know it themselves."""
    found: dict[str, str] = {}
    for one in formats:
        if one.types is None:
            return None
        for column, kind in one.types.items():
            found[column] = wider(found.get(column, kind), kind)
    return found


def _settled(path: Path) -> None:
    """On the disk, before its name is given to it."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
