"""WrittenMark: which event was written last, kept outside of the database file, so that what was lost is noticed.

SQLite reads a WAL up to the first frame that is damaged, and says nothing of what came after it. The event of the last
commit is therefore named in a small file: if the database does not have it, what was committed last is gone.

A power cut may take commits too, where they are not synced one by one (`durability: process`). What the mark names is
claimed only if the machine was not started again since, or if it was synced.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import monotonic, time
from typing import NamedTuple
from zlib import crc32

#: the hash of an event in a database; None: it is not there
ReadHash = Callable[[str, int], bytes | None]

#: a slot: checksum, generation, seq, time, whether it is synced, hash of the event, boot of the machine, execution
_SLOT = struct.Struct("<IQQd?32s16s176p")
_SIZE, _LONGEST_NAME = 256, 175
#: what was written last, twice, so that one is whole whenever the process ends; what was synced last; what was lost first
_LAST, _SYNCED, _LOST = (0, 1), 2, 3
#: seconds after which a small commit is noted
_SOON_S = 0.02
_NOBODY = b"\0" * 16


class _Slot(NamedTuple):
    generation: int
    seq: int
    at: float
    synced: bool
    digest: bytes
    boot: bytes
    execution: bytes

    @property
    def execution_id(self) -> str:
        return self.execution.decode()


class WrittenMark:
    """The mark of one database. Whoever writes holds the write lock; anybody may read."""

    def __init__(self, path: Path, *, synced: bool) -> None:
        self._path = path
        #: whether every commit is synced
        self._synced = synced
        #: to be written; None: it was not opened
        self._file: int | None = None
        #: of the last commit; None: another process may have written since
        self._generation: int | None = None
        #: what is to be noted soon
        self._due: tuple[str, int, bytes] | None = None
        self._due_since = 0.0

    # --- writing -----------------------------------------------------------------------------------------------------

    def note(self, execution_id: str, seq: int, digest: bytes) -> None:
        """Say that an event was committed."""
        name = execution_id.encode()
        if len(name) > _LONGEST_NAME:  # no execution of ours is called that
            return
        if self._generation is None:
            self._generation = max((one.generation for one in map(self._get, _LAST) if one is not None), default=0)
        self._generation += 1
        slot = _Slot(self._generation, seq, time(), self._synced, digest, boot_id(), name)
        self._put(_LAST[self._generation % 2], slot)

    def note_soon(self, execution_id: str, seq: int, digest: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """The same, a moment later and once for many: small commits take no longer than a few of these."""
        if self._due is None or monotonic() > self._due_since + 1:  # an event loop may end before it gets there
            self._due_since = monotonic()
            loop.call_later(_SOON_S, self.flush)
        self._due = execution_id, seq, digest

    def flush(self) -> None:
        """Say what was to be said soon. What others wrote meanwhile is no less true."""
        due, self._due = self._due, None
        if due is not None:
            self.note(*due)

    def note_others(self) -> None:
        """Hear that another process wrote."""
        self._generation = None

    def note_sync(self) -> None:
        """Say that what is committed is synced."""
        self.flush()
        last = self._read_last()
        if last is not None:
            self._put(_SYNCED, last._replace(synced=True))

    def forget(self, execution_id: str) -> None:
        """Say nothing of an execution: it is about to be removed."""
        if self._due is not None and self._due[0] == execution_id:
            self._due = None
        for at in (*_LAST, _SYNCED):
            found = self._get(at)
            if found is not None and found.execution_id == execution_id:
                self._put(at, None)

    def keep_loss(self, read: ReadHash) -> None:
        """Remember what is not there, before something else is written last."""
        lost = self._find_missing(read)
        if lost is not None and self._get(_LOST) is None:
            self._put(_LOST, lost)

    # --- reading -----------------------------------------------------------------------------------------------------

    def find_loss(self, read: ReadHash) -> str | None:
        """What was committed and is not there, in words; None: nothing is known to be lost."""
        lost = self._get(_LOST) or self._find_missing(read)
        if lost is None:
            return None
        at = datetime.fromtimestamp(lost.at, UTC).isoformat(timespec="seconds")
        return (
            f"event {lost.seq} of {lost.execution_id} was written at {at} and is gone, with all that was written shortly "
            f"before it: the WAL was damaged, cut or removed, or the database was replaced by an older copy. Restore a "
            f"backup if there is one; what you start again has effects with other keys. To dismiss this, remove {self._path}"
        )

    def _find_missing(self, read: ReadHash) -> _Slot | None:
        while True:
            claims = [self._read_last(), self._get(_SYNCED)]
            held = [one for one in claims if one is not None and _holds(one)]
            missing = [one for one in held if read(one.execution_id, one.seq) != one.digest]
            if not missing:
                return None
            if claims == [self._read_last(), self._get(_SYNCED)]:  # else it was being removed meanwhile
                return missing[0]

    def _read_last(self) -> _Slot | None:
        found = [one for one in map(self._get, _LAST) if one is not None]
        return max(found, default=None)

    # --- the file ----------------------------------------------------------------------------------------------------

    def _get(self, at: int) -> _Slot | None:
        data = b""
        with suppress(OSError):
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(file, _SLOT.size, at * _SIZE)
            finally:
                os.close(file)
        if len(data) < _SLOT.size or data[:4] != _checksum(data[4:]):
            return None
        return _Slot(*_SLOT.unpack(data)[1:])

    def _put(self, at: int, slot: _Slot | None) -> None:
        data = _SLOT.pack(0, *slot)[4:] if slot is not None else b""
        with suppress(OSError):  # a full disk: the mark is behind then, and says less
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.fchmod(self._file, 0o600)
            os.pwrite(self._file, _checksum(data) + data if data else bytes(_SLOT.size), at * _SIZE)

    def close(self) -> None:
        """Say what is left to be said, and let go."""
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _holds(slot: _Slot) -> bool:
    """Whether what a mark names must be there: no power cut can have taken it."""
    return slot.synced or (slot.boot == boot_id() != _NOBODY)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", crc32(data) or 1)


@lru_cache
def boot_id() -> bytes:
    """What tells one start of the machine from another; zeros: that is not known here."""
    with suppress(OSError, ValueError):
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").replace("-", ""))
    return _NOBODY
