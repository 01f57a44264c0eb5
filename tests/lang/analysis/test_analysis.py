"""The analysis of the net: each warning where it must be given, and where it must not."""

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Severity
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()
NOOP = "tool: {kind: noop}"
ERROR = "when: \"{{ event.status == 'error' }}\""
MAYBE = "when: '{{ workload.x }}'"


def step(name: str, *arcs: str, mode: str = "exclusive", more: str = "", tool: str = NOOP) -> str:
    router = f", next: {{spec: {{mode: {mode}}}, arcs: [{', '.join(arcs)}]}}" if arcs else ""
    return f"{{step: {name}, {tool}{f', {more}' if more else ''}{router}}}"


def warnings(*steps: str, root: str = "") -> list[tuple[str, str]]:
    text = HEAD + root + "workflow:\n" + "".join(f"  - {one}\n" for one in steps)
    found = load(text, KINDS).diagnostics
    assert all(one.severity is Severity.WARNING for one in found), found
    return [(one.code, one.message) for one in found]


def codes(*steps: str, root: str = "") -> list[str]:
    return [code for code, _ in warnings(*steps, root=root)]


def test_under_strict_a_warning_is_an_error() -> None:
    text = f"{HEAD}workflow:\n  - {step('a')}\n  - {step('b')}\n"
    loaded = load(text, KINDS, strict=True)
    assert [(one.code, one.severity) for one in loaded.diagnostics] == [("unreachable-step", Severity.ERROR)]
    assert not loaded.ok


# --- unreachable-step ------------------------------------------------------------------------------------------


def test_a_step_nothing_leads_to_is_told() -> None:
    assert warnings(step("a"), step("b")) == [("unreachable-step", "nothing leads to step `b`")]


def test_what_only_unreachable_steps_lead_to_is_unreachable() -> None:
    assert codes(step("a"), step("b", "{step: c}"), step("c")) == ["unreachable-step", "unreachable-step"]


def test_the_step_named_start_is_where_it_starts_wherever_it_stands() -> None:
    assert codes(step("a"), step("start", "{step: a}")) == []


def test_steps_made_at_run_time_may_lead_anywhere() -> None:
    plan = "next: {spec: {synthesize: {from: '{{ output.data }}'}}, arcs: []}"
    assert codes(f"{{step: a, {NOOP}, {plan}}}", step("b")) == []


# --- arc-shadowed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arcs", "shadowed"),
    [
        (["{step: b}", "{step: c}"], 1),
        (["{step: b, when: true}", "{step: c}"], 1),
        (["{step: b, when: '{{ true }}'}", f"{{step: c, {ERROR}}}"], 1),
        (["{step: b}", "{step: c}", "{step: c}"], 2),
        (["{step: b}", f"{{step: c, {ERROR}}}"], 0),
        (["{step: b}", "{step: c, when: \"{{ output.status == 'error' }}\"}"], 0),
        (["{step: b}", "{step: c, when: \"{{ fail('a') }}\"}"], 0),
        (["{step: b}", "{step: c, when: '{{ steps.a.status.error }}'}"], 0),
        ([f"{{step: b, {MAYBE}}}", "{step: c}"], 0),
        (["{step: b, when: false}", "{step: c}"], 0),
        ([f"{{step: b, {ERROR}}}", f"{{step: c, {ERROR}}}"], 0),
    ],
)
def test_an_exclusive_arc_behind_one_that_is_always_taken_is_told(arcs: list[str], shadowed: int) -> None:
    assert codes(step("a", *arcs), step("b"), step("c")) == ["arc-shadowed"] * shadowed


def test_the_warning_stands_at_the_arc_that_is_never_taken() -> None:
    text = f"{HEAD}workflow:\n  - step: a\n    next:\n      arcs:\n        - step: b\n        - step: c\n  - {step('b')}\n  - {step('c')}\n"
    (found,) = load(text, KINDS).diagnostics
    assert found.span is not None
    assert (found.span.line, found.message) == (9, "the arc above (line 8) is always taken before this one")


def test_an_inclusive_router_shadows_nothing() -> None:
    assert codes(step("a", "{step: b}", "{step: c}", mode="inclusive"), step("b"), step("c")) == []


# --- cycle-without-exit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("back", "endless"),
    [
        (["{step: a}"], True),
        (["{step: a, when: '{{ true }}'}"], True),
        ([f"{{step: a, {MAYBE}}}"], False),
        ([f"{{step: a, {ERROR}}}"], False),
        (["{step: a}", f"{{step: c, {ERROR}}}"], False),
        (["{step: a}", f"{{terminate: failed, {ERROR}}}"], False),
        ([f"{{step: c, {MAYBE}}}", "{step: a}"], False),
    ],
)
def test_a_circle_a_token_cannot_leave_is_told(back: list[str], endless: bool) -> None:
    found = warnings(step("a", "{step: b}"), step("b", *back), step("c"))
    circles = [message for code, message in found if code == "cycle-without-exit"]
    assert circles == (["a token that gets here goes round for ever: `a` → `b`"] if endless else [])


def test_a_step_that_leads_to_itself_is_a_circle() -> None:
    assert codes(step("a", "{step: a}")) == ["cycle-without-exit"]


@pytest.mark.parametrize(
    "admit", ["{fire: once}", "{rules: [{when: '{{ ctx.n < 3 }}', then: {allow: true}}]}"], ids=["once", "rules"]
)
def test_admission_may_end_a_circle(admit: str) -> None:
    gated = step("b", "{step: a}", more=f"spec: {{policy: {{admit: {admit}}}}}, set: {{ctx.n: 1}}")
    assert codes(step("a", "{step: b}"), gated) == []


def test_a_circle_nobody_reaches_is_only_unreachable() -> None:
    assert codes(step("x"), step("a", "{step: b}"), step("b", "{step: a}")) == ["unreachable-step", "unreachable-step"]


# --- dead-join -------------------------------------------------------------------------------------------------


def diamond(admit: str, *, mode: str = "exclusive", back: str = "") -> list[str]:
    """a leads to b or c, both lead to d, which waits as `admit` says."""
    found = warnings(
        step("a", f"{{step: b, {MAYBE}}}", "{step: c}", mode=mode),
        step("b", "{step: d}"),
        step("c", *([back] if back else []), "{step: d}"),
        step("d", more=admitting(admit)),
    )
    return [message for code, message in found if code == "dead-join"]


def rule(condition: str) -> str:
    return f'{{rules: [{{when: "{{{{ {condition} }}}}", then: {{allow: true}}}}]}}'


def admitting(admit: str) -> str:
    return f"spec: {{policy: {{admit: {admit}}}}}"


EXCLUDED = "step `d` waits for ever: `a` leads to `b` or to `c`, never to both"


@pytest.mark.parametrize(
    "admit",
    [
        rule("done('b') and done('c')"),
        rule("ok('b') and done('c') and workload.x"),
        rule("all_done(['b', 'c'])"),
        "{join: {from: [b, c]}}",
        "{join: {from: {b: 1, c: 2}, need: 2}}",
    ],
)
def test_a_join_of_steps_that_exclude_each_other_is_told(admit: str) -> None:
    assert diamond(admit) == [EXCLUDED]


@pytest.mark.parametrize(
    "admit",
    [
        rule("done('b') or done('c')"),
        rule("any_done(['b', 'c'])"),
        rule("not done('b') and done('c')"),
        rule("done('b') if workload.x else done('c')"),
        rule("done('b')"),
        rule("quiet()"),
        "{join: {from: [b, c], need: 1}}",
        "{rules: [{when: \"{{ done('b') and done('c') }}\", then: {allow: true}}, {when: '{{ quiet() }}', then: {allow: true}}]}",
        "{rules: [{when: \"{{ done('b') and done('c') }}\", then: {allow: false}}, {else: {then: {allow: true}}}]}",
    ],
)
def test_a_join_that_can_hold_is_not_told(admit: str) -> None:
    assert diamond(admit) == []


def test_an_else_that_allows_waits_for_nothing() -> None:
    assert (
        diamond(
            "{rules: [{when: \"{{ done('b') and done('c') }}\", then: {allow: true}}, {else: {then: {allow: true}}}]}"
        )
        == []
    )


def test_behind_an_inclusive_split_both_ways_are_taken() -> None:
    assert diamond(rule("done('b') and done('c')"), mode="inclusive") == []


def test_a_step_that_can_run_again_may_choose_otherwise() -> None:
    assert diamond(rule("done('b') and done('c')"), back=f"{{step: a, {MAYBE}}}") == []


def test_a_choice_behind_a_split_may_be_made_twice() -> None:
    found = codes(
        step("s", "{step: l}", "{step: r}", mode="inclusive"),
        step("l", "{step: a}"),
        step("r", "{step: a}"),
        step("a", f"{{step: b, {MAYBE}}}", "{step: c}"),
        step("b", "{step: d}"),
        step("c", "{step: d}"),
        step("d", more=admitting(rule("done('b') and done('c')"))),
    )
    assert "dead-join" not in found


def test_a_step_that_waits_for_what_runs_only_after_it_is_told() -> None:
    waiting = step("b", "{step: c}", more=admitting(rule("done('c')")))
    assert ("dead-join", "step `b` waits for ever: `c` runs only after it") in warnings(
        step("a", "{step: b}"), waiting, step("c")
    )


# --- unhandled-error -------------------------------------------------------------------------------------------


def policy(rules: str, *, more: str = "", kind: str = "kind: http, url: x") -> list[str]:
    return codes(f"{{step: a, tool: {{{kind}, spec: {{policy: {{rules: [{rules}]{more}}}}}}}}}")


@pytest.mark.parametrize(
    "rules",
    [
        "{when: \"{{ output.status == 'ok' }}\", then: {do: break}}",
        "{when: '{{ output.http.status == 429 }}', then: {do: retry}}",
        "{when: '{{ output.http.status >= 400 }}', then: {do: fail}}",
        "{when: '{{ output.error.retryable }}', then: {do: retry}}",
        "{when: \"{{ output.error.kind == 'timeout' }}\", then: {do: retry}}",
        "{when: '{{ _attempt < 3 }}', then: {do: retry}}",
        "",
    ],
)
def test_an_error_that_no_rule_may_match_is_told(rules: str) -> None:
    assert policy(rules) == ["unhandled-error"]


@pytest.mark.parametrize(
    "rules",
    [
        "{when: \"{{ output.status == 'error' }}\", then: {do: fail}}",
        "{when: \"{{ output.status != 'ok' }}\", then: {do: continue}}",
        "{when: '{{ output.error }}', then: {do: fail}}",
        "{when: '{{ output.http.status == 429 }}', then: {do: retry}}, {else: {then: {do: fail}}}",
        "{when: \"{{ output.status == 'ok' }}\", then: {do: break}}, {when: \"{{ output.status == 'error' }}\", then: {do: fail}}",
        "{when: true, then: {do: continue}}",
        "{when: '{{ output.error is not none }}', then: {do: skip}}",
    ],
)
def test_rules_that_cover_every_error_are_not_told(rules: str) -> None:
    assert policy(rules) == []


def test_errors_that_fail_when_unmatched_do_not_slip_through() -> None:
    assert policy("{when: '{{ output.data }}', then: {do: break}}", more=", on_unmatched: fail") == []


def test_a_noop_cannot_fail() -> None:
    assert policy("{when: '{{ output.data }}', then: {do: break}}", kind="kind: noop") == []


def test_tasks_of_the_workbook_are_looked_at_too() -> None:
    root = "workbook: {w: {kind: http, url: x, spec: {policy: {rules: []}}}}\n"
    assert codes("{step: a, tool: {kind: workbook, task: w}}", root=root) == ["unhandled-error"]


# --- never-set -------------------------------------------------------------------------------------------------


def test_a_key_of_ctx_that_nothing_writes_is_told_with_the_nearest_that_is_written() -> None:
    text = (
        f"{HEAD}workflow:\n  - {{step: a, set: {{ctx.total: 1}}, tool: {{kind: noop, output: '{{{{ ctx.totl }}}}'}}}}\n"
    )
    (found,) = load(text, KINDS).diagnostics
    assert (found.code, found.message, found.fix) == (
        "never-set",
        "nothing writes `ctx.totl`",
        "did you mean `ctx.total`?",
    )


@pytest.mark.parametrize(
    "writer",
    [
        step("b", more="set: {ctx.k.deep: 1}"),
        step("b", more="set: {ctx: {k: 1}}"),
        "{step: b, tool: {kind: noop, set: {ctx.k: 1}}}",
        "{step: b, tool: {kind: noop, spec: {policy: {rules: [{when: true, then: {set: {ctx.k: 1}}}]}}}}",
        step("b", "{terminate: completed, set: {ctx.k: 1}}"),
    ],
)
def test_a_key_that_is_written_anywhere_is_not_told(writer: str) -> None:
    assert codes(step("a", "{step: b}", tool="tool: {kind: noop, output: '{{ ctx.k }}'}"), writer) == []


def test_a_plan_made_at_run_time_may_write_anything() -> None:
    plan = "next: {spec: {synthesize: {from: '{{ output.data }}'}}}"
    assert codes(f"{{step: a, tool: {{kind: noop, output: '{{{{ ctx.k }}}}'}}, {plan}}}") == []


def test_reading_the_whole_of_ctx_is_no_read_of_a_key() -> None:
    assert codes("{step: a, tool: {kind: noop, output: '{{ ctx | tojson }}'}}") == []


# --- unused-input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "used"),
    [
        ("kind: noop, input: {x: 1}", False),
        ("kind: noop, input: {x: 1}, output: '{{ input.x }}'", True),
        ("kind: noop, input: {x: 1}, output: '{{ input }}'", True),
        ("kind: python, input: {x: 1}, code: 'def main(y=1): return y'", False),
        ("kind: python, input: {x: 1}, code: 'def main(x): return x'", True),
        ("kind: python, input: {x: 1}, code: 'def main(**rest): return rest'", True),
        ("kind: python, input: {x: 1}, code: 'result = x'", True),
        ("kind: python, input: {x: 1}, code: 'result = input_data'", True),
        ("kind: python, input: {x: 1}, module: m, callable: f", True),
        ("kind: shell, input: {x: 1}, cmd: ls", True),
        ("kind: playbook, input: {x: 1}, path: p", True),
        ("kind: postgres, auth: '{{ workload.db }}', input: {x: 1}, query: 'SELECT :x'", True),
        ("kind: http, input: {url: u}", True),
    ],
)
def test_an_input_of_a_task_that_nothing_reads_is_told(keys: str, used: bool) -> None:
    assert codes(f"{{step: a, tool: {{{keys}}}}}") == ([] if used else ["unused-input"])


@pytest.mark.parametrize(
    ("more", "used"),
    [
        ("tool: {kind: noop}", False),
        ("tool: {kind: noop, output: '{{ input.x }}'}", True),
        ("tool: {kind: shell, cmd: ls}", True),
        ("tool: {kind: noop}, set: {step.y: '{{ input.x }}'}", True),
        ("tool: {kind: noop}, output: '{{ input.x }}'", True),
        ("tool: {kind: noop}, next: {arcs: [{terminate: failed, when: '{{ input.x }}'}]}", True),
        ("tool: [{kind: noop}, {kind: noop, output: '{{ input.x }}'}]", True),
        ("tool: {kind: python, code: 'def main(y=1): return y', input: {y: '{{ input.x }}'}}", True),
    ],
)
def test_an_input_of_a_step_that_nothing_reads_is_told(more: str, used: bool) -> None:
    assert codes(f"{{step: a, input: {{x: 1}}, {more}}}") == ([] if used else ["unused-input"])


def test_an_input_of_a_tool_it_configures_that_is_no_key_of_it_is_an_error() -> None:
    text = f"{HEAD}workflow:\n  - {{step: a, tool: {{kind: http, input: {{url: x, mehtod: GET}}}}}}\n"
    (found,) = load(text, KINDS).diagnostics
    assert (found.code, found.severity, found.fix) == ("unknown-key", Severity.ERROR, "did you mean `method`?")


def test_an_input_that_a_condition_of_sugar_reads_is_used() -> None:
    sugar = "[{choose: [{when: '{{ input.x }}', then: [{kind: noop}]}]}]"
    assert codes(f"{{step: a, input: {{x: 1}}, tool: {sugar}}}") == []


# --- text spliced in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("kind: postgres, auth: '{{ workload.db }}', query: 'SELECT {{ workload.c | sql }}'", "sql-unbound"),
        ("kind: duckdb, command: 'SELECT {{ workload.c | sql }}'", "sql-unbound"),
        ("kind: transfer, source: {kind: postgres, auth: '{{ workload.db }}', query: '{{ workload.q | sql }}'}, targets: [{kind: file, path: x}]", "sql-unbound"),
        ("kind: shell, cmd: 'ls {{ workload.d | raw }}'", "shell-unquoted"),
        ("kind: shell, cmd: ['ls {{ workload.d | raw }}']", "shell-unquoted"),
    ],
)  # fmt: skip
def test_text_that_is_spliced_in_is_told(keys: str, code: str) -> None:
    assert codes(f"{{step: a, tool: {{{keys}}}}}") == [code]


@pytest.mark.parametrize(
    "keys",
    [
        "kind: postgres, auth: '{{ workload.db }}', query: 'SELECT {{ workload.c }}'",
        "kind: shell, cmd: 'ls {{ workload.d }}'",
    ],
)
def test_what_is_bound_or_quoted_is_not_told(keys: str) -> None:
    assert codes(f"{{step: a, tool: {{{keys}}}}}") == []
