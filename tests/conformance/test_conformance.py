"""Every case of the conformance suite, in this process; some of each area as the suite itself runs them.

`make conformance` runs every case as separate processes, in all sizes of the product.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from conformance.sizes import NOT_OURS, NOT_STATIC, case_id

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").rglob("*.yaml"))
COMMAND = [sys.executable, "-m", "noetl"]
sys.path.insert(0, str(HERE))

from match import Mismatch  # type: ignore[import-not-found]  # noqa: E402  it is a script's folder
from run import CaseRun, run_case, shape_problems  # type: ignore[import-not-found]  # noqa: E402


def parameters(paths: list[Path]) -> list[Any]:
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in NOT_OURS.items()}
    return [pytest.param(path, id=case_id(path), marks=marks.get(case_id(path), [])) for path in paths]


def read_case(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    case: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return case


class InProcess(CaseRun):  # type: ignore[misc]  # the suite is not typed
    """A case whose commands are called in this process: to start Python for each would take most of the time."""

    def call(self, *args: str) -> tuple[int, str, str]:
        from noetl.cli.app import run as main

        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with placed(self.work, self.env), limited(self.deadline), redirect_stdout(out), redirect_stderr(err):
            code = main(args)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8"))
        self.transcript += "".join(texts)
        return code, texts[0], texts[1]


@contextmanager
def placed(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run the block in a folder and with an environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in os.environ.keys() - environment.keys():
            patch.delenv(name)
        for name, text in environment.items():
            patch.setenv(name, text)
        yield


@contextmanager
def limited(deadline: float) -> Iterator[None]:
    """Interrupt the block when the case's time is up, so that a case that hangs fails."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Mismatch("the case ran past its time limit")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, deadline - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def perform(path: Path, folder: Path, *, static: bool) -> None:
    folder.mkdir()
    with closing(InProcess(read_case(path), COMMAND, folder, static=static)) as case_run:
        case_run.perform()


@pytest.mark.parametrize("path", parameters(CASES))
def test_case(path: Path, tmp_path: Path) -> None:
    """What is known without running it, then the case itself."""
    case = read_case(path)
    validates_itself = case.get("legacy") or "validate" in case.get("actions", [])
    if not validates_itself and case_id(path) not in NOT_STATIC:
        perform(path, tmp_path / "static", static=True)
    perform(path, tmp_path / "whole", static=False)


#: one of each area
AS_PROCESSES = list({path.parent.name: path for path in CASES if case_id(path) not in NOT_OURS}.values())


@pytest.mark.parametrize("path", parameters(AS_PROCESSES))
def test_case_as_processes(path: Path) -> None:
    """As the suite itself runs it, through the command line."""
    result = run_case(path, COMMAND)
    assert result["ok"], result["reason"]


def test_the_cases_that_are_expected_to_fail_exist() -> None:
    assert NOT_OURS.keys() | NOT_STATIC.keys() <= {case_id(path) for path in CASES}


def test_the_cases_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "SafeLoader", getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # ten times as fast
    names: dict[str, Path] = {}
    assert {case_id(path): found for path in CASES if (found := shape_problems(path, names))} == {}
