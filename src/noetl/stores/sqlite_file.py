"""The SQLite file of a store: created private, opened, checked and locked; what its errors mean."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from noetl.ports import StoreFailed
from noetl.stores.appends import schema

# Locks between processes. The kernel holds them, so they end with the process, however that ends.


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
        except PermissionError:  # it is another user's
            return not self.is_gone(owner)
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


def owners_folder(path: Path) -> Path:
    """The folder of a database's owners: each database has one of its own, since its write lock guards it."""
    return path.parent / "owners" if path.name == "noetl.db" else path.with_name(f"{path.name}.owners")


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
VERSION: Final = 4
#: says that a database is ours: "NoET"
_APPLICATION: Final = 0x4E6F4554
_EVENT_HASH: Final = "SELECT hash FROM event WHERE execution_id = ? AND seq = ?"


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
        if not is_current(connection, path):
            with lock:
                make_tables(connection, path)
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


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    connection = connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def read_hash(connection: sqlite3.Connection, execution_id: str, seq: int) -> bytes | None:
    """The hash of an event; None: there is no such event."""
    row = connection.execute(_EVENT_HASH, (execution_id, seq)).fetchone()
    return row[0] if row is not None else None


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


def is_current(connection: sqlite3.Connection, path: Path) -> bool:
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


def make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to this version, unless they are; under the write lock."""
    if is_current(connection, path):  # another process was faster
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
