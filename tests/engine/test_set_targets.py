"""Targets of `set` lead through maps: what else stands in the way stays, and the `set` writes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, net_of


def run(steps: str) -> House:
    made = House(net_of(HEAD + steps))
    made.run()
    return made


def test_a_task_an_iteration_a_rule_a_step_and_an_arc_write_nothing_through_a_text() -> None:
    steps = {
        "task": "- {step: a, tool: [{name: x, kind: noop, set: {ctx.t: ann}}, {name: y, kind: noop, set: {ctx.u: 1, ctx.t.b: 1}}]}",
        "iteration": "- {step: a, loop: {in: [1], iterator: n}, tool: [{name: x, kind: noop, set: {iter.t: ann}}, {name: y, kind: noop, set: {ctx.u: 1, iter.t.b: 1}}]}",
        "rule": "- {step: a, tool: {kind: noop, set: {ctx.t: ann}, spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.u: 1, ctx.t.b: 1}}}}]}}}}",
        "step": "- {step: a, tool: {kind: noop, set: {ctx.t: ann}}, set: {ctx.u: 1, ctx.t.b: 1}}",
        "arc": "- {step: a, tool: {kind: noop, set: {ctx.t: ann}}, next: {arcs: [{step: b, set: {ctx.u: 1, ctx.t.b: 1}}]}}\n- {step: b, tool: {kind: noop}}",
    }
    for where, text in steps.items():
        made = run(text + "\n")
        assert made.state.status == "failed", where
        assert made.state.error is not None, where
        assert (made.state.error["kind"], made.state.error["step"]) == ("type", "a"), where
        assert "u" not in made.state.ctx, where
        assert made.state.ctx.get("t", "ann") == "ann", where


@pytest.mark.parametrize(
    ("value", "said"), [("[1]", "a list"), ("3", "a number"), ("true", "a boolean"), ("x", "text")]
)
def test_the_error_names_what_stands_in_the_way(value: str, said: str) -> None:
    made = run(
        f"- {{step: a, tool: {{kind: noop}}, set: {{ctx.t: {value}}}, next: {{arcs: [{{step: b}}]}}}}\n- {{step: b, tool: {{kind: noop}}, set: {{ctx.t.b.c: 1}}}}\n"
    )
    assert made.state.error is not None
    assert f"`ctx.t.b.c` cannot be set: `ctx.t` is {said}, not a map" in made.state.error["message"]


@pytest.mark.parametrize(("value", "expected"), [("null", {"b": 1}), ("{a: 0}", {"a": 0, "b": 1})])
def test_null_counts_as_not_there_and_what_is_beside_a_target_stays(value: str, expected: Any) -> None:
    made = run(
        f"- {{step: a, tool: {{kind: noop}}, set: {{ctx.t: {value}}}, next: {{arcs: [{{step: b}}]}}}}\n- {{step: b, tool: {{kind: noop}}, set: {{ctx.t.b: 1}}}}\n"
    )
    assert made.state.ctx == {"t": expected}


def test_a_reference_is_no_map_to_write_into() -> None:
    made = run("""
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.x_ref: "{{ output.ref }}"}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: noop}, set: {ctx.x_ref.meta.rows: 9}}
""")
    assert made.state.error is not None
    assert "`ctx.x_ref` is a reference, not a map" in made.state.error["message"]


def test_a_reducer_does_not_replace_a_text_by_a_map() -> None:
    made = run("""
- {step: a, tool: {kind: noop}, set: {ctx.t: ann}, next: {arcs: [{step: each}]}}
- step: each
  loop: {in: [], iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.t.sum: sum}}}}
  tool: {kind: noop, set: {ctx.t.sum: 1}}
""")
    assert made.state.ctx == {"t": "ann"}
    assert made.state.error is not None
    assert made.state.error["kind"] == "type"
