"""Rows behind the references that `transfer` gives: files and tables, whole or by range.

    read(reference)             # all rows
    rows(reference, 100, 200)   # those from 100 up to and without 200

Both block, and are to be called in a thread. FileNotFoundError: what the reference leads to is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.rows.duck import duckdb, literal, name
from noetl.rows.jsonsql import json_row

CSV = "text/csv"
#: for reading rows out of a file, whatever its size
_MEMORY = "200MB"


def is_readable(reference: Mapping[str, Any]) -> bool:
    """Whether a reference is one of those."""
    locator = reference.get("locator") or {}
    return "file" in locator or "files" in locator


def read(reference: Mapping[str, Any]) -> list[Any]:
    """All rows."""
    return rows(reference, 0, None)


def rows(reference: Mapping[str, Any], start: int, stop: int | None) -> list[Any]:
    """The rows from `start` up to and without `stop`; fewer where there are no more."""
    locator = reference["locator"]
    if reference["type"] == "relational":
        _see(locator["file"])
        return _of_table(locator["file"], locator["table"], start, stop)
    files = locator.get("files") or [locator["file"]]
    for file in files:
        _see(file)
    content_type = reference["meta"].get("content_type")
    if content_type == PARQUET:
        return parquet(files, start, stop)
    if content_type == CSV:
        return _asked(f"read_csv({literal(files)})", start, stop)
    if content_type not in (JSON, NDJSON):
        raise NoetlError(f"rows of the type {content_type} cannot be read")
    found: list[Any] = []
    for file in files:
        found += _json(Path(file), content_type, None if stop is None else stop - len(found))
    return found[start:stop]


def parquet(files: list[str], start: int, stop: int | None) -> list[Any]:
    """Rows of Parquet files, as JSON has them."""
    return _asked(f"read_parquet({literal(files)}, union_by_name = true)", start, stop)


def _json(file: Path, content_type: str, most: int | None) -> list[Any]:
    """Rows of a JSON file; of lines no more than are needed."""
    if content_type == JSON:
        whole: list[Any] = msgspec.json.decode(file.read_bytes())
        return whole
    found: list[Any] = []
    with file.open("rb") as lines:
        for line in lines:
            if most is not None and len(found) >= most:
                break
            if line.strip():
                found.append(msgspec.json.decode(line))
    return found


def _of_table(file: str, table: str, start: int, stop: int | None) -> list[Any]:
    whole = ".".join(name(part) for part in table.split("."))
    return _asked(f"noetl_read.{whole}", start, stop, before=f"ATTACH {literal(file)} AS noetl_read (READ_ONLY)")


def _asked(source: str, start: int, stop: int | None, before: str = "") -> list[Any]:
    module = duckdb()
    limit = "" if stop is None else f"LIMIT {max(0, stop - start)}"
    try:
        with module.connect(":memory:", config={"memory_limit": _MEMORY}) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be drawn on our stdout
            if before:
                connection.execute(before)
            described = connection.execute(f"SELECT * FROM {source} LIMIT 0").description
            row = json_row([(column[0], column[1]) for column in described])
            made = connection.execute(f"SELECT {row} FROM (SELECT * FROM {source} {limit} OFFSET {start})").fetchall()
    except module.Error as error:
        raise NoetlError(f"the rows cannot be read: {error}") from None
    found: list[Any] = msgspec.json.decode(b"[" + b",".join(text.encode() for (text,) in made) + b"]")
    return found


def _see(file: str) -> None:
    if not Path(file).is_file():
        raise FileNotFoundError(2, "it is gone", file)
