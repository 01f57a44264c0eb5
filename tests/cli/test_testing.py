"""noetl test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flow}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: http, url: "http://x/{{ workload.n }}"}
    next: {arcs: [{step: end, when: "{{ output.data > 1 }}"}, {step: low}]}
  - {step: low, tool: {kind: noop, output: low}}
  - {step: end, tool: {kind: noop, output: high}}
"""
GOOD = """\
mocks: {start: {data: 2}}
tests:
  - {name: high, expect: {output: high}}
  - {name: low, mocks: {start: {data: 1}}, expect: {output: low}}
"""
BAD = """\
playbook: flow.yaml
mocks: {start: {data: 2}}
tests:
  - {name: wrong <&>, expect: {output: low}}
  - {name: unmocked, mocks: {}, payload: {n: 2}, expect: {output: high}}
  - {name: no more, skip: it is old}
"""


@pytest.fixture
def flows(folder: Path) -> Path:
    """The current folder with a playbook and its tests."""
    (folder / "flow.yaml").write_text(PLAYBOOK)
    (folder / "flow.test.yaml").write_text(GOOD)
    return folder


@pytest.mark.usefixtures("flows")
def test_all_tests_of_a_folder_run_and_pass(noetl: Noetl) -> None:
    for arguments in ((), (".",), ("flow.test.yaml",)):
        done = noetl("test", *arguments)
        assert (done.code, done.err) == (0, "")
        assert "✓ flow.test.yaml: high (" in done.out
        assert "2 passed in " in done.out


def test_a_failure_is_told_with_its_place_and_why(noetl: Noetl, flows: Path) -> None:
    (flows / "bad.test.yaml").write_text(BAD)
    done = noetl("test", "bad.test.yaml")
    assert done.code == 1
    assert '    bad.test.yaml:4:40: `output` is "high", not "low"\n' in done.out
    assert "    4 |   - {name: wrong <&>, expect: {output: low}}\n" in done.out
    assert "      |                                        ^^^\n" in done.out
    assert "low    never ran  start ended (step.done): its arc to low was" in done.out
    assert "- bad.test.yaml: no more (skipped: it is old)" in done.out
    assert "1 passed, 1 failed, 1 skipped in " in done.out


def test_cases_can_be_chosen_and_the_first_failure_can_be_the_last(noetl: Noetl, flows: Path) -> None:
    assert noetl("test", "-k", "HIGH flow").out.count("✓") == 1
    assert noetl("test", "-k", "nothing").code == 2
    (flows / "a.test.yaml").write_text(BAD)
    done = noetl("test", "-x")
    assert done.code == 1
    assert done.out.count("✓") + done.out.count("✗") == 1


def test_invalid_files_are_told_and_the_others_run(noetl: Noetl, flows: Path) -> None:
    (flows / "odd.test.yaml").write_text("playbok: flow.yaml\ntests: [{name: a}]\n")
    done = noetl("test")
    assert done.code == 2
    assert "odd.test.yaml:1:1: error[unknown-key]: a test file has no key `playbok`" in done.err
    assert "did you mean `playbook`?" in done.err
    assert "2 passed, 1 file invalid in " in done.out


@pytest.mark.usefixtures("flows")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.test.yaml",), "none.test.yaml: there is no such file"),
        (("flow.yaml",), "flow.yaml: this is no test file; its tests belong in flow.test.yaml"),
        (("--record", "--crash-everywhere"), "record first"),
    ],
)
def test_what_cannot_be_meant_is_told(noetl: Noetl, arguments: tuple[str, ...], said: str) -> None:
    done = noetl("test", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_folder_without_tests_is_told(noetl: Noetl, folder: Path) -> None:
    assert noetl("test") == (2, "", "noetl: there are no test files (*.test.yaml) in this folder\n")


def test_programs_get_one_document(noetl: Noetl, flows: Path) -> None:
    (flows / "bad.test.yaml").write_text(BAD)
    (flows / "odd.test.yaml").write_text("tests: 3\n")
    done = noetl("test", "--json")
    document = json.loads(done.out)
    assert (done.code, document["passed"], document["failed"], document["skipped"]) == (2, 3, 1, 1)
    failed = next(one for one in document["tests"] if one["status"] == "failed")
    assert failed["failures"] == [
        {
            "line": 4,
            "column": 40,
            "message": '`output` is "high", not "low"',
            "fix": None,
            "expected": "low",
            "got": "high",
        }
    ]
    assert failed["run"]["steps"]["end"] == {"status": "done", "runs": 1}
    assert [one["step"] for one in failed["why"]] == ["start", "low", "end"]
    assert document["diagnostics"][0]["file"] == "odd.test.yaml"


def test_build_servers_get_junit_xml(noetl: Noetl, flows: Path) -> None:
    (flows / "bad.test.yaml").write_text(BAD)
    (flows / "odd.test.yaml").write_text("tests: 3\n")
    noetl("test", "--junit", "out/results.xml")
    root = ET.parse(flows / "out" / "results.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert {name: suite.get("tests") for name, suite in suites.items()} == {
        "bad.test.yaml": "3",
        "flow.test.yaml": "2",
        "odd.test.yaml": "1",
    }
    wrong, unmocked, old = suites["bad.test.yaml"]
    assert wrong.get("name") == "wrong <&>"
    assert wrong.find("failure") is not None
    assert list(unmocked) == []
    assert old.find("skipped") is not None
    assert suites["odd.test.yaml"].find("testcase/error") is not None


@pytest.mark.usefixtures("flows")
def test_every_event_can_be_the_last_before_a_death(noetl: Noetl) -> None:
    done = noetl("test", "--crash-everywhere")
    assert done.code == 0
    assert "killed 6 times" in done.out or "killed 8 times" in done.out


def test_nothing_is_left_in_the_home(noetl: Noetl, flows: Path, home: Path) -> None:
    assert noetl("test").code == 0
    assert not home.exists()


def test_recording_writes_a_cassette_and_takes_away_one_that_nobody_needs(noetl: Noetl, folder: Path) -> None:
    (folder / "flow.yaml").write_text(PLAYBOOK.replace('http, url: "http://x/{{ workload.n }}"', "shell, cmd: echo 7"))
    (folder / "flow.test.yaml").write_text("tests: [{name: a}]\n")
    done = noetl("test", "--record")
    assert "recorded flow.cassette.json" in done.err
    recorded = json.loads((folder / "flow.cassette.json").read_text())
    assert recorded["cases"]["a"][0]["task"] == "start.start"
    assert recorded["cases"]["a"][0]["output"]["data"]["stdout"] == "7\n"
    assert noetl("test").code == done.code
    (folder / "flow.test.yaml").write_text(GOOD)
    assert "removed flow.cassette.json" in noetl("test", "--record").err
    assert not (folder / "flow.cassette.json").exists()


def test_validate_tells_the_mistakes_of_a_test_file_and_mends_them(noetl: Noetl, flows: Path) -> None:
    assert noetl("validate", "flow.test.yaml").out == "no problems in flow.test.yaml\n"
    (flows / "flow.test.yaml").write_text(GOOD.replace("expect:", "expct:"))
    assert noetl("validate", "flow.test.yaml").code == 2
    assert noetl("validate", "--fix", "flow.test.yaml").code == 0
    assert (flows / "flow.test.yaml").read_text() == GOOD
    assert noetl("validate", ".").out == "no problems in 2 files\n"


@pytest.mark.slow
def test_a_hundred_small_tests_take_seconds(shell: Shell, flows: Path) -> None:
    cases = "".join(f"  - {{name: case {number}, expect: {{output: high}}}}\n" for number in range(100))
    (flows / "flow.test.yaml").write_text(f"mocks: {{start: {{data: 2}}}}\ntests:\n{cases}")
    began = time.monotonic()
    done = shell("test", "flow.test.yaml")
    assert "100 passed" in done.out
    assert (
        time.monotonic() - began < 120
    )  # the figure is that of bench/playbook_tests.py, 5 s; here it is only to be no other order
