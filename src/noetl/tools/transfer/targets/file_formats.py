"""Formats of files: how chunks are added to one, and how it becomes visible."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from noetl.drivers.datahost import DataHostFailed
from noetl.drivers.text import as_text
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.rows.duck import literal, name, parquet_row, text_row
from noetl.rows.parquet_join import IncompatibleFiles, join
from noetl.tools.transfer.chunks import Chunk, CsvChunk
from noetl.tools.transfer.column_types import columns_of, not_a_map_failure, sorts_of, wider_type
from noetl.tools.transfer.diagnosis import explain_error, find_misfit
from noetl.tools.transfer.mapping import Column, MappedChunk, Projection
from noetl.tools.transfer.targets.target import TargetChunk
from noetl.tools.transfer.text_files import delimiter_of, is_zipped

# A file that chunks are added to, whatever its format, and how rows become its bytes.


#: hears how many bytes a file has, and how many it is going to have
Announce = Callable[[int, int], None]


class Format:
    """One file. Chunks are added as a whole or not at all; of one that ends with `.gz` each is packed by itself."""

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
            return self.size
        self.work.write_bytes(b"")
        return 0

    @property
    def size(self) -> int:
        """Bytes that were written, and were there before where it is appended to."""
        return self.work.stat().st_size if self.work.exists() else 0

    def add(self, given: TargetChunk, projection: Projection, announce: Announce | None = None) -> int:
        """Add a chunk: bytes that the file has now. `announce` hears before how many it has and will have."""
        start = self.size
        body = self._body(given, projection, start)
        if self.in_place and body and self._is_cut_off():
            body = b"\n" + body
        if body:
            body = self._compress(body)
        if announce is not None:
            announce(start, start + len(body))
        with self.work.open("ab", buffering=0) as file:
            try:
                _write(file, body)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.truncate(self.work, start)
                raise
            return file.tell()

    def _body(self, given: TargetChunk, projection: Projection, start: int) -> bytes:
        """What a chunk adds to a file that has `start` bytes."""
        raise NotImplementedError

    def _compress(self, body: bytes) -> bytes:
        return gzip.compress(body, 6, mtime=0) if is_zipped(self.path) else body

    def _open_existing(self) -> IO[bytes]:
        return cast("IO[bytes]", gzip.open(self.path)) if is_zipped(self.path) else self.path.open("rb")

    def _is_cut_off(self) -> bool:
        """Whether the last line has no end, so that another one must not follow at once."""
        if is_zipped(self.path) or not self.size:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def has(self, size: int) -> bool:
        """Whether what was noted to be in it is there."""
        return self.size >= size

    def truncate(self, size: int, chunks: int) -> None:  # noqa: ARG002
        """Back to how long it was noted to be."""
        if self.size > size:
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
            sync_file(self.work)
            self.work.replace(self.path)


def bodies(given: TargetChunk, projection: Projection) -> Sequence[bytes]:
    """The rows of a chunk as JSON, after the mapping."""
    if projection.is_plain:
        return given.chunk.bodies(given.connection)
    if projection.per_row or given.chunk.is_json:
        return [msgspec.json.encode(row) for row in projection.rows(given.chunk, given.about, given.connection)]
    mapped = projection.of(given.chunk, given.about, given.connection)
    return given.chunk.bodies(given.connection, ", ".join(select_column(one) for one in mapped.columns))


def select_column(column: Column, kind: str | None = None) -> str:
    """A column of a target in a SELECT, of a type if that matters."""
    made = name(column.source) if column.source else literal(column.value)
    return f"CAST({made} AS {kind}) AS {name(column.name)}" if kind else f"{made} AS {name(column.name)}"


def _write(file: Any, body: bytes) -> None:
    """All of it: the system may take less at once."""
    rest = memoryview(body)
    while rest:
        rest = rest[file.write(rest) :]


def sync_file(path: Path) -> None:
    """On the disk, before its name is given to it."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())


# Parquet files: chunks are files of their own, put together at the end.


#: DuckDB collects values for a dictionary until there are so many, a fifth of all if nobody says, and then writes them without:
#: for columns whose values are all different that took a quarter of the time
_OPTIONS = "(FORMAT parquet, DICTIONARY_SIZE_LIMIT 4000)"


class ParquetFormat(Format):
    """Parquet: chunks are files of their own, put together at the end."""

    content_type = PARQUET

    def __init__(self, path: Path, token: str, *, append: bool) -> None:
        super().__init__(path, token, append=append)
        #: the types that columns have since the first chunk that has them
        self._types: dict[str, str] | None = None
        #: of the last chunk: what it was made of, and what was selected
        self._before: tuple[tuple[list[Column], dict[str, str]], tuple[str, str]] | None = None

    def begin(self) -> int:
        self.abandon()  # parts of an attempt that nobody knows of any more
        self.work.mkdir(parents=True, exist_ok=True)
        return 0

    def _part(self, index: int) -> Path:
        return self.work / f"{index:09}.parquet"

    def add(self, given: TargetChunk, projection: Projection, announce: Announce | None = None) -> int:  # noqa: ARG002
        mapped = projection.of(given.chunk, given.about, given.connection)
        part = self._part(given.index)
        connection = given.connection
        types = mapped.chunk.columns()
        source = mapped.chunk.relation(connection, {})
        try:
            row, wanted = self._build_select(mapped, source, connection)
            connection.execute(
                f"COPY (SELECT {row} FROM (SELECT {wanted} FROM {source})) TO {literal(str(part))} {_OPTIONS}"
            )
        except Exception as error:
            sources = {one.source: types[one.source] for one in mapped.columns if one.source}
            raise explain_error(error, mapped.chunk, connection, sources) from error
        return part.stat().st_size

    def _build_select(self, mapped: MappedChunk, source: str, connection: Any) -> tuple[str, str]:
        """What is selected of a chunk, and of what: as of the one before, if it is made of the same columns."""
        made_of = (mapped.columns, dict(mapped.chunk.columns()))
        if self._before is not None and self._before[0] == made_of:
            return self._before[1]
        wanted = ", ".join(select_column(one) for one in mapped.columns)
        described = connection.execute(f"SELECT {wanted} FROM {source} LIMIT 0").description
        cast = self._settle({column[0]: str(column[1]) for column in described}, mapped, connection)
        wanted = ", ".join(select_column(one, cast.get(one.name)) for one in mapped.columns)
        described = connection.execute(f"SELECT {wanted} FROM {source} LIMIT 0").description
        found = parquet_row([(column[0], column[1]) for column in described]), wanted
        # What is cast is looked at each time, for whether it fits.
        self._before = None if cast else (made_of, found)
        return found

    def _settle(self, found: dict[str, str], mapped: MappedChunk, connection: Any) -> dict[str, str]:
        """The columns that are to be cast to the type they had in earlier chunks. Failing: a value does not fit that."""
        if self._types is None:
            self._types = self._read_existing_types(connection)
        cast = {key: self._types[key] for key, kind in found.items() if self._types.setdefault(key, kind) != kind}
        for one in mapped.columns:
            if one.name in cast and one.source:
                odd = find_misfit(mapped.chunk, connection, one.source, cast[one.name])
                if odd is not None:
                    raise odd
        return cast

    def _read_existing_types(self, connection: Any) -> dict[str, str]:
        """The types of what an earlier attempt wrote, and of what it is appended to."""
        files = [*([self.path] if self.append and self.path.exists() else []), *sorted(self.work.glob("*.parquet"))]
        if not files:
            return {}
        source = f"read_parquet({literal([str(one) for one in files])}, union_by_name = true)"
        return {one[0]: str(one[1]) for one in connection.execute(f"FROM {source} LIMIT 0").description}

    def has(self, size: int) -> bool:  # noqa: ARG002
        return self.work.is_dir()

    def truncate(self, size: int, chunks: int) -> None:  # noqa: ARG002
        for part in self.work.glob("*.parquet"):
            if int(part.stem) >= chunks:
                part.unlink()

    def abandon(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def publish(self) -> None:
        whole = self.work / "whole"
        parts = sorted(self.work.glob("*.parquet")) if self.work.exists() else []
        if parts and not whole.exists():
            self._make(whole, parts)
        # As long as there are parts, somebody who goes on after a crash would put them together again.
        for part in parts:
            part.unlink(missing_ok=True)
        if whole.exists():
            whole.replace(self.path)
        self.abandon()

    def _make(self, whole: Path, parts: list[Path]) -> None:
        """The file as it will be seen, on the disk when it has its name."""
        made = self.work / "unfinished"
        first = [self.path] if self.append and self.path.exists() else []
        if len(parts) == 1 and not first:
            made = parts[0]
        else:
            _join_parts([*first, *parts], made)
        sync_file(made)
        made.replace(whole)


def _join_parts(parts: list[Path], whole: Path) -> None:
    """One file of the rows of all; those that lack a column that others have are read and written again."""
    try:
        join(parts, whole)
    except IncompatibleFiles:
        from noetl.rows.duck import duckdb

        with duckdb().connect(":memory:", config={"memory_limit": "200MB"}) as connection:
            source = f"read_parquet({literal([str(one) for one in parts])}, union_by_name = true)"
            connection.execute(f"COPY (FROM {source}) TO {literal(str(whole))} (FORMAT parquet)")


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
