"""Rows on their way out of a database: held while they are few, in a file as soon as they are many and nobody looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.model.output import NDJSON, Spilled
from noetl.ports import Call, World
from noetl.tools.pg.failing import failing
from noetl.tools.rows import Columns
from noetl.tools.spilling import output_limit, over_limit


class Rows:
    """The rows of one statement, some at a time."""

    def __init__(self, call: Call, world: World) -> None:
        self._world = world
        self._spill = call.spill
        self._limit = output_limit(call)
        self._encode = msgspec.json.Encoder().encode_lines
        self._held: list[dict[str, Any]] = []
        self._columns = Columns()
        self._path: Path | None = None
        self._file: IO[bytes] | None = None
        self.count = 0
        #: as lines of JSON
        self.bytes = 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Take more rows. Failing: there are more than there may be."""
        if not rows:
            return
        lines = self._encode(rows)
        self.count += len(rows)
        self.bytes += len(lines)
        if self.bytes > self._limit:
            raise failing("limit", over_limit("the result", self._limit))
        if self._file is not None:
            self._write(rows, lines)
            return
        self._held += rows
        if self._spill is not None and self.bytes > self._spill:
            self._path = self._world.draft(".ndjson")
            self._file = self._path.open("wb", buffering=1 << 20)
            held, self._held = self._held, []
            self._write(held, self._encode(held))

    def _write(self, rows: list[dict[str, Any]], lines: bytes) -> None:
        assert self._file is not None
        self._columns.add(rows)
        self._file.write(lines)

    def finish(self) -> list[dict[str, Any]] | Spilled:
        """All of them, or where they are."""
        if self._file is None:
            return self._held
        self._file.close()
        return Spilled(str(self._path), NDJSON, self.count, self._columns.types())

    def discard(self) -> None:
        """Forget them, and the file."""
        self._held = []
        if self._file is not None and self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def unique(names: Sequence[str]) -> list[str]:
    """Names of columns, those that come again with a number behind them: a map has each key once."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        number, made = 0, name
        while made in seen or (number and made in taken):
            number += 1
            made = f"{name}_{number}"
        seen.add(made)
        found.append(made)
    return found
