"""The Makefile, with programs that only pretend to check."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("ruff", "mypy", "lint-imports", "python")


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize(
    ("failing", "last", "code"),
    [
        ("", "make check: passed; tests: passed", 0),
        ("mypy", "make check: FAILED; tests: passed", 2),
        ("python", "make check: passed; tests: FAILED", 2),
    ],
)
def test_the_last_line_of_make_test_says_which_part_failed(tmp_path: Path, failing: str, last: str, code: int) -> None:
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\nexit {int(name == failing)}\n")
        program.chmod(0o755)
    (tmp_path / ".ready").touch()
    done = subprocess.run(
        ["make", "test", f"VENV={tmp_path}"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == last
    assert ("failed: mypy" in done.stderr) is (failing == "mypy")
