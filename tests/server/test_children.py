"""What the end of a child means to its caller."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.model.state import Execution, StepInfo
from noetl.server.core.children import output_of

STALLED = {"kind": "stalled", "message": "tokens are left at gate", "step": "gate"}


def ended(status: str = "completed", **parts: Any) -> Execution:
    """A child that is over."""
    return Execution("c", path="child", status=status, **parts)


@pytest.mark.parametrize("child", [ended(), ended("failed", error=STALLED)], ids=["completed", "failed by its policy"])
def test_a_child_that_stalled_gives_its_caller_that_error_whatever_its_policy(child: Execution) -> None:
    child.stalled = ["gate"]
    error = output_of(child)["error"]
    assert (error["kind"], error["child"], error["stalled"]) == ("stalled", "c", ["gate"])


def test_of_a_child_that_failed_and_left_tokens_the_failure_counts() -> None:
    error = output_of(ended("failed", error={"kind": "shell", "message": "no"}, stalled=["gate"]))["error"]
    assert (error["kind"], error["cause"]["kind"]) == ("playbook", "shell")


def test_a_child_whose_own_child_stalled_has_failed_and_not_stalled() -> None:
    assert output_of(ended("failed", error=STALLED))["error"]["kind"] == "playbook"


def test_that_no_arc_of_a_child_matched_is_no_error_for_its_caller() -> None:
    output = output_of(ended(output=5, unmatched={"a": 1}))
    assert (output["status"], output["data"]) == ("ok", 5)


@pytest.mark.parametrize(
    ("steps", "how"),
    [({}, "did not run"), ({"last": StepInfo(runs=1, status="cancelled")}, "was cancelled")],
    ids=["never ran", "cancelled"],
)
def test_a_result_that_was_to_come_from_a_step_which_did_not_end_is_an_error(
    steps: dict[str, StepInfo], how: str
) -> None:
    error = output_of(ended(output=5, return_step="last", steps=steps))["error"]
    assert error["kind"] == "result"
    assert f"`last`, which `return_step` names, {how}" in error["message"]


def test_the_result_of_a_step_that_ran_is_the_child_s_output() -> None:
    assert output_of(ended(output=5, return_step="last", output_final=True))["data"] == 5
