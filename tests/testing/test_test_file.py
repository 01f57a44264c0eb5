"""Test files: every problem with its line and the way out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from suite_folder import Bench, told

from noetl.cli.commands.playbooks.schema import test_schema_text as schema_text
from noetl.testing.test_file import load_suite

STEPS = """
- {step: start, tool: {kind: http, name: get, url: "{{ workload.url }}"}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop}}
"""
ROOT = Path(__file__).parents[2]
Make = Callable[[str], Bench]


@pytest.mark.parametrize(
    ("text", "code", "line", "message"),
    [
        ("tests: []", "wrong-value", 1, "`tests` must have at least 1 item"),
        ("tests: 3", "wrong-type", 1, "`tests` must be a list, not a number"),
        ("- a", "wrong-type", 1, "a test file is a map with `playbook` and `tests`"),
        ("tests: [", "yaml-syntax", 1, ""),
        ("tests:\n- name: a\n  expct: {}", "unknown-key", 3, "a test has no key `expct`"),
        ("tests:\n- {name: a}\n- {name: a}", "duplicate-key", 3, "two cases are called `a`"),
        ("tests:\n- {expect: {}}", "missing-key", 2, "a test needs `name`"),
        ("tests:\n- name: a\n  expect: {status: done}", "wrong-value", 3, "`status` is `done`, which is not one of"),
        ("tests:\n- name: a\n  now: soon", "wrong-value", 3, "`now` is `soon`, which is no time"),
        ("tests:\n- name: a\n  signals: [{name: x, at: 1, after: start}]", "wrong-value", 3, "`at` and `after`"),
        ("mocks: {get: {}}\ntests: [{name: a}]", "missing-key", 1, "a mock says what the task yields"),
        ("mocks: {get: {data: 1, error: no}}\ntests: [{name: a}]", "wrong-value", 1, "`data` or an `error`, not both"),
        ("mocks: {get: {data: 1, calls: [{data: 1}]}}\ntests: [{name: a}]", "wrong-value", 1, "`calls` says all of it"),
        ("mocks: {get: {choose: [{then: {data: 1}}]}}\ntests: [{name: a}]", "missing-key", 1, "a branch has `when`"),
        (
            "mocks: {get: {choose: [{else: {data: 1}}, {when: true, then: {data: 1}}]}}\ntests: [{name: a}]",
            "else-not-last",
            1,
            "`else` closes the list",
        ),
        ('mocks:\n  get: {data: "{{ inptu.x }}"}\ntests: [{name: a}]', "unknown-scope", 2, "`inptu` is not known here"),
        ('tests:\n- name: a\n  expect: {output: "{{ it + }}"}', "template-syntax", 3, "does not parse"),
        ("mocks: {gte: {data: 1}}\ntests: [{name: a}]", "unknown-task", 1, "the playbook has no task `gte`"),
        ("real: [htttp]\ntests: [{name: a}]", "unknown-task", 1, "the playbook has no task `htttp`"),
        ("tests:\n- name: a\n  expect:\n    route: [start, edn]", "unknown-step", 4, "the playbook has no step `edn`"),
        ("tests:\n- name: a\n  expect: {steps: {ende: done}}", "unknown-step", 3, "the playbook has no step `ende`"),
        ("tests:\n- name: a\n  signals: [{name: x, after: strt}]", "unknown-step", 3, "has no step `strt`"),
        (
            "tests:\n- name: a\n  mocks: {get: {data: 1}}\n  real: [get]",
            "wrong-value",
            4,
            "`get` is to run for real, and has a mock: it can only do one",
        ),
        (
            "tests:\n- name: a\n  mocks: {get: {data: 1}}\n  real: [start.get]",
            "wrong-value",
            4,
            "`start.get` is to run for real, and has a mock, there called `get`: it can only do one",
        ),
        ("playbook: none.yaml\ntests: [{name: a}]", "unreadable-file", 1, "none.yaml cannot be read"),
    ],
)
def test_a_mistake_in_a_test_file_is_told_with_its_line(
    bench: Make, text: str, code: str, line: int, message: str
) -> None:
    found = told(bench(STEPS).run(text))
    assert [(one[0], one[1]) for one in found] == [(code, line)]
    assert message in found[0][2]


def test_nearly_known_words_are_proposed(bench: Make) -> None:
    ran = bench(STEPS).run("mokcs: {}\ntests: [{name: a}]")
    assert [one.fix for _, found in ran.problems for one in found] == ["did you mean `mocks`?"]
    ran = bench(STEPS).run("mocks: {strat.get: {data: 1}}\ntests: [{name: a}]")
    assert [one.fix for _, found in ran.problems for one in found] == ["did you mean `start.get`?"]


def test_the_problems_of_the_playbook_are_told_as_its_own(bench: Make) -> None:
    ran = bench("\n- {step: start, tool: {kind: htp}}").run("tests: [{name: a}]")
    ((source, found),) = ran.problems
    assert source.name.endswith("tried.yaml")
    assert [one.code for one in found] == ["unknown-kind"]


def test_bytes_that_are_no_text_are_told() -> None:
    suite = load_suite(b"\xff\xfe\x00", Path("a.test.yaml"), "a.test.yaml")
    assert suite.diagnostics
    assert suite.cases == ()


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "tests").glob("*.yaml")), ids=lambda path: path.stem)
def test_editors_take_the_test_files_of_the_examples(path: Path) -> None:
    Draft202012Validator(json.loads(schema_text())).validate(yaml.safe_load(path.read_text()))


def test_editors_are_told_of_a_mistake() -> None:
    schema = Draft202012Validator(json.loads(schema_text()))
    assert not schema.is_valid({"tests": [{"name": "a", "expct": {}}]})
    assert not schema.is_valid({"tests": [{"name": "a", "mocks": {"get": {"dta": 1}}}]})
    assert not schema.is_valid({"tests": [{"name": "a", "mocks": {"get": [{"attempts": [{"dta": 1}]}]}}]})
    assert schema.is_valid({"tests": [{"name": "a", "mocks": {"get": [{"attempts": [{"data": 1}]}]}}]})
