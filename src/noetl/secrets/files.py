"""Files that only their user may look into, replaced as a whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def read_private(file: Path) -> str:
    """What is in it."""
    return file.read_text(encoding="utf-8")


def write_private(file: Path, text: str) -> None:
    """Replace it; durable when this returns. No other file ever holds the text for others to see."""
    make_folder(file.parent)
    made = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            os.fchmod(handle, 0o600)
            opened.write(text.encode("utf-8"))
            opened.flush()
            os.fsync(handle)
        made.replace(file)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
    _sync_folder(file.parent)


@contextmanager
def only_one(file: Path) -> Iterator[None]:
    """One process at a time, by a lock that ends with whoever holds it."""
    make_folder(file.parent)
    handle = os.open(file.with_name(f"{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """A folder for its user alone; one that was there before is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
