"""noetl completion."""

from __future__ import annotations

import shutil
import subprocess
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


def test_an_unknown_shell_is_refused(noetl: Noetl) -> None:
    assert noetl("completion", "cmd").code == 2
