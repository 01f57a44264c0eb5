"""ReadOnlyFile: a SQLite file that may not be written, such as one on a read-only disk or a copy kept as evidence.

A file in WAL mode wants a file for shared memory beside it. Where that is not there and cannot be made, SQLite refuses
to open the database, so it is opened as one that nobody changes, or its copy is.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from urllib.parse import quote

from noetl.ports import StoreFailed
from noetl.stores.commit_queue import CommitQueue, Ticket, answer
from noetl.stores.sqlite_file import explain_error, is_current, make_tables


def find_reason(path: Path) -> str | None:
    """Why a file that is there can only be read; None: it is not there, or can be written."""
    if not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return None
    is_disk = os.statvfs(path).f_flag & os.ST_RDONLY
    return "the file system is read-only" if is_disk else "its permissions do not let you write"


class ReadOnlyFile:
    """How to open it, found out once."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.refusal = (
            f"{path} can only be read: {why}. Looking at executions works; running them needs another NOETL_HOME"
        )
        self._copy: TemporaryDirectory[str] | None = None
        try:
            self._address = self._find_address()
        except sqlite3.Error as error:
            self.close()
            raise explain_error(error, path) from error
        except BaseException:
            self.close()
            raise

    def connect(self) -> sqlite3.Connection:
        """A connection."""
        connection = sqlite3.connect(
            self._address, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _find_address(self) -> str:
        """The first address under which it can be read as it is; else that of a copy."""
        wal = self.path.with_name(f"{self.path.name}-wal")
        ways = ["mode=ro"] if wal.exists() else []
        if not ways or not wal.stat().st_size:
            ways.append("immutable=1")  # all that was written is in the file itself
        for way in ways:
            address = f"file:{quote(str(self.path.absolute()))}?{way}"
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
                try:
                    if is_current(connection, self.path):
                        return address
                    break  # it is of an earlier version: a copy can be upgraded
                except sqlite3.OperationalError:
                    continue
        return self._copy_file(wal)

    def _copy_file(self, wal: Path) -> str:
        """Copy it to where it can be written, and bring it to this version."""
        files = [file for file in (self.path, wal) if file.exists()]
        size, free = sum(file.stat().st_size for file in files), shutil.disk_usage(gettempdir()).free
        if size > free:
            raise StoreFailed(
                f"{self.refusal.partition('.')[0]}, and looking at it takes a copy of {size >> 20:,} MB, for which there is "
                f"no room in {gettempdir()}: set TMPDIR"
            )
        self._copy = TemporaryDirectory(prefix="noetl-")
        for file in files:
            shutil.copyfile(file, Path(self._copy.name) / file.name)
        copied = Path(self._copy.name) / self.path.name
        with closing(sqlite3.connect(copied, isolation_level=None)) as connection:
            make_tables(connection, self.path)
        return f"file:{quote(str(copied))}"

    def close(self) -> None:
        """Remove what was copied."""
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None


class RefusingQueue(CommitQueue):
    """A commit queue that writes nothing, and says why."""

    def __init__(self, refusal: str) -> None:
        super().__init__(refusal)
        self._refusal = refusal

    def _write(self, tickets: list[Ticket]) -> None:
        answer([(reply, StoreFailed(self._refusal)) for _, reply in tickets])
