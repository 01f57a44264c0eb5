"""Fork server of data hosts: forks a process that has imported what they need and done nothing else.

Each is a process like any other, with a folder, an environment, pipes and a session of its own, and can be killed at any
moment; it saves only the time in which a new interpreter would import DuckDB again. A host that has bounds is started as
ever, and so is every host of an engine that is a program of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

_MOST = 200_000


class ForkedHost:
    """A forked process, with the part of the interface of `subprocess.Popen` that the engine uses."""

    def __init__(
        self, at: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[int]
    ) -> None:
        self.returncode: int | None = None
        outputs = [os.pipe(), os.pipe()]
        given = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "channel": files.index(int(arguments[1]))}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(at)
            socket.send_fds(connection, [json.dumps(given).encode()], [*files, *(writer for _, writer in outputs)])
            self.pid = int(connection.recv(100))
        finally:
            for _, writer in outputs:
                os.close(writer)
        self._connection: int | None = connection.detach()
        self.stdout, self.stderr = (_reading(reader) for reader, _ in outputs)

    def poll(self) -> int | None:
        if self.returncode is None and self._connection is not None:
            with socket.socket(fileno=os.dup(self._connection)) as connection:
                connection.send(b"?")
                self.returncode = json.loads(connection.recv(100))
            if self.returncode is not None:
                self.__del__()
        return self.returncode

    def __del__(self) -> None:
        held, self._connection = getattr(self, "_connection", None), None
        if held is not None:
            os.close(held)


def _reading(pipe: int) -> IO[bytes]:
    return os.fdopen(pipe, "rb", buffering=0)


class _Starter:
    """What the engine uses in place of the module `subprocess`."""

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self, start: str) -> None:
        self._start = start
        self.at: str | None = None

    def Popen(self, command: Sequence[str], **how: Any) -> Any:  # noqa: N802  it is called so there
        plain = [sys.executable, "-P", "-X", "utf8", "-c", self._start]
        # Who is told of other places for modules wants to see whether they are found.
        elsewhere = how["env"].get("PYTHONPATH") not in (None, os.environ.get("PYTHONPATH"))
        if list(command[:6]) != plain or elsewhere or not Path(how["cwd"]).is_dir():
            return subprocess.Popen(command, **how)
        self.at = self.at or address()
        return ForkedHost(self.at, command[6:], how["cwd"], how["env"], how["pass_fds"])


def install(at: str | None = None) -> None:
    """Have the engines of this process, and of those that are forked from it, start their data hosts so."""
    from noetl.drivers import processes
    from noetl.drivers.datahost import pool

    starter = _Starter(pool._START)
    starter.at = at
    processes.subprocess = starter  # type: ignore[assignment]


@functools.cache
def address() -> str:
    """Return the address of the fork server, which is started for this process and ends with it."""
    from noetl.drivers.confinement.bounds import SOURCES

    folder = tempfile.mkdtemp(prefix="noetl-hosts-")
    at = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(at)
        listener.listen(64)
        command = [sys.executable, "-P", "-X", "utf8", __file__, str(listener.fileno()), SOURCES]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("NOETL_")}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment)

    def close() -> None:
        process.communicate()
        Path(at).unlink()
        Path(folder).rmdir()

    atexit.register(close)
    return at


# --- the process itself ------------------------------------------------------------------------------------------------


class _HostForkServer:
    """Forks on request and reports exit codes, until the process that started it closes its standard input."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._watched = selectors.DefaultSelector()
        self._watched.register(listener, selectors.EVENT_READ, self._asked)
        self._watched.register(sys.stdin.fileno(), selectors.EVENT_READ, self._left)

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self._watched.select():
                key.data()

    def _left(self) -> NoReturn:
        os._exit(0)

    def _asked(self) -> None:
        connection, _ = self._listener.accept()
        message, files, _, _ = socket.recv_fds(connection, _MOST, 16)
        if not message:  # who wanted it is gone already
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            _become(json.loads(message), files)
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):
            connection.send(str(pid).encode())
        self._watched.register(connection, selectors.EVENT_READ, lambda: self._heard(connection, pid))

    def _heard(self, connection: socket.socket, pid: int) -> None:
        """The engine wants to know how it ended; what nobody asks about any more is waited for here."""
        try:
            asked = connection.recv(1)
        except OSError:
            asked = b""
        ended = _ended(pid)
        if asked:
            with contextlib.suppress(OSError):
                connection.send(json.dumps(ended).encode())
        if ended is not None or not asked:
            self._watched.unregister(connection)
            connection.close()
        if ended is None and not asked:
            handle = os.pidfd_open(pid)
            self._watched.register(handle, selectors.EVENT_READ, lambda: self._buried(handle, pid))

    def _buried(self, handle: int, pid: int) -> None:
        self._watched.unregister(handle)
        os.close(handle)
        _ended(pid)


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(given: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    """Turn this process, which was just forked, into the one that is wanted."""
    from noetl.drivers.datahost import host

    os.setsid()
    os.chdir(given["cwd"])
    os.environ.clear()
    os.environ.update(given["env"])
    time.tzset()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, opened in enumerate([nothing, *files[-2:]]):
        os.dup2(opened, number)
    kept = {0, 1, 2, *files[:-2]}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
    _, _, scratch = given["arguments"]
    host.main(files[given["channel"]], scratch)
    os._exit(0)


def _warm() -> None:
    import duckdb  # noqa: F401
    import psycopg  # noqa: F401

    import noetl.drivers.datahost.databases
    import noetl.tools.transfer.host_session  # noqa: F401

    gc.freeze()  # a collection in a child would copy all of it


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    _warm()
    _HostForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
