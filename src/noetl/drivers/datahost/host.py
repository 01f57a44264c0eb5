"""Inside a data host: a process that carries out calls, each in a thread, and answers over a socket with a value or a failure.

What it is told is marshalled, for it comes from the engine. Calls name a function, `module:name`, that is given this
call, to be heard when it is interrupted, and its arguments; it returns a value, or a value and bytes.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import marshal
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import TemplateError
from noetl.rows.duck import NOT_JSON, NoDuckDB

# What goes wrong in a data host, as the failures that tasks show.


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


#: how long a thread works in Python before another one that wants to gets its turn
_TURN_S = 0.0005
#: how many objects more than before there are when Python looks for those that hold each other
_ALLOCATED = 200_000


class HostCall:
    """A call that is being carried out."""

    def __init__(self, scratch: Path) -> None:
        #: a folder of this process; it exists
        self.scratch = scratch
        self.interrupted = False
        self._connections: list[Any] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def attach(self, connection: Any) -> Iterator[Any]:
        """Work with a connection, so that an interruption reaches it."""
        with self._lock:
            self._connections.append(connection)
        try:
            self.check()
            yield connection
        finally:
            with self._lock:
                self._connections.remove(connection)

    def check(self) -> None:
        """Failing: the call has been interrupted."""
        if self.interrupted:
            raise DataHostFailed("cancelled", "it was interrupted")

    def interrupt(self) -> None:
        """Have it end as soon as it can."""
        self.interrupted = True
        with self._lock:
            for connection in self._connections:
                connection.interrupt()


class DataHostServer:
    """The state of this process."""

    def __init__(self, channel: socket.socket, scratch: Path) -> None:
        self._channel = channel
        self._scratch = scratch
        self._reader = channel.makefile("rb")
        self._sending = threading.Lock()
        self._running: dict[int, HostCall] = {}

    def serve(self) -> None:
        """Carry out calls until the engine hangs up."""
        while len(head := self._reader.read(8)) == 8:
            message = marshal.loads(self._reader.read(int.from_bytes(head, "big")))  # noqa: S302  of the engine
            number = message["id"]
            if message["do"] == "interrupt":
                if running := self._running.get(number):
                    running.interrupt()
                continue
            running = self._running[number] = HostCall(self._scratch)
            threading.Thread(target=self._execute, args=(running, message), daemon=True).start()

    def _execute(self, running: HostCall, message: dict[str, Any]) -> None:
        number, blob = message["id"], b""
        answer: dict[str, Any] = {"id": number}
        try:
            module, _, name = message["do"].partition(":")
            made = getattr(importlib.import_module(module), name)(running, message["given"])
            answer["value"], blob = made if isinstance(made, tuple) else (made, b"")
        except BaseException as error:  # noqa: BLE001  whatever it is, the engine has to hear of it
            answer["error"] = failure_of(error)
        del self._running[number]
        self._send(answer, blob)

    def _send(self, answer: dict[str, Any], blob: bytes) -> None:
        body = msgspec.json.encode(answer)
        with self._sending, contextlib.suppress(OSError):
            self._channel.sendall(len(body).to_bytes(8, "big") + len(blob).to_bytes(8, "big") + body)
            self._channel.sendall(blob)


def main(channel: int, scratch: str) -> None:
    """Serve, in the folder of the playbook."""
    # A thread that has an answer for a database must not wait long for one that goes through rows.
    sys.setswitchinterval(_TURN_S)
    # Rows come and go by the thousand, and hold nothing that holds them: looking for that took half of the time.
    gc.set_threshold(_ALLOCATED)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # DuckDB draws bars there, and nobody looks
    # A time without a zone must be the same moment on every worker; DuckDB takes the zone of the machine.
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder = Path(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        DataHostServer(socket.socket(fileno=channel), folder).serve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # threads that still work must not keep it
