"""Data that is too large to hold: what tools do to leave it in a file, and how much of it there may be."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO

from noetl.ports import Call, StoreFailed, World

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


def escape_json(text: str) -> bytes:
    """A piece of text as it stands inside a text of JSON."""
    return encode_basestring(text)[1:-1].encode("utf-8", "replace")


def reopen_path(file: IO[bytes]) -> Path:
    """Where a file without a name can be opened once more, by this process and by those that it started."""
    return Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


#: no space on the disk, a quota that is used up, files that may not be larger
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def disk_full_error(world: World) -> StoreFailed:
    """The error of a disk that is full: of the machine and not of the task, which can be gone on with."""
    return StoreFailed(f"the disk of NOETL_HOME is full: there is no room in {world.draft('').parent}")


def draft_write_error(world: World, code: int) -> StoreFailed:
    """The error of a draft that a process could not write."""
    if code in _FULL:
        return disk_full_error(world)
    return StoreFailed(f"{world.draft('').parent} cannot be written: {os.strerror(code)}")


@contextmanager
def guard_disk_full(world: World) -> Iterator[None]:
    """Around whatever writes a draft: StoreFailed where there is no room for it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full_error(world) from error
        raise


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
            with guard_disk_full(self._world):
                self._file.write(escape_json(text))
            self._end = (self._end + text)[-self._keep :]
            return
        self._texts.append(text)
        self._size += len(text)
        if self._most is not None and self._size > self._most:
            self._file = self._world.open_unnamed()
            held, self._texts = "".join(self._texts), []
            with guard_disk_full(self._world):
                self._file.write(escape_json(held))
            self._end = held[-self._keep :]

    def text(self) -> str:
        """All of it, or its end if it went to a file."""
        return self._end if self.is_spilled else "".join(self._texts)

    def write_to(self, target: IO[bytes]) -> None:
        """Write it into a text of JSON."""
        if self._file is None:
            target.write(escape_json("".join(self._texts)))
            return
        with guard_disk_full(self._world):
            self._file.flush()
        self._file.seek(0)
        shutil.copyfileobj(self._file, target, 1 << 20)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            with suppress(OSError):  # what does not fit any more is not wanted any more
                self._file.close()
