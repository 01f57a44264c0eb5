"""Drafts: files that tools are not done with. What may hold a secret has no name, or goes with the process that made it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

_LOCK = ".lock"


def open_unnamed_file(folder: Path) -> IO[bytes]:
    """A new file that no other process can open by a name; it is gone when it is closed, or its process killed."""
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), "w+b")
    except (AttributeError, OSError):  # not on this system, or not on this disk
        return tempfile.TemporaryFile(dir=folder)


def give_name(file: IO[bytes], path: Path) -> None:
    """Make an unnamed file one that others can open."""
    try:
        where = os.open("/proc/self/fd", os.O_RDONLY)
        try:
            os.link(str(file.fileno()), path, src_dir_fd=where, follow_symlinks=True)
        finally:
            os.close(where)
    except OSError:  # what once had a name cannot get another
        file.seek(0)
        with path.open("xb") as named:
            shutil.copyfileobj(file, named, 1 << 20)


class DraftClaim:
    """Says to other processes that the drafts of this one are in use; with the process, the claim ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = folder / f"{os.getpid()}{_LOCK}"
        self._file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def release(self) -> None:
        """Nothing is in use any more."""
        os.close(self._file)
        if not any(self._folder.glob(f"{os.getpid()}-*")):
            self._lock.unlink(missing_ok=True)


def sweep_drafts(folder: Path) -> None:
    """Remove what processes that were killed have left."""
    for lock in folder.glob(f"*{_LOCK}"):
        with contextlib.suppress(OSError), lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob(f"{lock.name.removesuffix(_LOCK)}-*"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
