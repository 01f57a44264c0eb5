"""Which names a template sees where."""

from __future__ import annotations

import pytest

from noetl.expr.scopes import STEP_HELPERS, EvaluationPoint, visible_names


def where(name: str, *, in_loop: bool = True) -> set[EvaluationPoint]:
    return {boundary for boundary in EvaluationPoint if name in visible_names(boundary, in_loop)}


TASK = {
    EvaluationPoint.TASK_INPUT,
    EvaluationPoint.TASK_CONFIG,
    EvaluationPoint.TASK_OUTPUT,
    EvaluationPoint.TASK_SET,
    EvaluationPoint.RULE,
}


@pytest.mark.parametrize("name", ["workload", "keychain", "execution_id", "now", "uuid", "range", "namespace"])
def test_some_names_are_known_everywhere(name: str) -> None:
    assert where(name) == set(EvaluationPoint)


def test_event_is_known_in_admission_and_arcs_only() -> None:
    assert where("event") == {EvaluationPoint.ADMIT, EvaluationPoint.ARC_WHEN, EvaluationPoint.ARC_SET}


def test_the_counts_of_a_loop_are_known_in_complete_when_only() -> None:
    assert where("loop") == {EvaluationPoint.LOOP_COMPLETE}


@pytest.mark.parametrize("name", sorted(STEP_HELPERS))
def test_helpers_over_steps_are_known_in_admission_arcs_and_step_input(name: str) -> None:
    assert where(name) == {
        EvaluationPoint.ADMIT,
        EvaluationPoint.ARC_WHEN,
        EvaluationPoint.ARC_SET,
        EvaluationPoint.STEP_INPUT,
    }


def test_quiet_is_known_in_admission_only() -> None:
    assert where("quiet") == {EvaluationPoint.ADMIT}


@pytest.mark.parametrize("name", ["_prev", "_task", "_attempt", "task_key"])
def test_locals_of_a_pipeline_are_known_inside_one(name: str) -> None:
    assert where(name) == TASK


@pytest.mark.parametrize("name", ["row", "chunk"])
def test_rows_are_known_in_a_tasks_own_fields(name: str) -> None:
    assert where(name) == {EvaluationPoint.TASK_CONFIG}


def test_steps_are_known_wherever_there_is_an_execution_of_ones_own() -> None:
    assert where("steps") == set(EvaluationPoint) - {EvaluationPoint.KEYCHAIN, EvaluationPoint.NOTICE}


def test_iter_is_known_inside_a_loop_and_where_one_iteration_is_meant() -> None:
    assert where("iter", in_loop=False) == set()
    assert where("iter") > TASK
    assert not where("iter") & {
        EvaluationPoint.ADMIT,
        EvaluationPoint.ARC_WHEN,
        EvaluationPoint.ARC_SET,
        EvaluationPoint.STEP_SET,
    }


def test_a_keychain_entry_sees_the_workload_only() -> None:
    assert not visible_names(EvaluationPoint.KEYCHAIN, True) & {"ctx", "step", "input", "output", "iter", "steps"}
