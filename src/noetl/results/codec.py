"""Values to files and back: Parquet for rows where DuckDB is installed, compressed JSON for everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from noetl.model.output import JSON, NDJSON, PARQUET, Spilled
from noetl.ports import ResultDamaged

#: content type → how a file of it is named
SUFFIXES = {JSON: ".json.zst", NDJSON: ".ndjson.zst", PARQUET: ".parquet"}
_BLOCK = 1 << 20
#: what is larger is compressed by several threads, which takes longer to begin and no longer to end
_LARGE = 4 << 20
_LEVEL = 1


class Written(msgspec.Struct, frozen=True):
    """A payload as it lies in a file."""

    content_type: str
    bytes: int
    sha256: str
    rows: int | None = None


class _Sink:
    """A file that knows its size and hash."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.bytes += len(data)
        return self.file.write(data)


def write(value: Any, path: Path, *, sync: bool, rows: bool = True) -> Written:
    """Write a value to a new file; `rows`: in the form for rows, if it is a list of them."""
    if shape := row_shape(value) if rows else None:
        if find_spec("duckdb") is not None:
            from noetl.results import parquet

            parquet.write(value, shape, path)
            return _seen(path, PARQUET, len(value), sync=sync)
        lines = msgspec.json.Encoder().encode_lines(value)
        return _pour(iter((lines,)), path, NDJSON, len(value), sync=sync)
    size = len(value) if isinstance(value, list) else None
    return _pour(iter((msgspec.json.encode(value),)), path, JSON, size, sync=sync)


def adopt(spilled: Spilled, path: Path, *, sync: bool) -> Written:
    """Make a file that a tool left a payload; it is never held in memory."""
    source = Path(spilled.path)
    if spilled.content_type == PARQUET:
        source.replace(path)
        return _seen(path, PARQUET, spilled.rows, sync=sync)
    with source.open("rb") as file:
        written = _pour(iter(lambda: file.read(_BLOCK), b""), path, spilled.content_type, spilled.rows, sync=sync)
    source.unlink()
    return written


def _pour(blocks: Iterator[bytes], path: Path, content_type: str, rows: int | None, *, sync: bool) -> Written:
    import zstandard

    sink = _Sink(path)
    first = next(blocks, b"")
    # The size comes first in the stream where it is known: whoever reads it can trust it, and must not guess.
    packer = zstandard.ZstdCompressor(level=_LEVEL, threads=-1 if len(first) >= _LARGE else 0)
    with sink.file:
        with packer.stream_writer(sink, closefd=False) as stream:  # type: ignore[arg-type]  # it only writes
            for block in (first, *blocks) if len(first) < _LARGE else _slices(first, blocks):
                stream.write(block)
        _flush(sink.file, sync=sync)
    return Written(content_type, sink.bytes, sink.hash.hexdigest(), rows)


def _slices(first: bytes, rest: Iterator[bytes]) -> Iterator[Any]:
    view = memoryview(first)
    for start in range(0, len(view), _BLOCK):
        yield view[start : start + _BLOCK]
    yield from rest


def _seen(path: Path, content_type: str, rows: int | None, *, sync: bool) -> Written:
    """What is to be known of a file that is there already."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        _flush(file, sync=sync)
    return Written(content_type, path.stat().st_size, digest, rows)


def _flush(file: Any, *, sync: bool) -> None:
    import os

    if file.writable():
        file.flush()
    if sync:
        os.fsync(file.fileno())


def load(spilled: Spilled) -> Any:
    """What a tool left in a file, which is removed."""
    path = Path(spilled.path)
    try:
        return read(path, spilled.content_type)
    finally:
        path.unlink()


def check(path: Path, sha256: str) -> None:
    """Whether a file is what was stored."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise ResultDamaged(f"the stored payload {path.name} was changed: its sha256 is another one")


def read(path: Path, content_type: str) -> Any:
    """The value in a file."""
    return _READERS[content_type](path)


def read_rows(path: Path, content_type: str, start: int, stop: int) -> list[Any]:
    """Some of the rows in a file."""
    if content_type == PARQUET:
        from noetl.results import parquet

        return parquet.read(path, start, stop)
    found = read(path, content_type)
    if not isinstance(found, list):
        raise ResultDamaged(f"the payload {path.name} is not a list of rows")
    return found[start:stop]


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a payload as they were before they were compressed."""
    import zstandard

    with path.open("rb") as file:
        if path.name.endswith(".zst"):
            yield from zstandard.ZstdDecompressor().read_to_iter(file)
        else:
            yield from iter(lambda: file.read(_BLOCK), b"")


def _read_json(path: Path) -> Any:
    return msgspec.json.decode(b"".join(blocks(path)))


def _read_ndjson(path: Path) -> Any:
    return msgspec.json.Decoder().decode_lines(b"".join(blocks(path)))


def _read_parquet(path: Path) -> Any:
    from noetl.results import parquet

    return parquet.read(path)


_READERS: dict[str, Callable[[Path], Any]] = {JSON: _read_json, NDJSON: _read_ndjson, PARQUET: _read_parquet}

# --- rows --------------------------------------------------------------------------------------------------------------

_SIMPLE = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


def row_shape(value: Any) -> dict[str, str] | None:
    """Column → SQL type, of a list of maps that have one shape; None of anything else.

    What has no type that gives back just what was written (numbers of two kinds, maps, lists) is kept as JSON.
    """
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    names = value[0].keys()
    if not names or set(map(type, value)) != {dict} or any(row.keys() != names for row in value):
        return None
    # DuckDB's names do not tell capitals apart.
    if len({name.casefold() for name in names}) < len(names) or "" in names:
        return None
    return {name: _column([row[name] for row in value]) for name in names}


def _column(values: list[Any]) -> str:
    kinds = set(map(type, values)) - {type(None)}
    found = _SIMPLE.get(kinds.pop(), "JSON") if len(kinds) == 1 else "JSON"
    if found == "BIGINT" and not all(-(2**63) <= number < 2**63 for number in values if number is not None):
        return "JSON"
    return found
