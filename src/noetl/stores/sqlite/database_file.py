"""The database file: made for its user alone, opened, and refused if it is not one of ours or of a later version."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from noetl.ports import StoreFailed
from noetl.stores.appends import schema
from noetl.stores.sqlite.locks import WriteLock

# What SQLite reports, in words that say what to do.


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


def explain_error(error: Exception, path: Path) -> StoreFailed:
    """The error as the port reports it."""
    name = name_of(error) if isinstance(error, sqlite3.Error) else ""
    for beginning, advice in _ADVICE.items():
        if name.startswith(beginning):
            return StoreFailed(advice.format(path=path, error=error, name=name))
    return StoreFailed(f"{path} cannot be used: {str(error) or type(error).__name__}")


#: of the schema; each change of it is a new number
VERSION: Final = 2
#: says that a database is ours: "NoET"
_APPLICATION: Final = 0x4E6F4554


def prepare_database(path: Path) -> tuple[WriteLock, sqlite3.Connection]:
    """The database at a path, made if there is none: the lock for writing it, and a connection for reading."""
    try:
        _make_private(path)
        lock = WriteLock(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise StoreFailed(f"{path} cannot be made: {error.strerror}; check the folder, or set NOETL_HOME") from error
    connection = None
    try:
        connection = connect(path)
        if not _is_current(connection, path):
            with lock:
                _make_tables(connection, path)
        connection.execute("PRAGMA query_only = ON")
    except BaseException as error:
        lock.close()
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise explain_error(error, path) from error
        raise
    return lock, connection


def connect(path: Path, *, patience: float = 5) -> sqlite3.Connection:
    """A connection without a transaction of the driver's own making."""
    return sqlite3.connect(path, isolation_level=None, timeout=patience, check_same_thread=False, cached_statements=256)


def _make_private(path: Path) -> None:
    """Only the user may look into it, whatever the umask; a folder that was there before is left as it is."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
    # Never opened if it exists: closing it would drop the locks that SQLite holds on it in this process.
    with suppress(FileExistsError):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(file, 0o600)
        os.close(file)


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether all tables are there; those of a later version are refused."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application not in (0, _APPLICATION):
        raise StoreFailed(f"{path} is a database of another program: move it away, or set NOETL_HOME")
    if version > VERSION:
        raise StoreFailed(
            f"{path} was written by a later version of NoETL (its schema is {version}, this one knows {VERSION}): "
            "use that version, or set NOETL_HOME to another folder"
        )
    return bool(version == VERSION)


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    if _is_current(connection, path):  # another process was faster
        return
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreFailed(f"{path} is a database of another program: move it away, or set NOETL_HOME")
        connection.execute("PRAGMA journal_mode = WAL")
    # Others may have it open: a version adds, and takes nothing from those who know only the one before.
    steps = " ".join(schema("sqlite", number) for number in range(version + 1, VERSION + 1))
    marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION};"
    connection.executescript(f"BEGIN IMMEDIATE; {steps} {marks} COMMIT;")
