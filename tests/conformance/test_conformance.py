"""Every case of the conformance suite: what can be told without running it, and in full.

A case in full starts the command line once for every claim. A case that runs a playbook is expected to fail until it
is named in `PASSING`, and has to be named there as soon as it passes.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, run
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").rglob("*.yaml"))
COMMAND = [sys.executable, "-m", "noetl"]
#: the cases that run a playbook and pass, as area/name
PASSING: frozenset[str] = frozenset()
sys.path.insert(0, str(HERE))

from run import RUN_KEYS, CaseRun, run_case, shape_problems  # type: ignore[import-not-found]  # noqa: E402  it is a script's folder


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def read_case(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    case: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return case


def needs_run(path: Path) -> bool:
    """Whether a playbook is run, by the rules of `CaseRun.perform`."""
    case = read_case(path)
    actions = case.get("actions", ["validate", "run", "migrate"] if case.get("legacy") else ["run"])
    return "run" in actions or ("migrate" in actions and bool(case["expect"].keys() & RUN_KEYS))


@cache
def can_run() -> bool:
    return run([*COMMAND, "run", "--help"], stdin=DEVNULL, capture_output=True, check=False).returncode == 0


class InProcess(CaseRun):  # type: ignore[misc]  # the suite is not typed
    """The command line called in this process; starting Python for each call would take most of the time."""

    def call(self, *args: str) -> tuple[int, str, str]:
        from noetl.cli.app import run as main

        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        before = Path.cwd()
        os.chdir(self.work)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main(args)
        finally:
            os.chdir(before)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8"))
        self.transcript += "".join(texts)
        return code, texts[0], texts[1]


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_static(path: Path, tmp_path: Path) -> None:
    """All that `validate` and `migrate` have to say about it."""
    case_run = InProcess(read_case(path), COMMAND, tmp_path, static=True)
    try:
        case_run.perform()
    finally:
        case_run.close()


def is_waiting(path: Path) -> bool:
    return needs_run(path) and case_id(path) not in PASSING


def in_full() -> list[Any]:
    waiting = pytest.mark.xfail(strict=True, reason="run comes with the engine")
    return [pytest.param(path, id=case_id(path), marks=[waiting] if is_waiting(path) else []) for path in CASES]


@pytest.mark.parametrize("path", in_full())
def test_in_full(path: Path) -> None:
    """As the suite itself does it, through the command line."""
    if is_waiting(path) and not can_run():
        pytest.fail("there is no `noetl run`")
    result = run_case(path, COMMAND)
    assert result["ok"], result["reason"]


def test_the_cases_are_well_formed() -> None:
    names: dict[str, Path] = {}
    assert {case_id(path): found for path in CASES if (found := shape_problems(path, names))} == {}
