"""The command line as a whole: help, errors, interruptions, pipes, and that it starts fast."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from noetl import __version__
from noetl.cli.command_table import COMMANDS

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


def test_the_version_is_answered_without_importing_anything(shell: Shell) -> None:
    code = "import sys; sys.argv = ['noetl', '--version']; from noetl.__main__ import main; main(); print(*sys.modules)"
    version, modules = shell.python(code, "-S").splitlines()
    assert version == f"noetl {__version__}"
    assert {name.split(".")[0] for name in modules.split()} & {"click", "yaml", "msgspec", "re", "typing"} == set()
    assert "noetl.cli" not in modules


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["help"]])
def test_the_help_lists_every_command_under_its_purpose_and_imports_none(shell: Shell, arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['noetl', *{arguments}]; from noetl.__main__ import main; main(); print(*sys.modules)"
    )
    *lines, modules = shell.python(code).splitlines()
    for name, entry in COMMANDS.items():
        assert any(line.split()[:1] == [name] for line in lines)
        assert f"{entry.purpose}:" in lines
    assert {"noetl.lang.loader", "yaml", "jinja2", "rich", "noetl.cli.commands.playbooks.validate"} & set(
        modules.split()
    ) == set()


def test_validate_imports_nothing_heavy(shell: Shell, folder: Path, good: str) -> None:
    (folder / "good.yaml").write_text(good)
    code = "import sys; sys.argv = ['n', 'validate', 'good.yaml']; from noetl.__main__ import main; main(); print(*sys.modules)"
    modules = set(shell.python(code).splitlines()[-1].split())
    assert "noetl.lang.loader" in modules
    heavy = {"rich", "jinja2", "jsonschema", "asyncio", "noetl.draw", "importlib.metadata", "ruamel.yaml"}
    assert heavy & modules == set()


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_of_its_own(noetl: Noetl, name: str) -> None:
    result = noetl(name, "--help")
    assert result.code == 0
    assert f"Usage: noetl {name}" in result.out


def test_an_unknown_command_is_answered_with_the_nearest(noetl: Noetl) -> None:
    result = noetl("valdate", "x.yaml")
    assert result.code == 2
    assert "there is no command `valdate`; did you mean `validate`?" in result.err
    assert noetl("wholly-other").code == 2


def test_a_file_in_place_of_a_command_is_understood(noetl: Noetl) -> None:
    assert "did you mean `noetl validate flow.yaml`?" in noetl("flow.yaml").err


def test_an_unknown_option_is_answered_with_the_nearest(noetl: Noetl) -> None:
    result = noetl("validate", "--strct", "x.yaml")
    assert result.code == 2
    assert "--strict" in result.err


def test_a_missing_argument_is_told(noetl: Noetl) -> None:
    result = noetl("explain")
    assert (result.code, "FILE" in result.err) == (2, True)


def test_a_closed_pipe_is_quiet(shell: Shell) -> None:
    process = subprocess.Popen(
        shell.command("schema"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=shell.environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    assert (process.wait(), errors) == (141, b"")
    process.stderr.close()


def test_a_full_disk_is_told_in_one_line(shell: Shell, files: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            shell.command("schema"), check=False, stdout=full, stderr=subprocess.PIPE, env=shell.environment
        )
    assert (done.returncode, done.stderr) == (1, b"noetl: No space left on device\n")


@pytest.mark.parametrize("arguments", ["--version", "--help", "schema", "validate good.yaml"])
def test_a_closed_stdout_is_no_reason_to_fail(shell: Shell, files: Path, arguments: str) -> None:
    command = ["sh", "-c", '"$@" >&-', "sh", *shell.command(*arguments.split())]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, env=shell.environment)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interruption_ends_with_130_and_no_traceback(shell: Shell) -> None:
    process = subprocess.Popen(
        shell.command("validate", "-"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.environment,
        # A shell that starts the tests in the background ignores interruptions, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  no threads here
    )
    assert process.stderr is not None
    deadline = time.monotonic() + 60
    # It reads stdin, so it sleeps until it is interrupted; signals before that moment would meet a half-started Python.
    while time.monotonic() < deadline and not _waits_for_input(process.pid):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")


def _waits_for_input(pid: int) -> bool:
    try:
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text() or "0x0" in Path(f"/proc/{pid}/syscall").read_text()[:4]
    except OSError:
        return False


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_there_is_colour_at_a_terminal_unless_nobody_wants_it(
    shell: Shell, files: Path, environment: dict[str, str], coloured: bool
) -> None:
    shown = shell.at_terminal("validate", "bad.yaml", **environment)
    assert ("\x1b[1;31merror" in shown) is coloured
    assert "error[unknown-kind]" in shown


def test_output_to_a_pipe_is_utf_8_whatever_the_locale(shell: Shell, folder: Path, good: str) -> None:
    (folder / "名.yaml").write_text(good.replace("good", "名前"), encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    # A new interpreter: it reads these when it starts.
    done = subprocess.run(
        shell.command("explain", "名.yaml"), check=False, stdout=subprocess.PIPE, env=shell.environment | locale
    )
    assert done.returncode == 0
    assert "名前" in done.stdout.decode()
