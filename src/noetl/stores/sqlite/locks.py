"""Locks between processes. The kernel holds them, so they end with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from noetl.ports import StoreFailed


class WriteLock:
    """One writer at a time. SQLite has a lock of its own, but before 3.51.3 two writers could damage the WAL."""

    def __init__(self, path: Path, patience: float = 30.0) -> None:
        self.path = path
        self._patience = patience
        self._file = _open(path)

    def try_acquire(self) -> bool:
        """Take it, unless another one has it."""
        return _try_lock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let the next one have it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def __enter__(self) -> None:
        if not self.try_acquire():
            self._wait()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _wait(self) -> None:
        # Asking again and again instead of sleeping in the kernel: there one could not give up.
        end, pause = time.monotonic() + self._patience, 0.00005
        while not self.try_acquire():
            if time.monotonic() > end:
                raise StoreFailed(
                    f"another process has been writing for {self._patience:g} s and holds {self.path}; "
                    "see which one it is (fuser, lsof), and end or resume it"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.002)

    def close(self) -> None:
        """Let go for good."""
        os.close(self._file)


class Owners:
    """Who is alive: each owner locks a file of its own for as long as it lives.

    Making and sweeping files is done under the write lock, so a file that is not locked belongs to nobody.
    """

    def __init__(self, folder: Path) -> None:
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._folder = folder
        self._held: int | None = None

    def enrol(self) -> None:
        """Show that this owner lives, and clear away those who do not."""
        if self._held is not None:
            return
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._folder.chmod(0o700)
        for path in self._folder.glob("*.lock"):
            if not self.alive(path.stem):
                path.unlink(missing_ok=True)
        file = _open(self._path(self.id))
        fcntl.flock(file, fcntl.LOCK_EX)
        self._held = file

    def alive(self, owner: str) -> bool:
        """Whether an owner lives."""
        if owner == self.id:
            return self._held is not None
        try:
            file = os.open(self._path(owner), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who ask at once do not take each other for the owner.
            return not _try_lock(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    def is_gone(self, owner: str) -> bool:
        """Whether the process of an owner is nowhere to be seen; one in another container is not, and may well live.

        Its lock can outlast it for a moment: who is forked has it too, until he becomes another program.
        """
        try:
            os.kill(int(owner.partition("-")[0]), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    def resign(self) -> None:
        """This owner lives no longer."""
        if self._held is not None:
            with suppress(OSError):
                self._path(self.id).unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"


def _open(path: Path) -> int:
    """A file to lock, for its user alone whatever the umask."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(file, 0o600)
    return file


def _try_lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
