"""Every case of the conformance suite: what can be told without running it, and in full.

A case in full starts the command line once for every claim. Those named in `WAITING` are expected to fail, and have to
be taken from there as soon as they pass.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from nursery import Nursery
from soundness import unsound

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").rglob("*.yaml"))
COMMAND = [sys.executable, "-m", "noetl"]
#: what is not there yet → the cases that need it, as area/name
WAITING = {
    "nothing of ours: the case makes a table in a file, and is run twice in one folder": "legacy/habit-tool-keys",
}
REASONS = {name: reason for reason, names in WAITING.items() for name in names.split()}
sys.path.insert(0, str(HERE))

from run import CaseRun, run_case, shape_problems  # type: ignore[import-not-found]  # noqa: E402  it is a script's folder


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def read_case(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    case: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return case


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


def in_full() -> list[Any]:
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in REASONS.items()}
    return [pytest.param(path, id=case_id(path), marks=marks.get(case_id(path), [])) for path in CASES]


class Sound(CaseRun):  # type: ignore[misc]  # the suite is not typed
    """A case whose store is checked at the end."""

    #: what processes come from; None: each is a new interpreter, which takes most of its time to start
    nursery: Nursery | None = None

    def call(self, *args: str) -> tuple[int, str, str]:
        if self.nursery is None:
            return super().call(*args)  # type: ignore[no-any-return]
        born = self.nursery.start(*args, cwd=self.work, env=self.env)
        try:
            code = born.wait(max(0.1, self.deadline - time.monotonic()))
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(born.pid, signal.SIGKILL)
        out, err = (text.decode("utf-8", "replace") for text in born.communicate(timeout=60))
        self.transcript += out + err
        return code, out, err

    def close(self) -> None:
        super().close()
        database = self.home / "noetl.db"
        found = unsound(database) if database.exists() else []
        assert not found, f"the store is not sound: {found[:3]}"


#: one of each area starts as the suite itself would have it
AS_IT_STANDS = {path.parent.name: path for path in CASES}


@pytest.mark.parametrize("path", in_full())
def test_in_full(path: Path, nursery: Nursery) -> None:
    """As the suite itself does it, through the command line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("run.CaseRun", Sound)
        patch.setattr(Sound, "nursery", None if path in AS_IT_STANDS.values() else nursery)
        result = run_case(path, COMMAND)
    assert result["ok"], result["reason"]


def test_what_waits_is_there() -> None:
    assert REASONS.keys() <= {case_id(path) for path in CASES}


def test_the_cases_are_well_formed() -> None:
    names: dict[str, Path] = {}
    assert {case_id(path): found for path in CASES if (found := shape_problems(path, names))} == {}
