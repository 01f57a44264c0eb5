"""What a picture says about a step and its arcs."""

import pytest
from netbuilding import AT, Expression, arc, task, when

from noetl.draw.picture import (
    condition_text,
    duration,
    gate_texts,
    is_failure,
    jumps,
    loop_text,
    retries,
    task_timeout,
    value_text,
)
from noetl.model.playbook import Admission, AdmitRule, Condition, Join, LayeredValue, Loop


def condition(text: str) -> Condition:
    made = when(text)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("ctx.total > 3", "ctx.total > 3"),
        ("event.name == 'loop.done'", "loop.done"),
        ('event.name == "step.done" and ctx.x', "step.done and ctx.x"),
        ("true", "always"),
        ("a\n  and b", "a and b"),
    ],
)
def test_a_condition_is_shortened_without_loss(written: str, said: str) -> None:
    assert condition_text(condition(written)) == said


def test_a_literal_condition_is_said_in_a_word() -> None:
    assert condition_text(Expression("true")) == "always"
    assert condition_text(Expression("false")) == "never"


@pytest.mark.parametrize(
    "written",
    [
        "event.name == 'step.failed'",
        "'step.failed' == event.name",
        "output.status == 'error'",
        "output.status != 'ok'",
        "event.status == 'error' and ctx.n < 3",
        "event.error.kind == 'timeout'",
        "fail('fetch')",
    ],
)
def test_an_arc_that_mentions_a_failure_is_a_failure_arc(written: str) -> None:
    assert is_failure(arc("x", written))


@pytest.mark.parametrize(
    "written",
    [None, "output.data.error_count > 3", "event.name != 'step.failed'", "output.error is none", "not fail('a')"],
)
def test_an_arc_of_success_is_not_a_failure_arc(written: str | None) -> None:
    assert not is_failure(arc("x", written))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(30, "30 s"), (0.5, "0.5 s"), (90, "90 s"), (120, "2 min"), (3600, "1 h"), (5400, "90 min"), (172_800, "2 d")],
)
def test_durations_use_the_unit_people_would_use(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_duration_may_be_an_expression() -> None:
    assert duration(Expression("{{ workload.patience }}")) == "workload.patience"


def test_a_loop_says_what_it_goes_over_and_how() -> None:
    inner = Loop(Expression("x"), "hotel", AT)
    loop = Loop(Expression("x"), "city", AT, mode="parallel", max_in_flight=50, exec="distributed", inner=inner)
    assert loop_text(loop) == "for each city, hotel · parallel ×50 · distributed"


def test_a_loop_says_when_it_ends_early() -> None:
    loop = Loop(
        Expression("x"), "page", AT, until=condition("not output.data"), complete_when=condition("loop.failed > 3")
    )
    assert loop_text(loop) == "for each page · until not output.data · enough when loop.failed > 3"


@pytest.mark.parametrize(
    ("admission", "said"),
    [
        (Admission(), []),
        (Admission(fire="once"), ["once"]),
        (Admission(join=Join({"a": 1, "b": 1}, None, "keep", AT)), ["join all 2"]),
        (Admission(join=Join({"a": 1, "b": 3}, 1, "cancel", AT)), ["join 1 of 2 · b ×3 · cancel rest"]),
        (Admission(rules=(AdmitRule(condition("done('a')"), True, AT),)), ["when done('a')"]),
        (Admission(rules=(AdmitRule(condition("done('a')"), False, AT),)), ["unless done('a')"]),
        (Admission(rules=(AdmitRule(None, True, AT),)), ["gate"]),
        (
            Admission(rules=(AdmitRule(condition("a"), True, AT), AdmitRule(condition("b"), False, AT)), fire="once"),
            ["gate · 2 rules", "once"],
        ),
    ],
)
def test_a_gate_says_what_it_waits_for(admission: Admission, said: list[str]) -> None:
    assert gate_texts(admission) == said


def test_of_several_retry_rules_the_most_patient_counts() -> None:
    assert retries(task("a", "http", retry=5)) == 5
    assert retries(task("a", "http")) is None


def test_a_jump_names_its_target() -> None:
    assert jumps(task("a", "http", jump="fetch")) == "fetch"
    assert jumps(task("a", "http", retry=2)) is None


def test_only_a_timeout_that_the_author_wrote_at_the_step_is_shown() -> None:
    assert task_timeout(task("a", "http", spec={"timeout": LayeredValue(30, "task.spec")})) == 30
    assert task_timeout(task("a", "http", spec={"timeout": LayeredValue(30, "kind default")})) is None
    assert task_timeout(task("a", "http")) is None


def test_values_are_written_as_people_write_them() -> None:
    assert [value_text(value) for value in (3, 2.50, True, None, object())] == ["3", "2.5", "true", "null", "…"]
