"""Mocks: what tasks yield instead of running, and who is told what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from suite_folder import Bench, said

Make = Callable[[str], Bench]
GET = '\n- {step: get, tool: {kind: http, url: "{{ workload.url }}"}, set: {ctx.out: "{{ output.http }}"}}\n'
RETRY = """
- step: get
  tool:
    kind: http
    url: "{{ workload.url }}"
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 2}}]}}
"""
EACH = """
- step: each
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel}}
  tool: {kind: shell, cmd: "echo {{ iter.n }}"}
"""
NESTED = """
- step: each
  loop: {in: [[1, 2], [3]], iterator: row, loop: {in: "{{ iter.row }}", iterator: n}}
  tool: {kind: shell, cmd: "echo {{ iter.n }}"}
"""
VISITS = """
- step: pages
  tool:
    - {name: fetch, kind: http, url: x, set: {step.n: "{{ step.n | default(0) + 1 }}"}}
    - name: more
      kind: noop
      output: "{{ _prev }}"
      spec: {policy: {rules: [{when: "{{ step.n < 3 }}", then: {do: jump, to: fetch}}]}}
"""


def test_a_fixed_answer_looks_like_one_of_the_tool(bench: Make) -> None:
    result = bench(GET).one("""
  mocks: {get: {data: {a: 1}, http: {headers: {X-Total: 3}}}}
  expect: {output: {a: 1}, ctx: {out: {status: 200, headers: {x-total: 3}}}}
""")
    assert said(result) == []


def test_a_status_of_400_or_more_is_the_error_that_the_tool_would_make_of_it(bench: Make) -> None:
    result = bench(GET).one("""
  mocks: {get: {http: {status: 503}, data: busy}}
  expect:
    error: {kind: http-status, status: 503, retryable: true, body: busy, message: "GET http://x: 503 Service Unavailable"}
    ctx: {out: {status: 503}}
""")
    assert said(result) == []


@pytest.mark.parametrize(
    ("steps", "mock", "error"),
    [
        (GET, "{error: no route}", "{kind: http-transport, message: no route, retryable: true}"),
        (GET, "{error: {kind: timeout}}", "{kind: timeout, retryable: true}"),
        (GET, "{error: {kind: odd, message: m, more: 1}}", "{kind: odd, message: m, more: 1, retryable: false}"),
        ("\n- {step: get, tool: {kind: python, code: 'def main(): return 1'}}", "{error: x}", "{kind: python}"),
        ("\n- {step: get, tool: {kind: postgres, auth: db, query: 'SELECT 1'}}", "{error: x}", "{kind: sql}"),
        ("\n- {step: get, tool: {kind: wait, signal: go}}", "{error: x}", "{kind: timeout}"),
        ("\n- {step: get, tool: {kind: playbook, path: other}}", "{error: x}", "{kind: playbook}"),
    ],
)
def test_an_error_that_says_little_is_of_the_kind_of_its_tool(bench: Make, steps: str, mock: str, error: str) -> None:
    if "auth" in steps:
        steps = f"{steps}\nkeychain: [{{name: db, kind: postgres_credential}}]\n"
    assert said(bench(steps).one(f"  mocks: {{get: {mock}}}\n  expect: {{error: {error}}}")) == []


def test_answers_by_attempt(bench: Make) -> None:
    result = bench(RETRY).one("""
  mocks: {get: {attempts: [{error: a}, {http: {status: 500}}, {data: fine}]}}
  expect: {output: fine, seconds: 4, calls: {get: [{attempt: 1}, {attempt: 2}, {attempt: 3, url: "http://x"}]}}
""")
    assert said(result) == []


def test_answers_by_visit_and_by_call(bench: Make) -> None:
    for word in ("visits: ", ""):
        listed = "[{data: 1}, {data: 2}, {data: 3}]"
        mock = f"{{{word}{listed}}}" if word else listed
        assert (
            said(bench(VISITS).one(f"  mocks: {{fetch: {mock}}}\n  expect: {{output: 3, calls: {{fetch: 3}}}}")) == []
        )


def test_answers_by_iteration_whatever_comes_first(bench: Make) -> None:
    result = bench(EACH).one("""
  mocks: {each: {iterations: [{data: a, delay: 9}, {data: b, delay: 5}, {data: c}]}}
  expect: {output: [a, b, c], seconds: 9}
""")
    assert said(result) == []


def test_answers_by_iteration_of_nested_loops(bench: Make) -> None:
    result = bench(NESTED).one("""
  mocks: {each: {iterations: [{iterations: [{data: a}, {data: b}]}, {data: c}]}}
  expect: {output: [[a, b], [c]]}
""")
    assert said(result) == []


def test_templates_see_what_the_task_sees_and_its_rendered_keys(bench: Make) -> None:
    result = bench(EACH).one("""
  mocks: {each: {data: "{{ iter.n * 10 }} {{ call.cmd }} {{ _attempt }} {{ workload.url }}"}}
  expect: {output: [10 echo '1' 1 http://x, 20 echo '2' 1 http://x, 30 echo '3' 1 http://x]}
""")
    assert said(result) == []


def test_the_first_branch_that_matches(bench: Make) -> None:
    result = bench(EACH).one("""
  mocks:
    each:
      choose:
        - {when: "{{ iter.n == 2 }}", then: {error: two}}
        - else: {data: fine}
  expect: {status: failed, error: {message: two}}
""")
    assert said(result) == []


@pytest.mark.parametrize(
    ("steps", "mock", "message"),
    [
        (RETRY, "{attempts: [{error: a}]}", "its `attempts` has 1 item, and this is attempt 2"),
        (EACH, "[{data: 1}, {data: 2}]", "its `calls` has 2 items, and this is call 3"),
        (GET, "{iterations: [{data: 1}]}", "`iterations` is for tasks inside of a loop"),
        (GET, '{choose: [{when: "{{ false }}", then: {data: 1}}]}', "no branch of this `choose` matches"),
        (GET, '{data: "{{ input.nothing }}"}', "`nothing` is missing in `input`"),
        (GET, '{data: 1, delay: "{{ workload.url }}"}', "should be a number of seconds"),
    ],
)
def test_a_mock_without_an_answer_ends_the_case_and_says_where(
    bench: Make, steps: str, mock: str, message: str
) -> None:
    name = "each" if steps is EACH else "get"
    result = bench(steps).one(f"  mocks: {{{name}: {mock}}}")
    assert result.status == "error"
    assert message in said(result)[0]
    assert result.failures[0].at is not None
    assert result.failures[0].at.line == 3


def test_a_task_without_a_mock_is_not_run(bench: Make) -> None:
    made = bench("\n- {step: touch, tool: {kind: shell, cmd: touch made.txt}}")
    result = made.one("  expect: {}")
    assert result.status == "error"
    assert said(result) == ["`touch.touch` (kind shell) has no mock, and would run for real"]
    assert not (made.folder / "made.txt").exists()


@pytest.mark.parametrize("allowed", ["shell", "touch", "touch.touch"])
def test_a_task_that_is_allowed_to_runs_for_real(bench: Make, allowed: str) -> None:
    made = bench("\n- {step: touch, tool: {kind: shell, cmd: touch made.txt; sleep 0.05}}")
    result = made.one(f"  real: [{allowed}]\n  expect: {{output: {{exit_code: 0}}, calls: {{touch: 1}}}}")
    assert said(result) == []
    assert (made.folder / "made.txt").exists()


SHAPE = """
- step: start
  tool:
  - {name: shape, kind: python, code: "def main():\\n    return 'made'"}
"""


@pytest.mark.parametrize("mocked", ["shape", "start.shape"])
@pytest.mark.parametrize("allowed", ["shape", "start.shape", "python"])
def test_what_a_case_lets_run_for_real_goes_before_the_mocks_of_its_file(
    bench: Make, mocked: str, allowed: str
) -> None:
    cases = f"tests:\n- {{name: own, real: [{allowed}], expect: {{output: made}}}}\n- {{name: all, expect: {{output: mocked}}}}"
    ran = bench(SHAPE).run(f"mocks: {{{mocked}: {{data: mocked}}}}\n{cases}")
    assert [said(result) for result in ran.results] == [[], []]


@pytest.mark.parametrize("mocked", ["shape", "start.shape"])
@pytest.mark.parametrize("allowed", ["shape", "start.shape", "python"])
def test_a_mock_of_a_case_goes_before_what_its_file_says(bench: Make, mocked: str, allowed: str) -> None:
    case = f"tests:\n- {{name: it, mocks: {{{mocked}: {{data: own}}}}, expect: {{output: own}}}}"
    for common in (f"real: [{allowed}]", "mocks: {start.shape: {data: other}}"):
        ran = bench(SHAPE).run(f"{common}\n{case}")
        assert [said(result) for result in ran.results] == [[]]


def test_a_task_of_the_workbook_runs_for_real_where_the_case_names_its_call(bench: Make) -> None:
    made = bench("\n- {step: start, tool: {kind: workbook, task: clean}}\n")
    text = (made.folder / "tried.yaml").read_text()
    made.put("tried.yaml", text + "workbook:\n  clean: {kind: python, code: \"def main():\\n    return 'made'\"}\n")
    cases = "tests:\n- {name: it, real: [start.clean], expect: {output: made}}"
    ran = made.run(f"mocks: {{clean: {{data: mocked}}}}\n{cases}")
    assert [said(result) for result in ran.results] == [[]]


def test_a_real_task_that_takes_its_time_does_not_run_into_a_timeout_that_is_far_away(bench: Make) -> None:
    steps = """
- step: slow
  spec: {policy: {lifecycle: {timeout_s: 30}}}
  tool: {kind: shell, cmd: sleep 0.1, spec: {timeout: 20}}
"""
    assert said(bench(steps).one("  real: [shell]")) == []


def test_timeouts_of_tasks_steps_and_the_run_need_no_time(bench: Make) -> None:
    steps = """
- step: a
  spec: {policy: {lifecycle: {timeout_s: 50}}}
  tool: {kind: shell, cmd: x, spec: {timeout: 10}}
  next: {arcs: [{step: b, when: "{{ event.error.kind == 'timeout' }}"}]}
- step: b
  spec: {policy: {lifecycle: {timeout_s: 50}}}
  tool: {kind: shell, cmd: x}
  next: {arcs: [{step: c, when: "{{ event.error.kind == 'timeout' }}"}]}
- step: c
  spec: {policy: {lifecycle: {deadline_s: 100}}}
  tool: {kind: wait, seconds: 900}
"""
    result = bench(steps).one("""
  mocks: {a: {data: 1, delay: 11}, b: {data: 1, delay: 51}}
  expect: {error: {kind: timeout, step: c}, route: [a, b, c], seconds: 100}
""")
    assert said(result) == []


def test_a_child_is_run_with_its_own_mocks_or_mocked_as_a_whole(bench: Make) -> None:
    made = bench("\n- {step: call, tool: {kind: playbook, path: other, input: {n: 4}}}")
    child = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: other, path: some/other}\nworkflow:\n"
    made.put("other.yaml", child + '- {step: call, tool: {kind: shell, cmd: "echo {{ workload.n }}"}}\n')
    assert said(made.one('  mocks: {"some/other:call.call": {data: 5}}\n  expect: {output: 5}')) == []
    assert (
        said(made.one('  mocks: {"other:call": {data: 6}}\n  expect: {output: 6, calls: {"some/other:call": 1}}')) == []
    )
    assert said(made.one("  mocks: {call: {data: 7}}\n  expect: {output: 7}")) == []
    assert "has no mock" in said(made.one("  expect: {}"))[0]


def test_tasks_of_the_workbook_go_by_their_own_names(bench: Make) -> None:
    made = bench("""
- {step: use, tool: [{name: call, kind: workbook, task: greet, input: {name: Ada}}]}
workbook: {greet: {kind: shell, cmd: "echo {{ input.name }}"}}
""")
    calls = "{greet: [{cmd: \"echo 'Ada'\", input: {name: Ada}}]}"
    assert said(made.one(f"  mocks: {{greet: {{data: hi}}}}\n  expect: {{output: hi, calls: {calls}}}")) == []
    assert said(made.one("  mocks: {use.call: {data: ho}}\n  expect: {output: ho}")) == []


def test_what_is_mocked_needs_no_credentials(bench: Make) -> None:
    steps = """
- {step: get, tool: {kind: http, url: x, auth: api}}
keychain: [{name: api, kind: bearer, from: {env: NOBODY_HAS_THIS}}]
"""
    assert said(bench(steps).one("  mocks: {get: {data: 1}}\n  expect: {output: 1}")) == []


def test_a_case_with_real_tasks_asks_for_the_credentials_of_those_alone(bench: Make) -> None:
    steps = """
- {step: get, tool: {kind: http, url: x, auth: api, headers: {A: "{{ keychain.api.token }}"}}, next: {arcs: [{step: move}]}}
- step: move
  tool: {kind: transfer, source: {kind: http, url: x, auth: api}, targets: [{kind: file, path: x.json, auth: api}]}
  next: {arcs: [{step: own}]}
- {step: own, tool: {kind: python, input: {x: %s}, code: "def main(x): return x"}}
keychain: [{name: api, kind: bearer, from: {env: NOBODY_HAS_THIS}}]
"""
    case = "  real: [python]\n  mocks: {get: {data: 1}, move: {data: 2}}\n  expect: {output: 3}"
    assert said(bench(steps % 3).one(case)) == []
    (message,) = said(bench(steps % '"{{ keychain.api.token }}"').one(case.replace("output: 3", "status: completed")))
    assert "NOBODY_HAS_THIS is not set" in message


def test_where_a_secret_is_read_its_name_stands_instead(bench: Make) -> None:
    steps = """
- step: get
  tool:
    kind: http
    url: "x/{{ workload.items[0] }}?key={{ keychain.api.token }}"
    headers: {A: "{{ keychain.api.token | b64encode }}", B: "{{ workload.url }}"}
keychain: [{name: api, kind: bearer, from: {env: NOBODY_HAS_THIS}}]
"""
    assert said(bench(steps).one("""
  mocks: {get: {data: 1}}
  expect:
    calls:
      get: [{url: "x/1?key=‹secret: keychain.api.token›", headers: {A: "‹secret: keychain.api.token›", B: "http://x"}}]
""")) == []  # fmt: skip


def test_a_secret_that_a_real_task_gets_is_not_told(bench: Make) -> None:
    steps = """
- {step: get, tool: {kind: python, input: {t: "{{ keychain.api.token }}"}, code: "def main(t): return len(t)"}}
keychain: [{name: api, kind: bearer, from: {file: token.txt}}]
"""
    tried = bench(steps)
    tried.put("token.txt", "sekrettoken1234567")
    told = said(tried.one("  real: [python]\n  expect: {calls: {get: [{input: {t: other}}]}}"))
    assert told == ['`calls.get[0].input.t` is "[redacted]", not "other"']


def test_a_large_answer_goes_through_the_result_store(bench: Make) -> None:
    steps = '\n- {step: get, tool: {kind: http, url: x}, set: {ctx.n: "{{ output.data.rows | length }}"}}\n'
    result = bench(steps).one("""
  mocks: {get: {data: {rows: "{{ range(30000) | list }}"}}}
  expect: {ctx: {n: 30000}, output: {rows: "{{ it | length == 30000 }}"}}
""")
    assert said(result) == []
