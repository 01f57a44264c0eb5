"""What SQLite reports, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from noetl.ports import StoreFailed

#: the kernel may have dropped what it could not write, and says so only once: nothing written since can be trusted
FATAL: Final = frozenset({"SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC"})

#: beginning of an error's name → what it means
_ADVICE: Final[dict[str, str]] = {
    "SQLITE_FULL": "no space is left for {path}: free some. What is recorded is safe, and writing works again by then",
    "SQLITE_BUSY": "{path} is locked by another program, such as a backup or a database browser: end it, and try again",
    "SQLITE_READONLY": "{path} may not be written: check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "{path} cannot be opened: check the permissions of the file and its folder",
    "SQLITE_PERM": "{path} may not be written: check the permissions of the file and its folder",
    "SQLITE_CORRUPT": "{path} is damaged ({error}): stop what uses it, look with `noetl fsck`, restore a backup",
    "SQLITE_NOTADB": "{path} is not a database, or damaged at its beginning: move it away, or restore a backup",
    "SQLITE_TOOBIG": "more than {path} can hold in one entry: keep large results outside of events",
    "SQLITE_IOERR_FSYNC": "the disk did not confirm what was written to {path}: nothing more is written by this "
    "process. Check the disk (dmesg, smartctl), then start again: what was confirmed before is there",
    "SQLITE_IOERR": "the disk under {path} fails ({name}): check it (dmesg, smartctl, mount). What is recorded stays",
}


def name_of(error: sqlite3.Error) -> str:
    """SQLite's name for an error; empty: it comes from the driver."""
    return getattr(error, "sqlite_errorname", "") or ""


def explained(error: Exception, path: Path) -> StoreFailed:
    """The error as the port reports it."""
    name = name_of(error) if isinstance(error, sqlite3.Error) else ""
    for beginning, advice in _ADVICE.items():
        if name.startswith(beginning):
            return StoreFailed(advice.format(path=path, error=error, name=name))
    return StoreFailed(f"{path} cannot be used: {str(error) or type(error).__name__}")
