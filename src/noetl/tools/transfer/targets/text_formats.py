"""Formats of files: how chunks are added to one, and how it becomes visible."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from noetl.drivers.datahost import DataHostFailed
from noetl.drivers.text import as_text
from noetl.model.output import NDJSON
from noetl.rows.duck import literal, name
from noetl.rows.exact_sql import text_row
from noetl.tools.transfer.chunks import Chunk, CsvChunk
from noetl.tools.transfer.diagnosis import explain_error
from noetl.tools.transfer.file_formats import delimiter_of
from noetl.tools.transfer.mapping import MappedChunk, Projection
from noetl.tools.transfer.sampled_types import columns_of, not_a_map_failure, sorts_of, wider_type
from noetl.tools.transfer.targets.chunk_file import Format, bodies, select_column
from noetl.tools.transfer.targets.parquet_file import ParquetFormat
from noetl.tools.transfer.targets.target import TargetChunk

_BLOCK = 1 << 20
_QUOTE = '"'
#: what a cell has to stand in quotes for, by what separates it from the next
_QUOTED = {mark: re.compile(rf'^$|["{mark}\r\n]|^\s|\s$').search for mark in ",\t"}


class JsonLines(Format):
    """A JSON value a line."""

    content_type = NDJSON
    in_place = True

    def _body(self, given: TargetChunk, projection: Projection, start: int) -> bytes:  # noqa: ARG002
        return b"".join(body + b"\n" for body in bodies(given, projection))


class JsonArray(Format):
    """One JSON array. To append to one is to write it anew."""

    def begin(self) -> int:
        if not self.append or not self.path.exists():
            self.work.write_bytes(self._compress(b"["))
            return 0
        with self._open_existing() as old, self.work.open("wb") as new:
            kept = _array_without_end(old, self.path)
            for first, block in enumerate(kept):
                if not first and not block.startswith(b"["):
                    raise _no_array(self.path)
                new.write(self._compress(block))
        return 0

    def _body(self, given: TargetChunk, projection: Projection, start: int) -> bytes:
        rows = b",\n".join(bodies(given, projection))
        if not rows:
            return b""
        return (b"\n" if start == len(self._compress(b"[")) else b",\n") + rows

    def publish(self) -> None:
        if self.work.exists():
            # An end that an earlier attempt has written was cut off when this one began.
            empty = self.size == len(self._compress(b"["))
            with self.work.open("ab") as file:
                file.write(self._compress(b"]\n" if empty else b"\n]\n"))
        super().publish()


class CsvText(Format):
    """Comma-separated values with a header; tabs separate those of a `.tsv`."""

    content_type = "text/csv"
    in_place = True

    def begin(self) -> int:
        before = super().begin()
        if before:
            with self._open_existing() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
                self.columns = next(csv.reader(text, delimiter=delimiter_of(self.path)), None)
        else:
            self.types = {}
        return before

    def _body(self, given: TargetChunk, projection: Projection, start: int) -> bytes:
        chunk = given.chunk
        header = start == 0
        if chunk.in_sql and not projection.per_row:
            mapped = projection.of(chunk, given.about, given.connection)
            self._settle([one.name for one in mapped.columns], mapped.chunk)
            self._record_columns(mapped)
            return _csv_of(mapped, self.columns or [], given, header=header, delimiter=delimiter_of(self.path))
        rows = projection.rows(chunk, given.about, given.connection)
        types = sorts_of(rows, chunk.first)
        self._record_types(types)
        if self.columns is None:
            self.columns = list(types)
        written = [self._line(self.columns)] if header else []
        known = set(self.columns)
        for number, row in enumerate(rows, chunk.first + 1):
            if not isinstance(row, dict):
                raise not_a_map_failure(number, row)
            if not known.issuperset(row):
                raise self._surplus_failure(next(key for key in row if key not in known), number)
            written.append(self._line([None if row.get(key) is None else as_text(row[key]) for key in self.columns]))
        return "".join(written).encode()

    def _line(self, cells: Sequence[str | None]) -> str:
        """A row; what is empty is in quotes, what is not there has none."""
        delimiter = delimiter_of(self.path)
        is_quoted = _QUOTED[delimiter]
        shown = (
            "" if cell is None else f'"{cell.replace(_QUOTE, _QUOTE * 2)}"' if is_quoted(cell) else cell
            for cell in cells
        )
        return delimiter.join(shown) + "\n"

    def _record_columns(self, mapped: MappedChunk) -> None:
        known = mapped.chunk.columns()
        if isinstance(mapped.chunk, CsvChunk):
            self.types = None  # text is written as it was, and is of the type that one takes it for
            return
        self._record_types({one.name: known[one.source] if one.source else _sort(one.value) for one in mapped.columns})

    def _record_types(self, types: Mapping[str, str | None]) -> None:
        """Take note of the types of more rows."""
        seen = self.types
        for column, kind in types.items():
            if seen is not None and kind is not None:
                seen[column] = wider_type(seen.get(column, kind), kind)

    def _settle(self, columns: list[str], chunk: Chunk) -> None:
        if self.columns is None:
            self.columns = columns
        if surplus := set(columns) - set(self.columns):
            raise self._surplus_failure(min(surplus), chunk.row_with(min(surplus)) or chunk.first + 1)

    def _surplus_failure(self, key: str, row: int) -> DataHostFailed:
        has = ", ".join(f"`{column}`" for column in self.columns or ())
        message = f"row {row:,} has a column `{key}`, the file `{self.path}` has only {has}"
        return DataHostFailed("type", message, column=key, row=row)


FORMATS: dict[str, type[Format]] = {"csv": CsvText, "json": JsonArray, "ndjson": JsonLines, "parquet": ParquetFormat}


def _csv_of(mapped: MappedChunk, columns: list[str], given: TargetChunk, *, header: bool, delimiter: str) -> bytes:
    """A chunk as CSV, made by DuckDB; text that came out of CSV is written as it was."""
    chunk, connection = mapped.chunk, given.connection
    types = chunk.columns()
    as_written = dict.fromkeys(types, "VARCHAR") if isinstance(chunk, CsvChunk) else {}
    source = chunk.relation(connection, as_written)
    by_name = {one.name: one for one in mapped.columns}
    wanted = ", ".join(select_column(by_name[key]) if key in by_name else f"NULL AS {name(key)}" for key in columns)
    path = Path(given.scratch) / f"csv-{id(mapped)}"
    try:
        described = connection.execute(f"SELECT {wanted} FROM {source} LIMIT 0").description
        row = text_row([(column[0], column[1]) for column in described])
        query = f"SELECT {row} FROM (SELECT {wanted} FROM {source})"
        head = "true" if header else "false"
        how = f"FORMAT csv, HEADER {head}, DELIMITER {literal(delimiter)}, COMPRESSION none"
        connection.execute(f"COPY ({query}) TO {literal(str(path))} ({how})")
        return path.read_bytes()
    except Exception as error:
        raise explain_error(error, chunk, connection, {**types, **as_written}) from error
    finally:
        path.unlink(missing_ok=True)


def _array_without_end(old: IO[bytes], path: Path) -> Iterator[bytes]:
    """The blocks of a JSON array without its end, so that more can follow. Failing: it is none."""
    held = b"["
    empty = True
    while block := old.read(_BLOCK):
        block = block.lstrip() if empty else block
        if not block:
            continue
        if not empty and block.strip():
            yield held
            held = b""
        held, empty = block if empty else held + block, False
    kept = held.rstrip()
    if not empty and not kept.endswith(b"]"):
        raise _no_array(path)
    yield kept[:-1].rstrip() if not empty else kept


def _no_array(path: Path) -> DataHostFailed:
    return DataHostFailed("type", f"`{path}` holds no JSON array that could be appended to")


def _sort(value: Any) -> str:
    return columns_of([{"value": value}])["value"]


def schema_of(formats: Sequence[Format]) -> dict[str, str] | None:
    """By column the type that text in files is of; None: it is not known of all of them, or they know it themselves."""
    found: dict[str, str] = {}
    for one in formats:
        if one.types is None:
            return None
        for column, kind in one.types.items():
            found[column] = wider_type(found.get(column, kind), kind)
    return found
