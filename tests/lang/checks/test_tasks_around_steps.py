"""Compensations, tasks around a step's body and the step that runs last: what is said of them when a file is loaded."""

from __future__ import annotations

import pytest

from noetl.lang.loader import Loaded, load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
LAST = "executor: {spec: {policy: {finally: {step: last}}}}\nworkflow:\n"


def loaded(policy: str, *, loop: str = "", tool: str = "{kind: noop}") -> Loaded:
    return load(f"{HEAD}workflow: [{{step: a, spec: {{policy: {policy}}},{loop} tool: {tool}}}]\n", ToolKinds())


def told(found: Loaded) -> list[str]:
    return [one.code for one in found.diagnostics]


def last(steps: str) -> Loaded:
    return load(HEAD + LAST + steps, ToolKinds())


def test_unnamed_tasks_are_named_after_their_list() -> None:
    found = loaded(
        "{before: [{kind: noop}, {x: {kind: noop}}, {kind: noop}], after: [{kind: noop}], finally: [{kind: noop}],"
        " compensation: {kind: noop}}"
    )
    assert found.net is not None, found.diagnostics
    names = [task.name for task in found.net.steps["a"].all_tasks]
    assert names == ["before_1", "x", "before_3", "a", "after_1", "finally_1", "compensation"]


@pytest.mark.parametrize(
    "policy",
    [
        "{before: [{name: a, kind: noop}]}",
        "{before: [{name: x, kind: noop}], finally: [{name: x, kind: noop}]}",
        "{before: [{name: compensation, kind: noop}], compensation: {kind: noop}}",
    ],
)
def test_names_are_unique_in_the_whole_step(policy: str) -> None:
    assert told(loaded(policy)) == ["duplicate-task"]


@pytest.mark.parametrize("word", ["before", "after", "finally"])
def test_a_jump_stays_within_its_list(word: str) -> None:
    jump = "spec: {policy: {rules: [{when: '{{ ctx.x is defined }}', then: {do: jump, to: %s}}]}}"
    found = loaded(f"{{{word}: [{{name: x, kind: noop, {jump % 'a'}}}]}}")
    assert "unknown-task" in told(found)
    assert "unknown-task" not in told(loaded(f"{{{word}: [{{name: x, kind: noop, {jump % 'x'}}}]}}"))


def test_a_compensation_writes_nothing() -> None:
    assert told(loaded("{compensation: {kind: noop, set: {ctx.x: 1}}}")) == ["set-target"]
    rule = "spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.x: 1}}}}]}}"
    assert told(loaded(f"{{compensation: {{kind: noop, {rule}}}}}")) == ["set-target"]


def test_a_compensation_has_no_name_of_its_own() -> None:
    assert told(loaded("{compensation: {name: undo, kind: noop}}")) == ["wrong-value"]


def test_a_compensation_sees_the_iteration_and_the_tasks_around_a_loop_do_not() -> None:
    loop = " loop: {in: [1], iterator: n},"
    assert told(loaded("{compensation: {kind: noop, input: {x: '{{ iter.n }}'}}}", loop=loop)) in ([], ["unused-input"])
    assert "iter-outside-loop" in told(loaded("{before: [{kind: noop, input: {x: '{{ iter.n }}'}}]}", loop=loop))
    assert told(loaded("{finally: [{kind: noop, set: {iter.x: 1}}]}", loop=loop)) == ["iter-outside-loop"]


def test_tasks_around_a_parallel_loop_may_write_ctx() -> None:
    loop = " loop: {in: [1], iterator: n, spec: {mode: parallel}},"
    assert told(loaded("{before: [{kind: noop, set: {ctx.x: 1}}]}", loop=loop)) == []


@pytest.mark.parametrize("word", ["before", "after", "finally", "compensation"])
def test_in_the_policy_of_a_task_these_words_are_reserved(word: str) -> None:
    assert told(loaded("{}", tool=f"{{kind: noop, spec: {{policy: {{rules: [], {word}: []}}}}}}")) == ["reserved"]


def test_an_unknown_key_of_a_task_in_a_list_is_reported() -> None:
    assert told(loaded("{finally: [{kind: noop, nosuch: 1}]}")) == ["unknown-key"]
    assert told(loaded("{compensation: {kind: nosuch}}")) == ["unknown-kind"]
    assert told(loaded("{before: []}")) == ["wrong-value"]


# --- the step that runs last -------------------------------------------------------------------------------------------


def test_the_step_that_runs_last_is_never_the_first() -> None:
    found = last("- {step: last, tool: {kind: noop}}\n- {step: a, tool: {kind: noop}}\n")
    assert found.net is not None
    assert (found.net.start, told(found)) == ("a", [])


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ("- {step: a, tool: {kind: noop}}\n", "unknown-step"),
        ("- {step: last, tool: {kind: noop}}\n", "wrong-value"),
        ("- {step: a, next: {arcs: [{step: last}]}}\n- {step: last, tool: {kind: noop}}\n", "wrong-value"),
        ("- {step: a, tool: {kind: noop}}\n- {step: last, next: {arcs: [{step: a}]}}\n", "wrong-value"),
        ("- {step: a, tool: {kind: noop}}\n- {step: last, spec: {policy: {admit: {fire: once}}}, tool: {kind: noop}}\n", "wrong-value"),
        ("- {step: a, tool: {kind: noop}}\n- {step: last, spec: {policy: {compensation: {kind: noop}}}, tool: {kind: noop}}\n", "wrong-value"),
    ],
    ids=["unknown", "the only step", "target of an arc", "next", "admit", "compensation"],
)  # fmt: skip
def test_what_cannot_run_last_is_rejected(steps: str, code: str) -> None:
    found = last(steps)
    assert found.net is None
    assert [one.code for one in found.diagnostics if one.severity.value == "error"] == [code]


@pytest.mark.parametrize("name", ["start", "end"])
def test_the_step_that_runs_last_is_named_neither_start_nor_end(name: str) -> None:
    text = (
        HEAD
        + LAST.replace("last", name)
        + f"- {{step: a, tool: {{kind: noop}}}}\n- {{step: {name}, tool: {{kind: noop}}}}\n"
    )
    assert "wrong-value" in told(load(text, ToolKinds()))


def test_event_is_in_sight_of_the_step_that_runs_last_and_of_no_other() -> None:
    seen = "tool: {kind: shell, cmd: 'echo {{ event.status }}'}"
    assert told(last(f"- {{step: a, tool: {{kind: noop}}}}\n- {{step: last, {seen}}}\n")) == []
    assert told(last(f"- {{step: a, {seen}}}\n- {{step: last, tool: {{kind: noop}}}}\n")) == ["unknown-scope"]
