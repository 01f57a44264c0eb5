"""Data that is too large to hold: what tools do to leave it in a file, and how much of it there may be."""

from __future__ import annotations

import os
import shutil
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO

from noetl.ports import Call, World

#: what a task may yield when nobody says otherwise: in memory, and in a file
IN_MEMORY = 64 * 1024 * 1024
IN_A_FILE = 4 * 1024 * 1024 * 1024
_WAY_OUT = "`spec.limits.output_bytes` says how many there may be"


def output_limit(call: Call) -> int:
    """How many bytes a task may yield."""
    said = call.spec.get("limits.output_bytes")
    return int(said) if said else IN_MEMORY if call.spill is None else IN_A_FILE


def over_limit(what: str, limit: int) -> str:
    """What is said of a task that yields more."""
    return f"{what} has more than {limit:,} bytes ({_WAY_OUT})"


def escaped(text: str) -> bytes:
    """A piece of text as it stands inside a text of JSON."""
    return encode_basestring(text)[1:-1].encode("utf-8", "replace")


def address(file: IO[bytes]) -> Path:
    """Where a file without a name can be opened once more, by this process and by those that it started."""
    return Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


class TextSpool:
    """Text that comes bit by bit: held, until there is so much that it goes to a file, written as JSON has it."""

    def __init__(self, world: World, most: int | None, *, tail: int = 0) -> None:
        self._world = world
        self._most = most
        self._keep = tail
        self._texts: list[str] = []
        self._size = 0
        self._end = ""
        self._file: IO[bytes] | None = None

    @property
    def is_spilled(self) -> bool:
        """Whether it went to a file."""
        return self._file is not None

    def add(self, text: str) -> None:
        """Take more of it."""
        if self._file is not None:
            self._file.write(escaped(text))
            self._end = (self._end + text)[-self._keep :]
            return
        self._texts.append(text)
        self._size += len(text)
        if self._most is not None and self._size > self._most:
            self._file = self._world.unnamed()
            held, self._texts = "".join(self._texts), []
            self._file.write(escaped(held))
            self._end = held[-self._keep :]

    def text(self) -> str:
        """All of it, or its end if it went to a file."""
        return self._end if self.is_spilled else "".join(self._texts)

    def pour(self, target: IO[bytes]) -> None:
        """Write it into a text of JSON."""
        if self._file is None:
            target.write(escaped("".join(self._texts)))
            return
        self._file.seek(0)
        shutil.copyfileobj(self._file, target, 1 << 20)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
