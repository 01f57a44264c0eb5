"""noetl completion."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_a_script_is_printed_that_the_shell_can_parse(noetl: Noetl, shell_name: str) -> None:
    script = noetl("completion", shell_name).out
    assert "_NOETL_COMPLETE" in script
    if shutil.which(shell_name):
        done = subprocess.run([shell_name, "-n"], check=False, input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_commands_options_and_choices_are_completed(shell: Shell) -> None:
    def completed(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        return shell(_NOETL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count).out.splitlines()

    assert completed("noetl va") == ["plain,validate"]
    assert "plain,--strict" in completed("noetl validate --s")
    assert completed("noetl validate --format s") == ["plain,sarif"]
    assert completed("noetl validate x") == ["file,x"]
    assert completed("noetl validate --format = s") == ["plain,sarif"]
    assert completed("noetl help unknown-k") == ["plain,unknown-key", "plain,unknown-kind"]
    assert completed("noetl help va") == ["plain,validate"]


def test_executions_are_completed_the_latest_first(shell: Shell, noetl: Noetl, playbooks: Path, home: Path) -> None:
    def completed(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        asked = {"_NOETL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
        return shell(NOETL_HOME=str(home), **asked).out.splitlines()

    assert completed("noetl show ") == []
    assert not home.exists()
    ids = [json.loads(noetl("run", "choice.yaml", "--json").out)["execution_id"] for _ in range(2)]
    assert completed("noetl show ") == ["plain,last", *(f"plain,{one}" for one in reversed(ids))]
    assert completed("noetl show l") == ["plain,last"]
    assert completed("noetl why last e") == ["plain,each", "plain,end"]
    assert completed(f"noetl why {ids[0]} b") == ["plain,big"]
    assert completed("noetl logs last --step s") == ["plain,start"]
    assert completed(f"noetl why {ids[0][:-1]}") == [f"plain,{ids[0]}"]


def test_a_shell_that_keeps_option_and_value_together_gets_both_back(shell: Shell) -> None:
    words = "noetl validate --format=s"
    asked = shell(_NOETL_COMPLETE="zsh_complete", COMP_WORDS=words, COMP_CWORD="2")
    assert asked.out.splitlines()[1] == "--format=sarif"
    asked = shell(_NOETL_COMPLETE="fish_complete", COMP_WORDS=words, COMP_CWORD="--format=s")
    assert asked.out.splitlines() == ["plain,--format=sarif"]


class Bash:
    """A bash at a terminal, with the completion script loaded."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        program = folder / "bin" / "noetl"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(shell.command())} "$@"\n')
        program.chmod(0o755)
        self._controller, terminal = pty.openpty()
        environment = {**shell.environment, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb"}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**environment, "PS1": "> "},
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal)
        self.type('eval "$(noetl completion bash)"; echo rea""dy\n', "ready")

    def type(self, keys: str, awaited: str) -> None:
        """Press keys, and wait until the terminal shows the awaited text."""
        os.write(self._controller, keys.encode())
        shown, end = "", time.monotonic() + 60
        while awaited not in shown:
            assert time.monotonic() < end, f"{awaited!r} was not shown, but {shown!r}"
            if select.select([self._controller], [], [], 0.1)[0]:
                shown += os.read(self._controller, 65_536).decode()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._controller)


@pytest.fixture
def bash(shell: Shell, files: Path) -> Iterator[Bash]:
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    made = Bash(shell, files)
    yield made
    made.close()


def test_at_a_real_bash_steps_codes_and_joined_options_are_completed(bash: Bash) -> None:
    forget = "\x15"
    bash.type("noetl explain good.yaml e\t", "good.yaml end ")
    bash.type(f"{forget}noetl explain good.yaml st\t", "good.yaml start ")
    bash.type(f"{forget}noetl help unknown-f\t", "unknown-filter ")
    bash.type(f"{forget}noetl help grap\t", "help graph ")
    bash.type(f"{forget}noetl validate --format=s\t", "--format=sarif ")
    bash.type(f"{forget}noetl graph --format=\tm\t", "mermaid ")
    bash.type(f"{forget}noetl validate goo\t", "validate good.yaml ")


def test_an_unknown_shell_is_refused(noetl: Noetl) -> None:
    assert noetl("completion", "cmd").code == 2
