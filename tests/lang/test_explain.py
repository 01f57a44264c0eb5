"""The net as plain data."""

from typing import Any

import pytest

from noetl.lang.explanation import PASSES, explain_playbook, explain_step, reachable
from noetl.lang.loader import load
from noetl.model.net import Net
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: y/x}\n"


def net(body: str) -> Net:
    loaded = load(HEAD + body, ToolKinds())
    assert loaded.net is not None, loaded.diagnostics
    return loaded.net


def only_step(body: str, name: str = "start") -> dict[str, Any]:
    found = net(body)
    return explain_step(found, found.steps[name])


def test_the_steps_come_in_the_order_of_the_document_and_the_order_is_that_of_the_tokens() -> None:
    told = explain_playbook(
        net("""
workflow:
  - {step: last, tool: {kind: noop}}
  - {step: lost, tool: {kind: noop}}
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: a}]}}
  - {step: a, tool: {kind: noop}, next: {arcs: [{step: last}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: last}]}}
""")
    )
    assert told["start"] == "start"
    assert told["order"] == ["start", "b", "a", "last"]
    assert told["unreachable"] == ["lost"]
    assert [step["name"] for step in told["steps"]] == ["last", "lost", "start", "a", "b"]
    assert [one["step"] for one in told["steps"][0]["from"]] == ["a", "b"]
    assert list(told["passes"]) == list(PASSES)


def test_a_circle_does_not_go_on_for_ever() -> None:
    found = net("workflow: [{step: start, tool: {kind: noop}, next: {arcs: [{step: start, when: '{{ false }}'}]}}]")
    assert reachable(found) == ["start"]


def test_every_value_of_a_spec_has_its_origin() -> None:
    step = only_step("""
executor: {spec: {timeout: 30, result: {ttl: 24h}}}
workflow:
  - step: start
    spec: {retries: 2}
    loop: {in: [1], iterator: n, spec: {network: "off"}}
    tool: {kind: http, url: "https://x.example/{{ iter.n }}", spec: {timeout: "{{ workload.t }}"}}
""")
    assert step["tasks"][0]["spec"] == {
        "timeout": {"value": "{{ workload.t }}", "origin": "task.spec"},
        "result.ttl": {"value": "24h", "origin": "executor.spec"},
        "retries": {"value": 2, "origin": "step.spec"},
        "network": {"value": "off", "origin": "loop.spec"},
    }
    assert step["spec"]["timeout"] == {"value": 30, "origin": "executor.spec"}


def test_templates_stand_as_they_were_written() -> None:
    step = only_step("""
workflow:
  - step: start
    input: {page: "{{ workload.page }}", rest: [1, "{{ workload.rest }}"]}
    tool: {kind: http, url: "{{ input.rest }}", params: {page: "{{ input.page }}"}, output: "{{ output.data.x }}"}
    output: {a: "{{ output.data }}"}
    set: {ctx.total: "{{ output.data }}", ctx: {flag: false}}
""")
    assert step["input"] == {"page": "{{ workload.page }}", "rest": [1, "{{ workload.rest }}"]}
    assert step["tasks"][0]["config"] == {"url": "{{ input.rest }}", "params": {"page": "{{ input.page }}"}}
    assert step["tasks"][0]["output"] == "{{ output.data.x }}"
    assert step["output"] == {"a": "{{ output.data }}"}
    assert step["set"] == {"ctx.total": "{{ output.data }}", "ctx.flag": False}


def test_rules_arcs_admission_and_loops_are_told_in_full() -> None:
    found = net("""
workflow:
  - step: start
    loop: {in: [[1]], iterator: a, spec: {mode: parallel, max_in_flight: 3}, loop: {in: "{{ iter.a }}", iterator: b}}
    spec: {policy: {lifecycle: {timeout_s: 5}, failure: {mode: best_effort}}}
    tool:
      kind: noop
      spec:
        policy:
          rules:
            - {when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 2, delay: 0}}
            - else: {then: {do: fail, message: no, set: {step.x: 1}}}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: both, when: "{{ event.name == 'loop.done' }}", set: {ctx.a: 1}, cancel: [other]}
        - {terminate: failed, when: "{{ event.name == 'step.failed' }}"}
        - step: other
  - {step: other, tool: {kind: noop}, next: {arcs: [{step: both}]}}
  - step: both
    spec:
      policy:
        admit:
          fire: once
          join: {from: {start: 2, other: 1}, need: 1, rest: cancel}
          rules: [{when: "{{ ok('other') }}", then: {allow: true}}, {else: {then: {allow: false}}}]
    tool: {kind: noop}
""")
    start, both = explain_step(found, found.steps["start"]), explain_step(found, found.steps["both"])
    assert start["loop"] == {
        "in": [[1]],
        "iterator": "a",
        "mode": "parallel",
        "max_in_flight": 3,
        "loop": {"in": "{{ iter.a }}", "iterator": "b", "mode": "sequential"},
    }
    assert (start["timeout_s"], start["failure_mode"]) == (5, "best_effort")
    retry, otherwise = start["tasks"][0]["policy"]["rules"]
    assert retry["when"] == "{{ output.status == 'error' }}"
    assert (retry["then"]["do"], retry["then"]["attempts"], retry["then"]["delay"]) == ("retry", 2, 0)
    assert otherwise == {"else": True, "then": {"do": "fail", "message": "no", "set": {"step.x": 1}}}
    first, second, third = start["next"]["arcs"]
    assert (first["set"], first["cancel"]) == ({"ctx.a": 1}, ["other"])
    assert (second["terminate"], third["step"]) == ("failed", "other")
    assert both["admission"] == {
        "rules": [{"when": "{{ ok('other') }}", "allow": True}, {"else": True, "allow": False}],
        "fire": "once",
        "join": {"from": {"start": 2, "other": 1}, "need": 1, "rest": "cancel"},
    }


def test_tasks_made_by_sugar_carry_its_labels_from_the_outside_in() -> None:
    tasks = only_step("""
workflow:
  - step: start
    tool:
      - {name: first, kind: noop}
      - name: pages
        while:
          when: "{{ step.more | default(true) }}"
          do:
            - {name: fetch, kind: noop, set: {step.more: false}}
            - choose: [{when: "{{ step.more }}", then: [{name: keep, kind: noop}]}]
      - until: {when: "{{ true }}", do: [{name: check, kind: noop}]}
      - {name: last, kind: noop}
""")["tasks"]
    made_by = {task["name"]: task.get("made_by", []) for task in tasks}
    assert made_by["first"] == made_by["last"] == []
    assert made_by["fetch"] == ["while pages"]
    assert made_by["keep"] == ["while pages", "choose pages_choose_2"]
    assert made_by["check"] == ["until until_3"]
    assert all(labels for name, labels in made_by.items() if name not in ("first", "last"))


@pytest.mark.parametrize("value", [0, False, ""])
def test_what_says_little_is_told_all_the_same(value: object) -> None:
    step = only_step(f"workflow: [{{step: start, tool: {{kind: noop, output: {value!r}}}}}]".replace("False", "false"))
    assert step["tasks"][0]["output"] == value
