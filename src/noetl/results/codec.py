"""Values to files and back: Parquet for rows where DuckDB is installed, compressed JSON for everything else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.model.output import JSON, NDJSON, PARQUET, Spilled
from noetl.ports import ResultDamaged
from noetl.results.parquet import convert_to_parquet, read_parquet_batches, write_parquet
from noetl.rows.columns import row_shape
from noetl.rows.json_stream import NotJsonText, batches, compact
from noetl.tools import json_pieces

#: content type → how a file of it is named
SUFFIXES = {JSON: ".json.zst", NDJSON: ".ndjson.zst", PARQUET: ".parquet"}
_BLOCK = 1 << 20
#: what is larger is compressed by several threads, which takes longer to begin and no longer to end
_LARGE = 4 << 20
#: how hard is tried to make it small; of what is large, speed counts for more than the last tenth
_LEVEL, _LEVEL_OF_LARGE = 1, -1
#: so many rows are read at a time
RUN = 5_000


class PayloadInfo(msgspec.Struct, frozen=True):
    """A payload as it lies in a file."""

    content_type: str
    #: of the payload as compact JSON
    bytes: int
    sha256: str
    #: of the file
    stored_bytes: int
    stored_sha256: str
    rows: int | None = None


class JsonDigest:
    """Size and hash of a value as compact JSON, of which the text comes bit by bit and is not kept."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.bytes = 0
        self._encode = msgspec.json.Encoder().encode
        self._opening = b"["

    def add(self, text: bytes) -> bytes:
        """Take more of the text, and give it back."""
        self.hash.update(text)
        self.bytes += len(text)
        return text

    def add_items(self, items: list[Any]) -> None:
        """Take more elements of a list."""
        if items:
            self.add(self._opening + self._encode(items)[1:-1])
            self._opening = b","

    def add_lines(self, lines: bytes) -> None:
        """Take elements that stand one a line, as this engine writes them; the text may end within a line."""
        if lines:
            self.add(self._opening + lines.removesuffix(b"\n").replace(b"\n", b","))
            self._opening = b"," if lines.endswith(b"\n") else b""

    def end_list(self) -> JsonDigest:
        """No more elements follow."""
        self.add(b"[]" if self._opening == b"[" else b"]")
        return self


# --- writing -----------------------------------------------------------------------------------------------------------


def write(value: Any, path: Path, *, sync: bool, rows: bool = True) -> PayloadInfo:
    """Write a value to a new file; `rows`: in the form for rows, if it is a list of them."""
    columns = row_shape(value) if rows else None
    digest = JsonDigest()
    if columns is None:
        size = len(value) if isinstance(value, list) else None
        pieces = map(digest.add, json_pieces(value, msgspec.json.encode))
        return _write_blocks(pieces, path, JSON, size, digest, sync=sync)
    for lines in _as_lines(value):
        digest.add_lines(lines)
    digest.end_list()
    if has_parquet() and write_parquet(_as_lines(value), columns, len(value), path):
        return _describe_file(path, PARQUET, len(value), digest, sync=sync)
    return _write_blocks(_as_lines(value), path, NDJSON, len(value), digest, sync=sync)


def _as_lines(rows: list[Any]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode_lines
    return (encode(rows[start : start + RUN]) for start in range(0, len(rows), RUN))


def adopt(spilled: Spilled, path: Path, *, sync: bool) -> PayloadInfo:
    """Make a file that a tool left a payload; it is never held in memory."""
    source = Path(spilled.path)
    try:
        digest = _digest_spilled(spilled)
        if spilled.content_type == PARQUET:
            source.replace(path)
            return _describe_file(path, PARQUET, spilled.rows, digest, sync=sync)
        if _adopt_rows(spilled, path):
            return _describe_file(path, PARQUET, spilled.rows, digest, sync=sync)
        return _compress(spilled, path, digest, sync=sync)
    finally:
        source.unlink(missing_ok=True)


def _digest_spilled(spilled: Spilled) -> JsonDigest:
    """Size and hash of what a tool left in a file."""
    digest = JsonDigest()
    if spilled.content_type == PARQUET:
        for run in read_parquet_batches(Path(spilled.path), 0, RUN):
            digest.add_items(run)
        return digest.end_list()
    with Path(spilled.path).open("rb") as file:
        read = iter(lambda: file.read(_BLOCK), b"")
        if spilled.content_type == NDJSON:
            for block in read:
                digest.add_lines(block)
        elif spilled.rows is not None and not spilled.compact:
            for batch in batches(read):
                digest.add_items(batch)
        else:
            for block in read if spilled.compact else compact(read):
                digest.add(block)
            return digest
    return digest.end_list()


def _adopt_rows(spilled: Spilled, path: Path) -> bool:
    """Write the rows of a file as Parquet; False: they are no rows, or Parquet cannot hold them."""
    if not (spilled.columns and spilled.rows and has_parquet()):
        return False
    return convert_to_parquet(Path(spilled.path), spilled.content_type, spilled.columns, spilled.rows, path)


def has_parquet() -> bool:
    """Whether rows can be kept as Parquet here."""
    return find_spec("duckdb") is not None


def _compress(spilled: Spilled, path: Path, digest: JsonDigest, *, sync: bool) -> PayloadInfo:
    with Path(spilled.path).open("rb") as file:
        read = iter(lambda: file.read(_BLOCK), b"")
        if spilled.content_type == JSON and spilled.columns:
            lines = map(msgspec.json.Encoder().encode_lines, batches(read))
            return _write_blocks(lines, path, NDJSON, spilled.rows, digest, sync=sync)
        return _write_blocks(read, path, spilled.content_type, spilled.rows, digest, sync=sync)


class _Sink:
    """A file that knows its size and hash."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> None:
        """Append bytes, if there are any."""
        if data:
            self.hash.update(data)
            self.bytes += len(data)
            self.file.write(data)


def _write_blocks(
    blocks: Iterable[bytes], path: Path, content_type: str, rows: int | None, digest: JsonDigest, *, sync: bool
) -> PayloadInfo:
    """Compress blocks into a new file. Of what is large, the next ones are made while others still compress."""
    from noetl.results.zstd import open_compressor

    first: list[bytes] = []
    size, blocks = 0, iter(blocks)
    while size < _LARGE and (block := next(blocks, None)) is not None:
        first.append(block)
        size += len(block)
    large = size >= _LARGE
    frame = open_compressor(_LEVEL_OF_LARGE if large else _LEVEL, threaded=large)
    with path.open("wb") as file:
        sink = _Sink(file)
        for block in chain((b"".join(first),), blocks):
            sink.write(frame.compress(block))
        sink.write(frame.flush())
        file.flush()
        if sync:
            os.fsync(file.fileno())
    return _info(content_type, digest, sink.bytes, sink.hash.hexdigest(), rows)


def _info(content_type: str, digest: JsonDigest, size: int, sha256: str, rows: int | None) -> PayloadInfo:
    return PayloadInfo(content_type, digest.bytes, digest.hash.hexdigest(), size, sha256, rows)


def _describe_file(path: Path, content_type: str, rows: int | None, digest: JsonDigest, *, sync: bool) -> PayloadInfo:
    """What is to be known of a file that is there already."""
    if sync:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return _info(content_type, digest, path.stat().st_size, sha256_of(path), rows)


# --- reading -----------------------------------------------------------------------------------------------------------


def load(spilled: Spilled) -> Any:
    """What a tool left in a file, which is removed."""
    path = Path(spilled.path)
    try:
        return read(path, spilled.content_type)
    finally:
        path.unlink()


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path, content_type: str) -> Any:
    """The value in a file."""
    try:
        return _READERS[content_type](path)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResultDamaged(f"the payload {path.name} cannot be read: {error}") from error


def read_batches(path: Path, content_type: str, start: int = 0) -> Iterator[list[Any]]:
    """The elements of a list in a file from one on, some at a time, none of the others in memory."""
    if content_type == PARQUET:
        yield from read_parquet_batches(path, start, RUN)
        return
    try:
        yield from without_first(start, batches(blocks(path)) if content_type == JSON else _lines(path))
    except (NotJsonText, msgspec.DecodeError) as error:
        raise ResultDamaged(f"the payload {path.name} is not a list that can be read: {error}") from error


def without_first(count: int, runs: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """The elements of runs behind the first so many."""
    for run in runs:
        if count < len(run):
            yield run[count:] if count else run
        count = max(0, count - len(run))


def _lines(path: Path) -> Iterator[list[Any]]:
    decode = msgspec.json.Decoder().decode_lines
    rest = b""
    for block in blocks(path):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield decode(whole)
    if rest:
        yield decode(rest)


def blocks(path: Path) -> Generator[bytes, None, None]:
    """The bytes of a payload as they were before they were compressed."""
    if path.name.endswith(".gz"):
        yield from _gunzip(path)
        return
    with path.open("rb") as file:
        if not path.name.endswith(".zst"):
            yield from iter(lambda: file.read(_BLOCK), b"")
            return
        from noetl.results.zstd import ZstdError, decompress_blocks

        try:
            yield from decompress_blocks(file)
        except ZstdError as error:
            raise ResultDamaged(f"the payload {path.name} cannot be unpacked: {error}") from error


def _gunzip(path: Path) -> Iterator[bytes]:
    import gzip
    import zlib

    try:
        with gzip.open(path) as file:
            yield from iter(lambda: file.read(_BLOCK), b"")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ResultDamaged(f"the payload {path.name} cannot be unpacked: {error}") from error


def _read_json(path: Path) -> Any:
    return msgspec.json.decode(b"".join(blocks(path)))


def _read_ndjson(path: Path) -> Any:
    return msgspec.json.Decoder().decode_lines(b"".join(blocks(path)))


def _read_parquet(path: Path) -> Any:
    return [row for run in read_batches(path, PARQUET) for row in run]


_READERS: dict[str, Callable[[Path], Any]] = {JSON: _read_json, NDJSON: _read_ndjson, PARQUET: _read_parquet}
