"""The tests of the examples pass, as people run them, and when the run is killed at every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.testing.suite_runner import SuiteOptions, SuiteRunner

FOLDER = Path(__file__).parents[2] / "examples" / "tests"
FILES = sorted(FOLDER.glob("*.test.yaml"))
#: its cases poll forty times, which makes very many places to die at
LONG = "it gives up after forty polls"


def test_there_are_tests_of_examples() -> None:
    assert len(FILES) >= 4


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "killed"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem.removesuffix(".test"))
def test_the_tests_of_an_example_pass(file: Path, crash: bool, tmp_path: Path) -> None:
    wishes = SuiteOptions(lambda name: not (crash and LONG in name), crash=crash)
    session = SuiteRunner(wishes, tmp_path, {"PATH": "/usr/bin:/bin"})
    ran = session.run(file, file.read_bytes(), file.name, lambda _ran, _result: None)
    assert ran.problems == ()
    assert {one.case.name: [wrong.message for wrong in one.failures] for one in ran.results if one.failures} == {}
    assert all(one.status == "passed" for one in ran.results)
