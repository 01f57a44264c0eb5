"""Expectations: what is not as expected is told where it was expected."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from suite_folder import Bench, said

Make = Callable[[str], Bench]
STEPS = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- step: a
  tool: {name: get, kind: http, url: "{{ workload.url }}/{{ workload.items | length }}", json: {k: [1, {x: y}]}}
  set: {ctx.a: "{{ output.data }}"}
  next: {arcs: [{step: both, when: "{{ ctx.a.n > 1 }}"}, {terminate: failed, when: "{{ ctx.a.n == 0 }}"}]}
- {step: b, tool: {kind: wait, seconds: 5}, next: {arcs: [{step: both}]}}
- {step: both, spec: {policy: {admit: {rules: [{when: "{{ ok('a') and ok('b') }}", then: {allow: true}}]}}}, tool: {kind: noop, output: {n: "{{ ctx.a.n }}", text: hello}}}
"""
MOCK = "  mocks: {get: {data: {n: 2, list: [1, 2], deep: {x: {y: z}}}}}\n"


@pytest.mark.parametrize(
    "expected",
    [
        "{status: completed}",
        "{output: {n: 2}}",
        "{output: {n: 2.0, text: \"{{ 'ell' in it }}\"}}",
        '{output: {n: "{{ it > 1 and it < 3 }}", nothing: "{{ it is undefined }}"}}',
        '{output: {n: "{{ workload.items | length - 1 }}", text: "hel{{ \'lo\' }}"}}',
        "{ctx: {a: {deep: {x: {y: z}}, list: [1, 2]}}}",
        '{ctx: {a: "{{ it.n == 2 and it.list[1] == 2 }}"}}',
        "{error: null}",
        '{error: "{{ it is none }}"}',
        "{route: [start, a, b, both]}",
        "{route: [start, [b, a], both]}",
        "{arcs: {start: [a, b], a: both, both: []}}",
        "{steps: {a: done, both: {status: done, runs: 1}}}",
        '{calls: {get: 1, a.get: 1, b: 1, both: "{{ it == 1 }}"}}',
        '{calls: {get: [{url: "http://x/3", json: {k: [1, {x: "{{ it == \'y\' }}"}]}, method: "{{ it is undefined }}"}]}}',
        "{events: [{name: workflow.started}, {name: task.done, entity_id: a.get, payload: {output: {status: ok}}}]}",
        "{no_events: [{name: step.failed}]}",
        "{stalled: [], seconds: 5}",
        "{unmatched: []}",
        '{seconds: "{{ 4 < it < 6 }}"}',
    ],
)
def test_what_is_as_expected_passes(bench: Make, expected: str) -> None:
    result = bench(STEPS).one(f"{MOCK}  expect: {expected}")
    assert said(result) == []
    assert result.status == "passed"


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("{status: failed}", "the run completed, and should have failed"),
        ("{error: {kind: x}}", "the run completed, and should have failed"),
        ("{status: completed, error: {kind: x}}", "there is no error"),
        ("{error: \"{{ it.kind == 'x' }}\"}", "`error` is null"),
        ("{output: {n: 3}}", "`output.n` is 2, not 3"),
        ('{output: {n: "2"}}', '`output.n` is 2, not "2"'),
        ("{output: {n: true}}", "`output.n` is 2, not true"),
        ("{output: {more: null}}", "`output.more` is not there"),
        ("{output: [1]}", '`output` is {"n":2,"text":"hello"}, not a list'),
        ("{output: {text: {a: 1}}}", '`output.text` is "hello", not a map'),
        ("{ctx: {a: {list: [1]}}}", "`ctx.a.list` has 2 items, not 1: [1,2]"),
        ("{ctx: {a: {list: [1, 3]}}}", "`ctx.a.list[1]` is 2, not 3"),
        ('{output: {n: "{{ it > 2 }}"}}', "`output.n` is 2: {{ it > 2 }} does not hold"),
        ('{output: {n: "{{ it.x.y + 1 > 2 }}"}}', "`output.n` is 2"),
        ("{route: [start, a, both]}", "expected both, and there came b: start → a → b → both"),
        ("{route: [start, [a, b]]}", "the route goes on with both: start → a → b → both"),
        ("{route: [start, a, b, both, both]}", "expected both, and there came nothing more"),
        ("{arcs: {a: []}}", "the tokens of `a` went to both, not to nothing"),
        ("{arcs: {both: a}}", "the tokens of `both` went nowhere, not to a"),
        ("{steps: {a: failed}}", '`steps.a` is "done", not "failed"'),
        ("{steps: {a: {runs: 2}}}", "`steps.a.runs` is 1, not 2"),
        ("{calls: {get: 2}}", "`get` was called once, not as expected: 2"),
        ("{calls: {get: [{url: x}]}}", '`calls.get[0].url` is "http://x/3", not "x"'),
        ("{calls: {get: []}}", "`calls.get` has 1 item, not 0"),
        ("{events: [{name: step.failed}]}", "no such event after the start; there is no `step.failed` at all"),
        (
            "{events: [{name: step.done, entity_id: c}]}",
            "no such event after the start; of the nearest `event.entity_id`",
        ),
        ("{events: [{name: workflow.finished}, {name: workflow.started}]}", "no such event after"),
        ("{no_events: [{name: step.done, entity_id: a}]}", "there is such an event:"),
        ("{stalled: [a]}", "`stalled` has no item, not 1"),
        ("{unmatched: [a]}", "`unmatched` has no item, not 1"),
        ("{seconds: 4}", "`seconds` is 5.0, not 4"),
    ],
)
def test_what_is_not_as_expected_is_told(bench: Make, expected: str, message: str) -> None:
    result = bench(STEPS).one(f"{MOCK}  expect: {expected}")
    assert result.status == "failed"
    assert len(result.failures) == 1
    assert message in said(result)[0]
    assert result.failures[0].at is not None
    assert result.failures[0].at.line == 4


def test_everything_that_is_wrong_is_told_at_once_each_at_its_place(bench: Make) -> None:
    result = bench(STEPS).one(f"""{MOCK}
  expect:
    output:
      n: 7
      text: bye
    ctx:
      a: {{n: 7}}
""")
    assert [(one.at.line, one.at.column) for one in result.failures if one.at] == [(7, 10), (8, 13), (10, 14)]
    assert [(one.expected, one.got) for one in result.failures] == [(7, 2), ("bye", "hello"), (7, 2)]


def test_a_case_that_says_nothing_expects_the_run_to_complete(bench: Make) -> None:
    result = bench(STEPS).one("  mocks: {get: {error: {message: no route}}}")
    assert said(result) == ["the run failed, and should have completed: http-transport: no route"]


def test_a_case_may_expect_a_failure_and_its_end(bench: Make) -> None:
    assert said(bench(STEPS).one("""
  mocks: {get: {data: {n: 0}}}
  expect: {status: failed, arcs: {a: failed}, steps: {both: never ran, b: cancelled}, error: {kind: fail}}
""")) == []  # fmt: skip


def test_what_stalls_can_be_expected(bench: Make) -> None:
    assert said(bench(STEPS).one("""
  mocks: {get: {data: {n: 1}}}
  expect: {route: [start, a, b, both], output: {n: 1}}
""")) == []  # fmt: skip
