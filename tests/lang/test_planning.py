"""Plans: what a run may ask for, and what it is told when it may not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from thorough import up_to

from noetl.lang.loader import load
from noetl.lang.planning import build_plan, extend_net
from noetl.lang.printing.plain_yaml import dump
from noetl.lang.reading.node import plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.model.net import Net, PlanResult
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: planning}
keychain: [{name: api, kind: bearer}]
executor: {spec: {isolation: process, timeout: 7}}
workbook:
  greet: {kind: noop, output: hello}
workflow:
  - step: plan
    tool: {kind: python, code: "def main(): return []"}
    next: {spec: {synthesize: {from: "{{ output.data }}", max_steps: 3}}, arcs: [{step: a}]}
  - {step: a, tool: {kind: noop}, next: {arcs: [{step: join}]}}
  - {step: join, spec: {policy: {admit: {join: {from: [a]}}}}, tool: {kind: workbook, task: greet}}
  - {step: end, tool: {kind: noop}}
"""


def net(**synthesize: Any) -> Net:
    text = PLAYBOOK
    for key, value in synthesize.items():
        text = text.replace("max_steps: 3}", f"max_steps: 3, {key}: {value}}}")
    found = load(text, KINDS)
    assert found.net is not None, found.diagnostics
    return found.net


def judged(found: Any, whole: Net | None = None, step: str = "plan") -> PlanResult:
    whole = whole or net()
    wish = whole.steps[step].router.synthesize
    assert wish is not None
    return build_plan(whole, step, wish, found, KINDS)


def why(found: Any, whole: Net | None = None) -> str:
    made = judged(found, whole)
    assert made.error is not None
    assert made.error["kind"] == "plan-invalid"
    assert not made.steps
    message: str = made.error["message"]
    return message


def step(name: str, *arcs: str, **more: Any) -> dict[str, Any]:
    return {"step": name, "tool": {"kind": "noop"}, "next": {"arcs": [{"step": arc} for arc in arcs]}, **more}


def test_planned_steps_lead_to_each_other_and_to_the_steps_of_the_playbook() -> None:
    made = judged([step("one", "two"), step("two", "end")])
    assert made.error is None
    assert [one["step"] for one in made.steps] == ["one", "two"]
    assert [one.source for one in made.net.incoming["end"]] == ["two"]
    assert made.net.plans == (("plan", "one"),)
    assert made.net.start == "plan"


def test_planned_tasks_are_under_the_spec_of_the_executor() -> None:
    made = judged([{"step": "one", "tool": {"kind": "noop", "spec": {"isolation": "none"}}}])
    spec = made.net.steps["one"].tasks[0].spec
    assert spec["isolation"].value == "process"
    assert spec["timeout"].value == 7


def test_what_was_recorded_gives_the_same_net() -> None:
    made = judged([step("one", "end", desc="yes"), step("two", "one")])
    again = extend_net(net(), [{"step": "plan", "steps": list(made.steps)}], KINDS)
    assert list(again.steps) == list(made.net.steps)
    assert again.plans == made.net.plans
    assert again.steps["one"].desc == "yes"


def test_an_empty_plan_changes_nothing() -> None:
    whole = net()
    assert judged([], whole) == PlanResult(whole)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "must yield a list of steps, not nothing (null)"),
        ({}, "not a map"),
        ("[]", "not text; text has to go through `| from_json`"),
        (3, "not a number"),
        ([1], "item 1 of the plan must be a step (a map), not a number"),
        ([step("a1"), "b"], "item 2 of the plan must be a step"),
        ([step(f"s{n}") for n in range(4)], "the plan has 4 steps; `max_steps` allows 3"),
        ([{}], "`step`"),
        ([step("one", "nowhere")], "in step `one`: there is no step `nowhere`"),
        ([step("end")], "the execution has a step `end` already"),
        ([step("one"), step("one")], "step `one` is already there"),
        ([step("one", sett={"ctx.a": 1})], "did you mean `set`?"),
        ([step("one", set={"ctx.a": "{{ nonsense }}"})], "`nonsense` is not known here"),
        ([step("one", set={"ctx.a": "{{ 1 + }}"})], "in step `one`"),
        ([step("one", set={"ctx.a": "{{ keychain.api.token }}"})], "a secret may not leave"),
        ([step("one", "join")], "`join` is a join that does not wait for `one`"),
        ([{"step": "one", "tool": {"kind": "workbook", "task": "great"}}], "the workbook has no task `great`"),
        ([{"step": "one", "tool": {"kind": "python", "code": "def main(:"}}], "the code is not Python"),
        ([{"step": "one", "tool": {"kind": "nop"}}], "nop"),
        ([{"step": "one", "tool": {"kind": "shell", "cmd": "true"}}], "the plan may not use `kind: shell`"),
        ([{"step": "1 bad", "tool": {"kind": "noop"}}], "1 bad"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(found: Any, said: str) -> None:
    assert said in why(found)


def test_several_problems_are_told_with_their_places() -> None:
    error = judged([step("one", "r"), step("two", "s", "t"), step("three", "u", "v")]).error
    assert error is not None
    assert error["message"].endswith("and 2 more")
    assert [(one["step"], one["code"], one["text"]) for one in error["diagnostics"]] == [
        ("one", "unknown-step", "- step: r"),
        ("two", "unknown-step", "- step: s"),
        ("two", "unknown-step", "- step: t"),
        ("three", "unknown-step", "- step: u"),
        ("three", "unknown-step", "- step: v"),
    ]


def test_a_plan_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(2_000):
        deep = [deep]
    assert "deep" in why([step("one", input={"x": deep})])


def test_the_names_of_the_execution_are_in_scope() -> None:
    made = judged(
        [
            {
                "step": "one",
                "spec": {"policy": {"admit": {"rules": [{"when": "{{ done('plan') }}", "then": {"allow": True}}]}}},
                "tool": [{"kind": "workbook", "task": "greet"}, {"kind": "noop", "auth": "api"}],
                "next": {"arcs": [{"step": "end", "cancel": ["a"]}]},
            }
        ]
    )
    assert made.error is None


def test_kinds_may_be_named_and_sugar_needs_none() -> None:
    loop = [{"choose": [{"when": True, "then": [{"kind": "shell", "cmd": "true"}]}]}]
    assert judged([{"step": "one", "tool": loop}], net(allow_kinds="[shell]")).error is None
    assert "may not use `kind: noop`" in why([step("one")], net(allow_kinds="[shell]"))


# --- plans of plans --------------------------------------------------------------------------------------------------


def planner(**synthesize: Any) -> dict[str, Any]:
    return step("inner") | {"next": {"spec": {"synthesize": {"from": "{{ output.data }}", **synthesize}}}}


def test_a_planned_step_may_plan_within_what_it_was_allowed() -> None:
    made = judged([planner()], net(allow_kinds="[noop]"))
    assert made.steps[0]["next"]["spec"]["synthesize"] == {
        "from": "{{ output.data }}",
        "max_steps": 3,
        "allow_kinds": ["noop"],
    }
    assert judged([step("last")], made.net, "inner").error is None
    shell = [{"step": "x", "tool": {"kind": "shell", "cmd": "true"}}]
    assert judged(shell, made.net, "inner").error is not None


def test_what_one_plan_may_use_is_not_what_another_may() -> None:
    made = judged([{"step": "one", "tool": {"kind": "shell", "cmd": "true"}}], net(allow_kinds="[shell]"))
    whole = load(PLAYBOOK, KINDS).net
    assert whole is not None
    later = extend_net(whole, [{"step": "plan", "steps": list(made.steps)}], KINDS)
    assert "may not use `kind: shell`" in why([{"step": "two", "tool": {"kind": "shell", "cmd": "true"}}], later)


def test_a_planned_step_cannot_allow_more_than_it_was_allowed() -> None:
    assert "may not allow `kind: shell`" in why([planner(allow_kinds=["shell"])], net(allow_kinds="[noop]"))
    assert "may plan 3 steps at most" in why([planner(max_steps=4)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(["step", "tool", "next", "loop", "spec", "set", "input", "output", "kind", "noop", "python"])


@given(st.lists(st.dictionaries(WORDS, JSON | WORDS | st.dictionaries(WORDS, JSON | WORDS, max_size=3)), max_size=3))
@settings(max_examples=up_to(200, 80), deadline=None)
def test_whatever_is_planned_is_judged_and_never_breaks(found: list[Any]) -> None:
    made = judged(found)
    assert made.error is None or made.error["kind"] == "plan-invalid"


# --- plans as text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        [],
        [[]],
        [[[1], []], {}],
        [{"a": [{"b": {"c": [1, {"d": None}]}}]}],
        ["\x00\u2028 a: b #", "~", "null", "true", "1_000", "0x1f", "2020-01-01", "", " lead", "trail ", "- x", "? y"],
        ["a\n\n", "  lead\nx", "\n", "x\n  y\n", "tab\there", "{{ x }}", "'", '"', "\\n", "💡"],
        [{"": 1, "a b:": 2, "yes": 3, "- x": 4, "{{ k }}": 5}],
        [True, False, None, 0, -1, 1.5, 1e300, -0.0, 2**63 - 1],
    ],
)
def test_data_that_is_written_down_reads_as_itself(value: Any) -> None:
    text = dump(value)
    problems = Diagnostics(Source(text))
    assert plain_value(read_yaml(text, problems)) == value
    assert problems.collect() == ()
