"""The code passes the linters, the formatter and the type checker: what `make check` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: the same as in the Makefile
TOOLS = ("ruff check .", "ruff format --check .", "mypy", "lint-imports")


@pytest.mark.slow
def test_the_code_passes_make_check() -> None:
    failed = []
    for tool in TOOLS:
        name, *arguments = tool.split()
        program = Path(sys.executable).parent / name
        assert program.exists(), f"{name} is not installed in this environment"
        done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{tool}\n{done.stdout}{done.stderr}")
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)


def test_make_check_runs_the_same_tools() -> None:
    text = (ROOT / "Makefile").read_text()
    listed = text[text.index("\ncheck:") :].split("; do", 1)[0]
    assert [tool for tool in TOOLS if tool not in listed] == []
