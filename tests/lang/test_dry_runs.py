"""What would run, as far as it is known before anything has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.lang.dry_runs import dry_run
from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: planned}\nworkflow:\n"


def plan(steps: str, **workload: Any) -> dict[str, Any]:
    loaded = load(HEAD + steps, ToolKinds())
    assert loaded.net is not None, loaded.diagnostics
    return dry_run(loaded.net, workload, ToolKinds())


def task(steps: str, **workload: Any) -> dict[str, Any]:
    """The first task of the first step."""
    found: dict[str, Any] = plan(steps, **workload)["steps"][0]["tasks"][0]
    return found


def one(**keys: str) -> str:
    shown = ", ".join(f"{name}: {text}" for name, text in keys.items())
    return f"- {{step: a, tool: {{kind: http, {shown}}}}}\n"


def test_what_is_known_is_rendered_with_its_type() -> None:
    found = task(
        one(url='"{{ workload.u }}/x"', json='{n: "{{ workload.n + 1 }}", l: "{{ workload.l }}"}'), u="h", n=1, l=[1]
    )
    assert found["with"] == {"url": "h/x", "json": {"n": 2, "l": [1]}}


def test_what_is_not_known_says_where_it_will_come_from() -> None:
    steps = """
- {step: a, tool: {kind: http, url: x}, set: {ctx.id: "{{ output.data.id }}"}, next: {arcs: [{step: b, set: {ctx.by: arc}}]}}
- step: b
  input: {id: "{{ ctx.id }}", n: 1}
  tool:
    - {name: one, kind: http, url: "/{{ ctx.id }}/{{ input.n }}/{{ input.id }}"}
    - {name: two, kind: http, url: "{{ _prev.url }}", json: "{{ [ctx.by, ctx.id, steps.a.status.ok] }}", set: {step.x: 1}}
    - {name: three, kind: http, url: "{{ step.x }}{{ now() }}{{ execution_id }}"}
"""
    second = plan(steps)["steps"][1]
    assert second["input"] == {"id": "‹from step a: ctx.id›", "n": 1}
    one, two, three = second["tasks"]
    assert one["with"]["url"] == "/‹from step a: ctx.id›/1/‹at run time: input.id›"
    assert two["with"] == {
        "url": "‹from task one: _prev.url›",
        "json": "‹from step a: [ctx.by, ctx.id, steps.a.status.ok]›",
    }
    assert three["with"]["url"] == "‹from task two: step.x›‹at run time: now()›‹at run time: execution_id›"


def test_secrets_are_masked_wherever_they_stand() -> None:
    found = task(
        one(
            url="x",
            auth="api",
            headers='{A: "Bearer {{ keychain.api.token }}", B: "{{ keychain.api.token ~ workload.n }}"}',
        )
        + "keychain: [{name: api, kind: bearer}]\n",
        n=1,
    )
    assert found["with"]["headers"] == {
        "A": "Bearer ‹secret: keychain.api.token›",
        "B": "‹secret: keychain.api.token›",
    }
    assert found["auth"] == "api"


def test_an_error_in_what_is_known_is_told_in_its_place() -> None:
    assert "‹error: " in task(one(url='"{{ workload.nothing.at.all }}"'))["with"]["url"]


def test_loops_have_a_count_where_the_list_is_known_and_show_their_first_iteration() -> None:
    steps = """
- step: a
  loop: {in: "{{ workload.rows }}", iterator: row, loop: {in: "{{ iter.row }}", iterator: n}}
  tool: {kind: http, url: "{{ iter.parent.index }}/{{ iter.n }}/{{ iter.index }}"}
  set: {ctx.list: "{{ output.data }}"}
  next: {arcs: [{step: b}]}
- {step: b, loop: {in: "{{ ctx.list }}", iterator: x}, tool: {kind: http, url: "{{ iter.x }}/{{ iter.index }}"}}
"""
    first, second = plan(steps, rows=[[5, 6], [7]])["steps"]
    assert (first["loop"]["count"], first["loop"]["loop"]["count"]) == (2, 2)
    assert first["tasks"][0]["with"]["url"] == "0/5/0"
    assert (second["loop"]["count"], second["loop"]["in"]) == (None, "‹from step a: ctx.list›")
    assert second["tasks"][0]["with"]["url"] == "‹at run time: iter.x›/0"


def test_code_is_told_by_its_length_and_a_command_as_the_shell_gets_it() -> None:
    steps = """
- step: a
  tool:
    - {name: py, kind: python, input: {n: "{{ workload.n }}"}, code: "def main(n):\\n    return n\\n"}
    - {name: sh, kind: shell, cmd: "echo {{ workload.n }}"}
"""
    py, sh = plan(steps, n="a b; rm")["steps"][0]["tasks"]
    assert (py["with"], py["input"]) == ({"code": "‹2 lines›"}, {"n": "a b; rm"})
    assert sh["with"]["cmd"] == "echo 'a b; rm'"


def test_arcs_are_judged_as_far_as_they_can_be() -> None:
    steps = """
- step: a
  tool: {kind: http, url: x}
  next:
    arcs:
      - {step: never, when: "{{ workload.n > 9 }}"}
      - {step: failed, when: "{{ event.name == 'step.failed' }}"}
      - {step: perhaps, when: "{{ output.data.more }}"}
      - {step: otherwise, when: "{{ output.status == 'ok' }}"}
      - {step: closed}
- {step: never, tool: {kind: noop}}
- {step: failed, tool: {kind: noop}, next: {arcs: [{terminate: failed}]}}
- {step: perhaps, tool: {kind: noop}, next: {arcs: [{step: otherwise}]}}
- {step: otherwise, tool: {kind: noop}}
- {step: closed, tool: {kind: noop}}
"""
    told = plan(steps, n=1)
    arcs = {arc["to"]: arc for arc in told["steps"][0]["next"]}
    assert {name: arc["taken"] for name, arc in arcs.items()} == {
        "never": "no",
        "failed": "on failure",
        "perhaps": "perhaps",
        "otherwise": "perhaps",
        "closed": "no",
    }
    assert arcs["perhaps"]["depends"] == "‹from step a: output.data.more›"
    assert {step["name"]: step["runs"] for step in told["steps"]} == {
        "a": "yes",
        "failed": "on failure",
        "perhaps": "perhaps",
        "otherwise": "perhaps",
    }
    assert told["not_run"] == ["never", "closed"]


def test_every_arc_of_an_inclusive_step_may_be_taken() -> None:
    steps = """
- {step: a, next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c, when: "{{ workload.n }}"}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: d, spec: {policy: {admit: {join: {from: [b, c]}}}}, tool: {kind: noop}}
"""
    told = plan(steps, n=True)
    assert [(step["name"], step["runs"]) for step in told["steps"]] == [(name, "yes") for name in "abcd"]
    assert told["steps"][3]["joins"] == ["b", "c"]


def test_who_is_not_let_in_does_not_run_and_who_may_be_perhaps_runs() -> None:
    steps = """
- {step: a, next: {spec: {mode: inclusive}, arcs: [{step: shut}, {step: open}, {step: perhaps}]}}
- {step: shut, spec: {policy: {admit: {rules: [{when: "{{ workload.on }}", then: {allow: true}}]}}}, tool: {kind: noop}, next: {arcs: [{step: behind}]}}
- {step: behind, tool: {kind: noop}}
- {step: open, spec: {policy: {admit: {rules: [{when: "{{ workload.on }}", then: {allow: false}}, {else: {then: {allow: true}}}]}}}, tool: {kind: noop}}
- {step: perhaps, spec: {policy: {admit: {rules: [{when: "{{ ctx.n }}", then: {allow: true}}]}}}, tool: {kind: noop}}
"""
    told = plan(steps, on=False)
    assert {step["name"]: step["runs"] for step in told["steps"]} == {"a": "yes", "open": "yes", "perhaps": "perhaps"}
    assert told["not_run"] == ["shut", "behind"]


def test_arcs_beside_a_plan_are_taken_only_if_the_plan_is_empty() -> None:
    steps = """
- step: a
  tool: {kind: python, code: "def main(): return []"}
  next: {spec: {synthesize: {from: "{{ output.data }}"}}, arcs: [{step: b}]}
- {step: b, tool: {kind: noop}}
"""
    first, second = plan(steps)["steps"]
    assert first["plans"] == "‹from step a: output.data›"
    assert (first["next"][0]["taken"], second["runs"]) == ("perhaps", "perhaps")


def test_a_circle_is_told_once() -> None:
    steps = '- {step: a, tool: {kind: noop}, next: {arcs: [{step: a, when: "{{ ctx.n | default(0) < 3 }}"}, {step: end}]}}\n- {step: end}\n'
    assert [(step["name"], step["runs"]) for step in plan(steps)["steps"]] == [("a", "yes"), ("end", "perhaps")]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda one: one.stem)
def test_every_example_has_a_plan_that_names_all_of_its_steps(path: Path) -> None:
    loaded = load(path.read_text(encoding="utf-8"), ToolKinds())
    assert loaded.net is not None
    told = dry_run(loaded.net, loaded.net.playbook.workload, ToolKinds())
    assert sorted([*(step["name"] for step in told["steps"]), *told["not_run"]]) == sorted(loaded.net.steps)
    assert "‹error" not in str(told)


def test_what_a_task_is_to_yield_is_told() -> None:
    found = task('- {step: a, tool: {kind: noop, output: {n: "{{ workload.n }}"}}}\n', n=3)
    assert found["output"] == {"n": 3}
    found = task('- {step: a, tool: {kind: http, url: x, output: "{{ output.data.n }}"}}\n')
    assert found["output"] == "‹from task a: output.data.n›"


def test_values_in_sql_are_shown_as_the_literals_that_they_are() -> None:
    query = "SELECT {{ workload.who }} AS a, '{{ workload.n }}' AS b FROM {{ workload.t }}"
    found = task(f'- {{step: a, tool: {{kind: duckdb, query: "{query}"}}}}\n', who="O'Hara", n=3, t="orders")
    assert found["with"]["query"] == "SELECT 'O''Hara' AS a, '3' AS b FROM \"orders\""
