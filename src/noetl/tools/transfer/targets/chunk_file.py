"""A file that chunks are added to, whatever its format, and how rows become its bytes."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from noetl.model.output import JSON
from noetl.rows.duck import literal, name
from noetl.tools.transfer.file_formats import is_zipped
from noetl.tools.transfer.mapping import Column, Projection
from noetl.tools.transfer.targets.target import TargetChunk

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
