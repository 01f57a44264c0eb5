"""`spec.lease`: what its numbers may be, in one layer and in two."""

from __future__ import annotations

import pytest

from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()


def found_in(step: str, executor: str = "{}", more: str = "") -> list[tuple[str, str, str]]:
    """What is said about a playbook: the code, the source that is pointed at, and the fix."""
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
        f"executor: {{spec: {executor}}}\nworkflow:\n  - {{step: a, spec: {step}, tool: {{kind: noop}}}}\n{more}"
    )
    lines = text.splitlines()
    return [
        (one.code, lines[one.span.line - 1][one.span.column - 1 : one.span.end_column - 1], one.fix or "")
        for one in load(text, KINDS).diagnostics
    ]


@pytest.mark.parametrize(
    "lease",
    [
        "{ttl_s: 1}",
        "{ttl_s: 86400}",
        "{ttl_s: 6, heartbeat_s: 2}",
        "{ttl_s: 2.5, heartbeat_s: 0.1}",
        "{ttl_s: 3.3, heartbeat_s: 1.1}",  # 3 * 1.1 is a little more than 3.3
    ],
)
def test_a_lease_into_which_three_heartbeats_fit_is_accepted(lease: str) -> None:
    assert found_in(f"{{lease: {lease}}}") == []


@pytest.mark.parametrize(
    ("lease", "at", "fix"),
    [
        ("{ttl_s: 0.5}", "0.5", "write 1 or more"),
        ("{ttl_s: 0}", "0", "write 1 or more"),
        ("{ttl_s: -3}", "-3", "write 1 or more"),
        ("{ttl_s: 86401}", "86401", "write 86400 or less"),
        ("{ttl_s: 5, heartbeat_s: 0}", "0", "write 0.1 or more"),
        ("{ttl_s: 6, heartbeat_s: 2.1}", "2.1", "write `heartbeat_s: 2` or less, or `ttl_s: 6.3` or more"),
        ("{ttl_s: 1, heartbeat_s: 10}", "10", "write `heartbeat_s: 0.333` or less, or `ttl_s: 30` or more"),
    ],
)
def test_any_other_is_a_wrong_value_with_its_place_and_the_fix(lease: str, at: str, fix: str) -> None:
    assert found_in(f"{{lease: {lease}}}") == [("wrong-value", at, fix)]


@pytest.mark.parametrize("value", ['"{{ workload.x }}"', "true", ".inf", ".nan", "30s"])
def test_its_numbers_are_numbers(value: str) -> None:
    assert "wrong-type" in [code for code, _, _ in found_in(f"{{lease: {{ttl_s: {value}}}}}")]


def test_a_lease_needs_its_length() -> None:
    assert [code for code, _, _ in found_in("{lease: {heartbeat_s: 1}}")] == ["missing-key"]


def test_a_step_and_the_executor_are_judged_together() -> None:
    outer = "{lease: {ttl_s: 60, heartbeat_s: 20}}"
    assert found_in("{}", outer) == []
    assert found_in("{lease: {ttl_s: 6, heartbeat_s: 2}}", outer) == []
    (found,) = found_in("{lease: {ttl_s: 6}}", outer)
    assert found == ("wrong-value", "6", "write `heartbeat_s: 2` or less, or `ttl_s: 60` or more")


def test_a_mistake_of_the_executor_is_reported_once() -> None:
    more = "  - {step: b, tool: {kind: noop}}\n"
    found = [one for one in found_in("{}", "{lease: {ttl_s: 6, heartbeat_s: 3}}", more) if one[0] == "wrong-value"]
    assert found == [("wrong-value", "3", "write `heartbeat_s: 2` or less, or `ttl_s: 9` or more")]
