"""What goes wrong in a data host, as the failures that tasks show."""

from __future__ import annotations

import errno
import re
from itertools import takewhile
from typing import Any

from noetl.errors import TemplateError
from noetl.rows.duck import NOT_JSON, NoDuckDB

_TECHNICAL = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
_LOCKED = ("Could not set lock on file",)
_HELPFUL = ("Candidate", "Did you mean", "LINE ")
_CSV = "CSV Error on Line"
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
#: of a failure that is the engine's: its own files cannot be written
UNWRITTEN = "unwritten"


class DataHostFailed(Exception):
    """A failure that a task is to show."""

    def __init__(self, kind: str, message: str, *, retryable: bool = False, **more: Any) -> None:
        super().__init__(message)
        self.failure: dict[str, Any] = {"kind": kind, "message": message, "retryable": retryable, **more}


def failure_of(error: BaseException) -> dict[str, Any]:
    """Any exception as the data of a failure."""
    if isinstance(error, DataHostFailed):
        return error.failure
    if isinstance(error, TemplateError):
        return DataHostFailed(error.kind, error.message).failure
    if isinstance(error, NoDuckDB):
        return DataHostFailed("fail", str(error)).failure
    if isinstance(error, OSError):
        return from_os_error(error).failure
    if isinstance(error, MemoryError):
        return DataHostFailed("limit", "there is not enough memory for it").failure
    if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return from_duckdb_error(error).failure
    return DataHostFailed("tool-crashed", f"the tool broke: {type(error).__name__}: {error}").failure


def from_os_error(error: OSError) -> DataHostFailed:
    """What the operating system refused."""
    where = f"`{error.filename}`: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DataHostFailed("fail", f"{where}the disk is full", retryable=True)
    return DataHostFailed("fail", f"{where}{error.strerror or error}")


def from_duckdb_error(error: BaseException) -> DataHostFailed:
    """What DuckDB refused."""
    name, said = type(error).__name__, str(error).strip()
    if name == "OutOfMemoryException" and "memory" in said.lower():
        first = said.splitlines()[0]
        return DataHostFailed(
            "limit", f"more memory than it may use (`spec.limits.memory_mb`): {_TECHNICAL.sub('', first)}"
        )
    if is_full(error):
        return DataHostFailed("sql", f"the disk is full: {said.splitlines()[0]}", retryable=True)
    if NOT_JSON in said:
        return DataHostFailed("result-not-json", said.partition(NOT_JSON)[2].splitlines()[0])
    if name == "InterruptException":
        return DataHostFailed("cancelled", "it was interrupted")
    return DataHostFailed("sql", _helpful_message(said), retryable=name == "TransactionException" or is_locked(error))


def _helpful_message(said: str) -> str:
    """What DuckDB says, with what helps in the first line: often no other is shown."""
    head, *rest = said.splitlines() or [""]
    if _CSV in head:
        helpful = list(takewhile(str.strip, rest))
    else:
        helpful = [line.strip() for line in rest if line.startswith(_HELPFUL)]
    return "\n".join([" ".join([head, *helpful]), *rest])


def is_locked(error: BaseException) -> bool:
    """Whether a database file is in use, by another process or in another way, so that waiting may help."""
    return any(part in str(error) for part in _LOCKED)


def is_full(error: BaseException) -> bool:
    """Whether there was no room for what was written."""
    return any(part in str(error) for part in _FULL)
