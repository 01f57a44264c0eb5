"""The database file: made for its user alone, opened, and refused if it is not one of ours or of a later version."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from noetl.ports import StoreFailed
from noetl.stores.failures import explained
from noetl.stores.locks import WriteLock
from noetl.stores.queries import schema

#: of the schema; each change of it is a new number
VERSION: Final = 2
#: says that a database is ours: "NoET"
_APPLICATION: Final = 0x4E6F4554


def prepared(path: Path) -> tuple[WriteLock, sqlite3.Connection]:
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
            raise explained(error, path) from error
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
