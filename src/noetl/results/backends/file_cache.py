"""Cache: files of this machine that were brought from elsewhere, or are there as well; the ones used last are kept."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: bytes in all
_SIZE = 2 << 30
#: what was used so recently may be about to be opened, by another process too
_IN_USE_S = 120.0


class FileCache:
    """A folder with so many bytes, or a little more as long as all of them are in use."""

    def __init__(self, folder: Path, size: int = _SIZE) -> None:
        self.folder, self.size = folder, size
        self._lock = threading.Lock()
        #: bytes that came since it was last seen to that there are not too many; at first nobody knows
        self._new = size
        #: what is being brought, so that it is brought once
        self._coming: dict[str, threading.Lock] = {}

    def get(self, name: str, bring: Callable[[Path], object]) -> Path:
        """The file of a name; `bring` writes it if it is not there."""
        path = self.folder / name
        with self._only_one(name):
            if not self._touch(path):
                draft = self._draft(path)
                try:
                    bring(draft)
                    draft.chmod(0o600)
                    draft.replace(path)
                finally:
                    draft.unlink(missing_ok=True)
                self._trim(path.stat().st_size)
        return path

    def put(self, name: str, file: Path) -> None:
        """Take a file away: it may be wanted here. A disk that cannot have it is no matter."""
        path, size = self.folder / name, file.stat().st_size
        with contextlib.suppress(OSError):
            self._draft(path)
            file.chmod(0o600)
            file.replace(path)
        file.unlink(missing_ok=True)
        self._trim(size)

    def forget(self, name: str) -> None:
        """Remove one."""
        (self.folder / name).unlink(missing_ok=True)

    def _draft(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path.with_name(f".{secrets.token_hex(8)}")

    def _touch(self, path: Path) -> bool:
        """Whether it is there; then it is one that was used last. When it was written must not change with that."""
        try:
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    @contextlib.contextmanager
    def _only_one(self, name: str) -> Iterator[None]:
        with self._lock:
            lock = self._coming.setdefault(name, threading.Lock())
        try:
            with lock:
                yield
        finally:
            with self._lock:
                self._coming.pop(name, None)

    def _trim(self, came: int) -> None:
        """Remove what was not used for longest. To look through all of them takes time, so it is done now and then."""
        with self._lock:
            self._new += came
            if self._new < self.size // 16:
                return
            self._new = 0
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    stat = path.stat()
                    found.append((stat.st_atime, stat.st_size, path))
        total, now = sum(size for _, size, _ in found), time.time()
        for used, size, path in sorted(found):
            if total <= self.size or used > now - _IN_USE_S:
                return
            path.unlink(missing_ok=True)
            total -= size
