"""Fork server: starts processes of the command line by forking one that has imported the program and done nothing else.

Each is a process like any other, with a folder, an environment and a session of its own, and can be killed at any moment;
it saves only the time in which a new interpreter would import the same modules again. The fork server ends when its standard
input is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

import host_forkserver

#: after so long a process that should end is taken for stuck
PATIENCE_S = 300.0


class ForkedProcess:
    """A forked process, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, forkserver: ForkServer, pid: int, out: Path, err: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forkserver, self._out, self._err = forkserver, out, err

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forkserver.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float = PATIENCE_S) -> int:
        if self.poll() is None:
            # Only `poll` waits for the process, so its number cannot be another's yet.
            handle = os.pidfd_open(self.pid)
            try:
                select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("noetl", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def said(self) -> str:
        """Return what it has written to standard error so far."""
        return self._err.read_text(errors="replace")

    def communicate(self, timeout: float = PATIENCE_S) -> tuple[bytes, bytes]:
        """Wait for its end, and return what it wrote to its standard streams."""
        self.wait(timeout)
        return self._out.read_bytes(), self._err.read_bytes()


class ForkServer:
    """The process that others are forked from."""

    #: the session's own, for functions that are no fixtures; it exists where the fixture `forkserver` is used
    shared: ClassVar[ForkServer]

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        command = [sys.executable, __file__, host_forkserver.address()]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("NOETL_")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, question: dict[str, Any]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    def start(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], program: Path | None = None, given: bytes = b""
    ) -> ForkedProcess:
        """Start `noetl ARGUMENTS`, or a program that is a file of Python, in a folder and with an environment.

        What is given is its standard input.
        """
        self._count += 1
        into, out, err = (self._folder / f"{self._count}.{kind}" for kind in ("in", "out", "err"))
        for file, text in ((into, given), (out, b""), (err, b"")):
            file.write_bytes(text)
        streams = {"in": str(into), "out": str(out), "err": str(err)}
        question = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "program": program and str(program)}
        return ForkedProcess(self, self.ask(question | streams), out, err)

    def run(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], program: Path | None = None, given: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        """Start it and wait for its end."""
        process = self.start(*arguments, cwd=cwd, env=env, program=program, given=given)
        out, err = process.communicate()
        return subprocess.CompletedProcess(arguments, process.wait(), out.decode(), err.decode())

    def close(self) -> None:
        self._process.communicate()


# --- the process itself ------------------------------------------------------------------------------------------------


def _modules() -> Iterator[str]:
    import noetl

    for module in pkgutil.walk_packages(noetl.__path__, "noetl."):
        # What is a program of its own may do something when it is imported.
        if not module.name.endswith("__main__") and "host" not in module.name:
            yield module.name


def _become(given: Mapping[str, Any]) -> None:
    """Turn this process, which was just forked, into the one that is wanted."""
    os.setsid()
    os.chdir(given["cwd"])
    os.environ.clear()
    os.environ.update(given["env"])
    for number, path in ((0, given["in"]), (1, given["out"]), (2, given["err"])):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [given["program"] or "noetl", *given["arguments"]]


def _run(program: str) -> int:
    sys.path.insert(0, str(Path(program).parent))
    try:
        runpy.run_path(program, run_name="__main__")
    except BaseException:  # noqa: BLE001  it ends as the interpreter would end it
        traceback.print_exc()
        return 1
    return 0


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _leave(code: int) -> NoReturn:
    """End as a program does, but let go of memory at once: to tear it down would copy all that is shared with the others."""
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(questions: IO[str], answers: IO[str]) -> None:
    """Fork on request until the questions end, then kill the processes that still run: each is a session of its own."""
    from noetl.__main__ import main

    running: set[int] = set()
    for line in questions:
        question = json.loads(line)
        if "ended" in question:
            answer = _ended(question["ended"])
            if answer is not None:
                running.discard(question["ended"])
        else:
            answer = os.fork()
            if answer == 0:
                _become(question)
                _leave(main() if question["program"] is None else _run(question["program"]))
            running.add(answer)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    for name in (*_modules(), "aiohttp.web"):
        with contextlib.suppress(ImportError):  # an extra may be missing
            importlib.import_module(name)
    host_forkserver.install(sys.argv[1])
    # Copies that are not the standard streams, which a child has of its own.
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    gc.freeze()  # a collection in a child would copy all of it
    _serve(questions, answers)
