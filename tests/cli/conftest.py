"""The command line under test: in this process for speed, in one of its own where that matters."""

import contextlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from forkserver import ForkedProcess, ForkServer

from noetl.cli.app import run

SOURCES = Path(__file__).parents[2] / "src"
GOOD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: good}
workload: {n: 3}
workflow:
  - step: start # where it starts
    tool: {kind: noop, output: "{{ workload.n }}"}
    set: {ctx.n: "{{ output.data }}"}
    next: {arcs: [{step: end, when: "{{ ctx.n > 0 }}"}]}
  - step: end
"""
#: a key and a kind that are misspelt: both can be mended
BAD = GOOD.replace("set: ", "sett: ").replace("kind: noop", "kind: nop").replace("ctx.n > 0", "workload.n > 0")
#: nothing is wrong with it, but a step is never reached
ODD = GOOD + "  - {step: lost, tool: {kind: noop}}\n"


class Result(NamedTuple):
    """What a command line left behind."""

    code: int
    out: str
    err: str


Noetl = Callable[..., Result]


@pytest.fixture
def good() -> str:
    """A playbook without a flaw."""
    return GOOD


@pytest.fixture
def bad() -> str:
    """A playbook with two errors, both of which can be mended."""
    return BAD


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(folder: Path) -> Path:
    """The current folder with good.yaml, bad.yaml and odd.yaml."""
    for name, text in (("good", GOOD), ("bad", BAD), ("odd", ODD)):
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def noetl(capsys: pytest.CaptureFixture[str], folder: Path) -> Iterator[Noetl]:
    """Runs a command line in this process."""

    def call(*arguments: str) -> Result:
        code = run(arguments)
        return Result(code, *capsys.readouterr())

    return call


class Shell:
    """Runs command lines in processes of their own."""

    def __init__(self, forkserver: ForkServer) -> None:
        self.forkserver = forkserver
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        # Else every process would compile anew what was edited last.
        for name in ("PYTHONDONTWRITEBYTECODE", "NO_COLOR", "TERM"):
            self.environment.pop(name, None)

    def command(self, *arguments: str) -> list[str]:
        """What to start for a command line."""
        return [sys.executable, "-c", "import sys; from noetl.__main__ import main; sys.exit(main())", *arguments]

    def __call__(self, *arguments: str, given: bytes = b"", **environment: str) -> Result:
        """Run it to its end."""
        done = self.forkserver.run(*arguments, cwd=Path.cwd(), env={**self.environment, **environment}, given=given)
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **environment: str) -> ForkedProcess:
        """Start it with the test's NOETL_HOME, unless another is given."""
        inherited = {**os.environ, **self.environment, "NOETL_HOME": os.environ["NOETL_HOME"]}
        return self.forkserver.start(*arguments, cwd=Path.cwd(), env={**inherited, **environment})

    def python(self, code: str, *options: str) -> str:
        """What a piece of Python prints."""
        command = [sys.executable, *options, "-c", code]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment).stdout

    def at_terminal(
        self, *arguments: str, given: bytes = b"", seen_then: tuple[str, Path] | None = None, **environment: str
    ) -> str:
        """What a person would see, who types what is given, and makes a file when there is a certain text to be seen."""
        return self.end_at_terminal(*arguments, given=given, seen_then=seen_then, **environment).stdout

    def end_at_terminal(
        self, *arguments: str, given: bytes = b"", seen_then: tuple[str, Path] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, with the exit code."""
        controller, terminal = pty.openpty()
        os.write(controller, given)
        seen: list[bytes] = []
        reader = Thread(target=_drain, args=(controller, seen, seen_then))
        reader.start()
        try:
            ended = subprocess.run(
                self.command(*arguments),
                check=False,
                stdout=terminal,
                stderr=terminal,
                stdin=terminal,
                env={**self.environment, "TERM": "xterm", **environment},
            )
        finally:
            os.close(terminal)
            reader.join()
            os.close(controller)
        return subprocess.CompletedProcess(arguments, ended.returncode, b"".join(seen).decode())


def _drain(controller: int, seen: list[bytes], then: tuple[str, Path] | None) -> None:
    """Take what is written to a terminal, which holds only a few kilobytes itself."""
    with contextlib.suppress(OSError):  # nobody writes to it any more
        while data := os.read(controller, 65_536):
            seen.append(data)
            if then is not None and then[0].encode() in b"".join(seen):
                then[1].touch()


@pytest.fixture(scope="session")
def shell(forkserver: ForkServer) -> Shell:
    """Real processes."""
    return Shell(forkserver)


class Running:
    """A command line in a process of its own that has not ended."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.process = shell.start(*arguments)
        #: how much of its standard error was waited for
        self._passed = 0

    def wait_for(self, *texts: str) -> None:
        """Wait until stderr has told all of these, in any order."""
        missing = set(texts)
        while missing:
            ended = self.process.poll() is not None
            lines = self._new_lines()
            for line in lines:
                self._passed += len(line)
                missing = {text for text in missing if text not in line}
                if not missing:
                    break
            if missing and not lines:
                assert not ended, f"{missing} was not told"
                time.sleep(0.01)

    def _new_lines(self) -> list[str]:
        new = self.process.said()[self._passed :]
        return new[: new.rfind("\n") + 1].splitlines(keepends=True)

    def kill(self) -> None:
        """As the system does when memory runs out."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> Result:
        """Wait for its end."""
        out, err = self.process.communicate()
        return Result(self.process.wait(), out.decode(), err.decode()[self._passed :])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty NOETL_HOME."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def start(shell: Shell, folder: Path, home: Path) -> Iterator[Callable[..., Running]]:
    """Starts command lines and leaves none behind."""
    started: list[Running] = []

    def call(*arguments: str) -> Running:
        started.append(Running(shell, *arguments))
        return started[-1]

    yield call
    for one in started:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def playbooks(folder: Path, home: Path) -> Path:
    """The current folder with the playbooks of `cli.playbooks`."""
    from cli.playbooks import ALL

    for name, text in ALL.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder
