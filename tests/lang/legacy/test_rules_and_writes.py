"""Rules and writes: `set_prev` that somebody else sees, targets without a scope, lists of writes."""

import pytest
from migrating import HEAD, KINDS, errors, migrated

from noetl.lang.legacy import migrate
from noetl.lang.loader import load

PREV = """\
workflow:
  - step: a
    tool:
      - name: x
        kind: noop
        spec: {policy: {rules: [%s]}}
      - {name: y, kind: noop, output: "%s"}
"""
ASKED = "say in the task's `output` what the next task is to see"


@pytest.mark.parametrize(
    "rules",
    [
        "{else: {then: {set_prev: 3}}}",
        "{when: \"{{ output.status == 'ok' }}\", then: {do: continue, set_prev: 3}}",
        "{when: \"{{ outcome.status == 'success' }}\", then: {set_prev: 3}}",
        "{when: \"{{ output.status == 'error' }}\", then: {do: retry}}, {else: {then: {set_prev: 3}}}",
    ],
)
def test_a_set_prev_that_holds_whenever_the_task_ends_well_is_its_output(rules: str) -> None:
    text, todo = migrated(PREV % (rules, "{{ _prev }}"))
    assert "set_prev" not in text
    assert "output: 3" in text
    assert todo == []


@pytest.mark.parametrize(
    "rules",
    [
        '{when: "{{ output.data.more }}", then: {set_prev: 3}}',
        '{when: "{{ output.data.more }}", then: {do: break}}, {else: {then: {set_prev: 3}}}',
        '{else: {then: {set_prev: 3, set: {ctx.n: "{{ output.data.n }}"}}}}',
        "{else: {then: {do: break, set_prev: 3}}}",
    ],
)
def test_a_set_prev_that_others_would_notice_is_left_and_told_once(rules: str) -> None:
    body = PREV % (rules, "{{ _prev }}")
    text, todo = migrated(body)
    result = migrate(HEAD + body, KINDS)
    assert result is not None
    assert (todo, [one.code for one in result.diagnostics]) == ([ASKED], ["legacy-todo"])
    assert "set_prev: 3" in text
    assert errors(body) == errors(body, legacy=True) == ["legacy-set-prev"]


def test_targets_without_a_scope_get_one_wherever_they_stand() -> None:
    text, _ = migrated(
        """\
        workflow:
          - step: a
            loop: {in: [1], iterator: x}
            tool: {kind: noop, spec: {policy: {rules: [{else: {then: {set: {page: 1}}}}]}}}
            next: {arcs: [{step: b, set: {seen: 1}}]}
          - {step: b, tool: {kind: noop, output: "{{ seen }}"}}
        """
    )
    assert "set: {iter.page: 1}" in text
    assert "set: {ctx.seen: 1}" in text
    assert "{{ ctx.seen }}" in text


@pytest.mark.parametrize("listed", ["[{name: k, value: 1}, {name: j, value: 2}]", "[{ctx.k: 1}, {j: 2}]"])
def test_a_list_of_writes_is_one_map_of_them(listed: str) -> None:
    text, _ = migrated(f"workflow:\n  - step: a\n    tool: {{kind: noop}}\n    set: {listed}\n")
    assert "ctx.k: 1" in text
    assert "ctx.j: 2" in text


def test_two_values_for_one_target_are_left_to_a_person() -> None:
    text, todo = migrated(
        "workflow:\n  - step: a\n    tool: {kind: noop}\n    set: {ctx.k: 1}\n    set_ctx: {k: 2, j: 3}\n"
    )
    assert todo == ["`set_ctx` said `ctx.k: 2`: decide which holds"]
    assert "ctx.k: 1" in text
    assert "ctx.j: 3" in text


def test_the_rules_of_a_workbook_task_are_lowered_too() -> None:
    text, todo = migrated(
        """\
        workbook:
          w:
            kind: http
            url: u
            eval: [{expr: "{{ outcome.status == 'error' }}", do: retry}]
            sink: {kind: file, path: out.json}
        workflow:
          - {step: a, tool: {kind: workbook, task: w}}
        """
    )
    assert "when: \"{{ output.status == 'error' }}\"" in text
    assert "kind: transfer" in text
    assert (todo, load(HEAD + text, KINDS).ok) == ([], True)


def test_what_a_workbook_task_published_is_left_to_its_caller() -> None:
    _, todo = migrated(
        "workbook: {w: {kind: noop, result: {as: r}}}\nworkflow:\n  - {step: a, tool: {kind: workbook, task: w}}\n"
    )
    assert todo == ["a workbook task publishes nothing: write this with `set` in the step that calls it"]


def test_what_a_workbook_task_writes_into_ctx_is_left_to_its_caller() -> None:
    text, todo = migrated(
        "workbook:\n  w: {kind: noop, set_ctx: {b: 1}}\n  v: {kind: noop, set_iter: {b: 1}}\n"
        "workflow:\n  - {step: a, tool: {kind: workbook, task: w}}\n"
    )
    assert "v: {kind: noop, set: {step.b: 1}}" in text
    assert todo == ["a workbook task does not write `ctx`: write this with `set` in the step that calls it"]
    assert text.index("# TODO noetl: ") < text.index("w: {kind: noop, set: {ctx.b: 1}}")


@pytest.mark.parametrize(("said", "kinds"), [("timeout", "['timeout']"), ("[connection]", "['http-transport']")])
def test_a_cause_to_retry_is_a_kind_of_error_alone_or_in_a_list(said: str, kinds: str) -> None:
    text, todo = migrated(f"workflow: [{{step: a, tool: {{kind: http, url: u, retry: {{retry_on: {said}}}}}}}]\n")
    assert f"output.error.kind in {kinds}" in text
    assert todo == []


def test_a_list_under_then_whose_keys_repeat_stays_a_list() -> None:
    rules = "{else: {then: [{do: retry}, {do: break}]}}"
    text, _ = migrated(PREV % (rules, "{{ output.data }}"))
    assert "then: [{do: retry}, {do: break}]" in text
    once = "{else: {then: [{do: retry}, {attempts: 3}]}}"
    text, _ = migrated(PREV % (once, "{{ output.data }}"))
    assert "then: {do: retry, attempts: 3}" in text


@pytest.mark.parametrize(
    "rule", ["{else: null, do: break}", "{else: {}, do: break}", "{else: null, then: {do: break}}"]
)
def test_what_stands_beside_else_belongs_below_it(rule: str) -> None:
    text, _ = migrated(PREV % (rule, "{{ output.data }}"))
    assert "else: {then: {do: break}}" in text
