"""Rows as Parquet, through DuckDB, in little memory however many there are."""

from __future__ import annotations

import atexit
import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.model.output import JSON, NDJSON
from noetl.ports import ResultDamaged
from noetl.rows.duck import json_row, literal

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
#: the types of columns that `convert_to_parquet` makes: what comes out of them is what went in
_AS_THEY_ARE = frozenset({"BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "JSON"})


def write_parquet(blocks: Iterable[bytes], columns: Mapping[str, str], count: int, path: Path) -> bool:
    """Write rows, given as lines of JSON, to a new file."""
    lines = path.with_suffix(".lines")
    try:
        with lines.open("wb") as file:
            file.writelines(blocks)
        return convert_to_parquet(lines, NDJSON, columns, count, path)
    finally:
        lines.unlink(missing_ok=True)


def convert_to_parquet(source: Path, content_type: str, columns: Mapping[str, str], count: int, path: Path) -> bool:
    """Write the rows of a file of JSON to a new file; False: a row is too long for that, or a name is taken."""
    import duckdb

    if _NUMBER in map(str.casefold, columns):
        return False

    typed = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
    options = f"format='{_FORMS[content_type]}', columns={{{typed}}}, maximum_object_size={_LONGEST_ROW}"
    rows_of = f"SELECT * FROM read_json({literal(str(source))}, {options})"  # noqa: S608  literals: COPY binds nothing
    groups = max(1, source.stat().st_size // _GROUP_BYTES)
    group = max(1, min(60, count // groups // _VECTOR)) * _VECTOR
    packing = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {group}"
    with _database(_TO_WRITE, path.parent) as db:
        try:
            db.execute(f"COPY ({rows_of}) TO {literal(str(path))} ({packing})")
        except (duckdb.InvalidInputException, duckdb.OutOfMemoryException):
            path.unlink(missing_ok=True)
            return False
        except duckdb.IOException as error:  # as of any other file that cannot be written
            raise OSError(errno.EIO, str(error).splitlines()[0]) from error
    return True


def read_parquet_batches(path: Path, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of a file that `convert_to_parquet` made from a number on, so many at a time."""
    source = f"read_parquet({literal(str(path))})"
    if start:
        numbered = f"read_parquet({literal(str(path))}, {_NUMBER}=true)"
        source = f"(SELECT * EXCLUDE {_NUMBER} FROM {numbered} WHERE {_NUMBER} >= {start})"  # noqa: S608  a literal
    yield from query_rows(source, size, what=f"the payload {path.name}", as_they_are=_AS_THEY_ARE)


def query_rows(
    source: str,
    size: int = 5_000,
    *,
    before: str = "",
    what: str = "what the reference leads to",
    as_they_are: frozenset[str] = frozenset(),
) -> Iterator[list[dict[str, Any]]]:
    """The rows of what stands behind FROM, so many at a time; values of every type as JSON has them.

    Columns that are all of types which are `as_they_are` take the short way.
    """
    import duckdb

    try:
        with _database(_TO_READ, anew=bool(before)) as db:
            if before:
                db.execute(before)
            described = db.execute(f"SELECT * FROM {source} LIMIT 0").description  # noqa: S608  names, literals
            columns = {str(name): kind for name, kind, *_ in described}
            plain = all(str(kind) in as_they_are for kind in columns.values())
            shown = "*" if plain else json_row(list(columns.items()))
            found = db.execute(f"SELECT {shown} FROM {source}")  # noqa: S608
            while records := found.fetchmany(size):
                yield _rows(records, columns) if plain else [msgspec.json.decode(text) for (text,) in records]
    except duckdb.Error as error:
        raise ResultDamaged(f"{what} cannot be read: {error}") from error


def _rows(records: list[Any], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = [dict(zip(columns, record, strict=True)) for record in records]
    for name, kind in columns.items():
        if str(kind) == "JSON":
            for row in rows:
                row[name] = None if row[name] is None else msgspec.json.decode(row[name])
    return rows


#: databases that nobody uses at the moment, by their limit: to make one takes longer than most of what is asked of it
_idle: dict[str, list[Any]] = {}
#: how many of each are kept
_MOST_IDLE = 2


@contextmanager
def _database(memory: str, folder: Path | None = None, *, anew: bool = False) -> Iterator[Any]:
    """A database in memory, alone; what it cannot hold goes to a folder, or nowhere. One that is `anew` is not kept."""
    db, connection = _take_database(memory, "" if folder is None else str(folder), anew=anew)
    sound = False
    try:
        # A progress bar would be drawn on stdout.
        connection.execute("SET enable_progress_bar = false")
        yield connection
        sound = True
    except GeneratorExit:  # enough was read
        sound = True
        raise
    finally:
        connection.close()
        idle = _idle.setdefault(memory, [])
        if sound and not anew and len(idle) < _MOST_IDLE:
            idle.append(db)
        else:
            db.close()


def _take_database(memory: str, spill: str, *, anew: bool) -> tuple[Any, Any]:
    """A database, idle or new, and a connection to it."""
    import duckdb

    with suppress(IndexError):
        while not anew:
            db = _idle.get(memory, []).pop()
            connection = db.cursor()
            try:
                connection.execute(f"SET temp_directory = {literal(spill)}")
            except duckdb.Error:  # something was spilled: now its folder cannot be changed
                connection.close()
                db.close()
                continue
            return db, connection
    # One thread, for each has buffers of its own; and nothing of a file is remembered, which may be another by then.
    config: dict[str, Any] = {"memory_limit": memory, "threads": 1, "temp_directory": spill}
    config["enable_external_file_cache"] = False
    db = duckdb.connect(config=config)
    return db, db.cursor()


@atexit.register
def _close_databases() -> None:
    """DuckDB wants to be closed before the interpreter is torn down."""
    for idle in _idle.values():
        while idle:
            idle.pop().close()
