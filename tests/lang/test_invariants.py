"""What must hold between the keys of one map."""

import pytest

from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
KINDS = ToolKinds()


def errors(step: str, *more: str) -> list[tuple[str, int, str]]:
    text = HEAD + "".join(f"  - {one}\n" for one in (step, *more))
    found = load(text, KINDS).diagnostics
    return [(one.code, one.span.column, one.message) for one in found if one.span and one.severity == "error"]


def rules(text: str) -> str:
    return f"{{step: a, tool: {{kind: noop, spec: {{policy: {{rules: {text}}}}}}}}}"


def admit(text: str) -> str:
    return f"{{step: a, spec: {{policy: {{admit: {{rules: {text}}}}}}}, tool: {{kind: noop}}}}"


def loop(text: str) -> str:
    return f"{{step: a, loop: {{in: [1], iterator: x, {text}}}, tool: {{kind: noop}}}}"


def test_a_step_does_something_or_leads_somewhere() -> None:
    assert errors("{step: a}") == [("empty-step", 12, "step `a` does nothing and leads nowhere")]
    assert errors("{step: a, desc: x, set: {ctx.a: 1}}")[0][0] == "empty-step"
    assert errors("{step: a, tool: {kind: noop}}") == []
    assert errors("{step: a, next: {arcs: [{step: end}]}}", "{step: end}") == []


def test_the_end_needs_neither() -> None:
    assert errors("{step: end}") == []


@pytest.mark.parametrize(
    ("arc", "told"),
    [
        ("{when: true}", ("missing-key", "an arc needs `step` (where it leads)")),
        ("{}", ("missing-key", "an arc needs `step` (where it leads)")),
        ("{step: a, terminate: failed}", ("wrong-value", "an arc leads to a `step` or has `terminate`, not both")),
        ("{terminate: maybe}", ("wrong-value", "`terminate` is `maybe`, which is not one of: completed, failed")),
    ],
)
def test_an_arc_leads_to_a_step_or_ends_the_execution(arc: str, told: tuple[str, str]) -> None:
    found = errors(f"{{step: a, next: {{arcs: [{arc}]}}}}")
    assert [(code, message) for code, _, message in found] == [told]


@pytest.mark.parametrize("router", ["{}", "{spec: {mode: inclusive}}"])
def test_a_router_has_arcs(router: str) -> None:
    assert [code for code, _, _ in errors(f"{{step: a, next: {router}}}")] == ["missing-key"]


def test_a_router_that_synthesizes_needs_no_arcs() -> None:
    assert errors('{step: a, tool: {kind: noop}, next: {spec: {synthesize: {from: "{{ output.data }}"}}}}') == []


@pytest.mark.parametrize("of", [rules, admit])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{then: THEN}]", ("missing-key", "a rule needs `when` (or `else`)")),
        ("[{when: true}]", ("missing-key", "a rule needs `then` (what follows from it)")),
        ("[{else: {then: THEN}}, {when: true, then: THEN}]",
         ("else-not-last", "`else` closes the list; what stands below is never read")),
        ("[{else: {then: THEN}}, {else: {then: THEN}}]",
         ("else-not-last", "`else` closes the list; what stands below is never read")),
    ],
)  # fmt: skip
def test_rules_have_when_and_then_and_close_with_else(of, text: str, told: tuple[str, str]) -> None:  # type: ignore[no-untyped-def]
    then = "{do: fail}" if of is rules else "{allow: true}"
    assert [(code, message) for code, _, message in errors(of(text.replace("THEN", then)))] == [told]


def test_when_and_else_in_one_admission_rule_are_two_rules() -> None:
    found = errors(admit("[{when: true, then: {allow: true}, else: {then: {allow: false}}}]"))
    assert [(code, message) for code, _, message in found] == [("wrong-value", "a rule has `when` or `else`, not both")]


@pytest.mark.parametrize(
    "spec", ["spec: {mode: parallel, until: true}", "spec: {policy: {mode: parallel}, until: true}"]
)
def test_until_needs_one_iteration_after_the_other(spec: str) -> None:
    assert [code for code, _, _ in errors(loop(spec))] == ["until-in-parallel"]


def test_until_in_a_parallel_loop_within_a_loop_is_told() -> None:
    assert [
        code for code, _, _ in errors(loop("loop: {in: [2], iterator: y, spec: {mode: parallel, until: true}}"))
    ] == ["until-in-parallel"]


@pytest.mark.parametrize("spec", ["spec: {until: true}", "spec: {mode: parallel, complete_when: true}"])
def test_a_sequential_loop_takes_until_and_any_loop_complete_when(spec: str) -> None:
    assert errors(loop(spec)) == []


def test_reducers_are_for_parallel_loops() -> None:
    assert [(code, message) for code, _, message in errors(loop("spec: {policy: {reduce: {ctx.a: sum}}}"))] == [
        ("wrong-value", "`reduce` is for parallel loops; in a sequential loop write `ctx` with `set`")
    ]
    assert errors(loop("spec: {mode: parallel, policy: {reduce: {ctx.a: sum}}}")) == []
    assert errors(loop("spec: {policy: {mode: parallel, reduce: {ctx.a: sum}}}")) == []


@pytest.mark.parametrize("reducer", ["sum", "min", "max", "count", "append", "union", "merge", "first", "last"])
def test_every_reducer_of_the_language_is_known(reducer: str) -> None:
    assert errors(loop(f"spec: {{mode: parallel, policy: {{reduce: {{ctx.a: {reducer}}}}}}}")) == []


def test_a_reducer_is_a_known_word_for_a_key_of_ctx() -> None:
    found = errors(loop("spec: {mode: parallel, policy: {reduce: {iter.b: sum, ctx.c: avg}}}"))
    assert [message.split(",")[0] for _, _, message in found] == ["a reducer is for `ctx.*`", "`ctx.c` is `avg`"]


def test_every_loop_of_a_nest_is_checked() -> None:
    inner = "loop: {in: [2], loop: {in: [3], iterator: z, spec: {policy: {reduce: {ctx.a: sum}}}}}"
    assert [code for code, _, _ in errors(loop(inner))] == ["missing-key", "wrong-value"]


@pytest.mark.parametrize(
    "executor",
    [
        "[]",
        "x",
        "{spec: []}",
        "{spec: x}",
        "{spec: {policy: []}}",
        "{spec: {policy: {limits: x, finally: [], results: 1}}}",
    ],
)
def test_an_executor_of_any_shape_is_answered(executor: str) -> None:
    text = HEAD.replace("workflow:", f"executor: {executor}\nworkflow:") + "  - {step: end}\n"
    assert "wrong-type" in [one.code for one in load(text, KINDS).diagnostics]
