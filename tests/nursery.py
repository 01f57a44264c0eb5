"""Processes of the command line that start at once: forked from one that has imported the program and done nothing else.

Each is a process like any other, with a folder, an environment and a session of its own, and can be killed at any moment;
it saves only the time in which a new interpreter would import the same modules again.
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
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

import hatchery


class Born:
    """A process that was forked; as much of `subprocess.Popen` as tests want."""

    def __init__(self, nursery: Nursery, pid: int, out: Path, err: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery, self._out, self._err = nursery, out, err

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired("noetl", timeout)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        if self.poll() is None:  # who has ended is waited for by `poll` alone, so that its number is not another's yet
            os.kill(self.pid, 9)

    def said(self) -> str:
        """What it has written as messages so far."""
        return self._err.read_text(errors="replace")

    def communicate(self, timeout: float = 60) -> tuple[bytes, bytes]:
        """What it wrote, when it has ended."""
        self.wait(timeout)
        return self._out.read_bytes(), self._err.read_bytes()


class Nursery:
    """The process that others are forked from."""

    #: the one of the session, for functions that are no fixtures; there is one where the fixture `nursery` is used
    shared: ClassVar[Nursery]

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._born = 0
        command = [sys.executable, __file__, hatchery.hatchery()]
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

    def start(self, *arguments: str, cwd: Path, env: Mapping[str, str], program: Path | None = None) -> Born:
        """`noetl ARGUMENTS`, in a folder and with an environment; or another program, which is a file of Python."""
        self._born += 1
        out, err = (self._folder / f"{self._born}.{kind}" for kind in ("out", "err"))
        given = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "out": str(out), "err": str(err)}
        return Born(self, self.ask({**given, "program": program and str(program)}), out, err)

    def run(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], program: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        born = self.start(*arguments, cwd=cwd, env=env, program=program)
        out, err = born.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, born.wait(0), out.decode(), err.decode())

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
    for number, path in ((0, os.devnull), (1, given["out"]), (2, given["err"])):
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
    """Fork when asked to, until nobody asks any more."""
    from noetl.__main__ import main

    for line in questions:
        question = json.loads(line)
        if "ended" in question:
            answer = _ended(question["ended"])
        else:
            answer = os.fork()
            if answer == 0:
                _become(question)
                _leave(main() if question["program"] is None else _run(question["program"]))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    for name in (*_modules(), "aiohttp.web"):
        with contextlib.suppress(ImportError):  # an extra may be missing
            importlib.import_module(name)
    hatchery.install(sys.argv[1])
    # Copies that are not the standard streams, which a child has of its own.
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    gc.freeze()  # a collection in a child would copy all of it
    _serve(questions, answers)
