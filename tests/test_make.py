"""The Makefile: with programs that only pretend to check, and the demo for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: as in a shell of its own: these tests may themselves run under make
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

PROGRAMS = ("ruff", "mypy", "lint-imports", "python")


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize(
    ("target", "failing", "code"),
    [("check", "", 0), ("check", "mypy", 2), ("test", "", 0), ("test", "python", 2)],
)
def test_a_target_fails_if_one_of_its_programs_does(tmp_path: Path, target: str, failing: str, code: int) -> None:
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\nexit {int(name == failing)}\n")
        program.chmod(0o755)
    (tmp_path / ".ready").touch()
    done = subprocess.run(
        ["make", target, f"VENV={tmp_path}"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=OUTSIDE,
    )
    assert done.returncode == code
    assert ("failed: mypy" in done.stderr) is (failing == "mypy")


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_the_demo_runs_an_example_to_its_end(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    copy = tmp_path / "clone"
    copy.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "examples"):
        (copy / name).symlink_to(root / name)
    environment = copy / "venv"
    (environment / "bin").mkdir(parents=True)
    for name, arguments in {"python": "", "noetl": "-m noetl"}.items():
        program = environment / "bin" / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{root}/src" exec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    (environment / ".ready").touch()
    done = subprocess.run(
        ["make", "demo", f"VENV={environment}"],
        check=False,
        capture_output=True,
        text=True,
        cwd=copy,
        timeout=600,
        env=OUTSIDE,
    )
    assert done.returncode == 0, done.stderr
    assert "attempt 2" in done.stderr  # the shop was busy once
    assert "nightly-sync completed" in done.stderr + done.stdout
    assert len(list((copy / "build/demo/rows").rglob("*.ndjson"))) == 15
    assert (copy / "build/demo/nightly-sync.svg").stat().st_size > 1000
