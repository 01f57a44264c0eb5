"""Corners of the language that random nets seldom come to: each is one line of it, held to."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, net_of

from noetl.engine.loops import reduce_values
from noetl.model.events import Event, Fact
from noetl.model.output import Output, failed, failure
from noetl.model.requests import Due, Pause, Resume, Signal
from noetl.model.state import Execution

GATE = "spec: {policy: {admit: {rules: [{when: \"{{ done('a') and done('b') }}\", then: {allow: true}}]}}}"


def run(steps: str, **settings: Any) -> House:
    """A run that is over."""
    made = House(net_of(HEAD + steps), **settings)
    made.run()
    assert made.state.over, list(made.state.runs)
    return made


def started(steps: str, **settings: Any) -> House:
    made = House(net_of(HEAD + steps), **settings)
    made.start()
    return made


def named(made: House, name: str) -> list[Event]:
    return [event for event in made.events() if event.name == name]


def runs_of(state: Execution, step: str) -> int:
    return state.steps[step].runs


def breaks(call: Any) -> Output:
    return failed(failure("shell", "no"))


# --- joins and gates ---------------------------------------------------------------------------------------------------


def test_a_gate_over_two_routers_that_end_at_once_fires_once() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}}}
- {{step: a, next: {{arcs: [{{step: both}}]}}}}
- {{step: b, next: {{arcs: [{{step: both}}]}}}}
- {{step: both, {GATE}, tool: {{kind: noop}}}}
""")
    assert runs_of(made.state, "both") == 1


def test_a_gate_over_two_steps_that_ended_during_a_pause_fires_once() -> None:
    made = started(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}}}
- {{step: a, tool: {{kind: shell, cmd: x}}, next: {{arcs: [{{step: both}}]}}}}
- {{step: b, tool: {{kind: shell, cmd: x}}, next: {{arcs: [{{step: both}}]}}}}
- {{step: both, {GATE}, tool: {{kind: noop}}}}
""")
    made.happen(Pause())
    while made.tick():
        pass
    assert not made.state.over
    made.happen(Resume())
    while made.tick():
        pass
    assert made.state.over
    assert runs_of(made.state, "both") == 1


def test_what_is_parked_waits_for_the_arcs_of_what_ended_during_a_pause() -> None:
    made = started("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: gate}, {step: a}]}}
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: gate, set: {ctx.x: 1}}]}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ done('a') }}", then: {allow: true}}]}}}, tool: {kind: noop, output: "{{ ctx.x }}"}}
""")
    made.happen(Pause())
    while made.tick():
        pass
    made.happen(Resume())
    while made.tick():
        pass
    assert (runs_of(made.state, "gate"), made.state.output) == (1, 1)


def test_two_tokens_of_one_delivery_meet_at_a_step_that_waits_for_quiet() -> None:
    made = run("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: merge}, {step: merge, when: true}]}}
- {step: merge, spec: {policy: {admit: {rules: [{when: "{{ quiet() }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    assert runs_of(made.state, "merge") == 1


def test_a_join_that_fires_once_does_so_however_many_tokens_it_holds() -> None:
    made = run("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: a}, {step: open}]}}
- {step: a, next: {arcs: [{step: j}]}}
- {step: open, tool: {kind: shell, cmd: x}, set: {ctx.open: true}}
- {step: j, spec: {policy: {admit: {fire: once, join: {from: [a]}, rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    assert runs_of(made.state, "j") == 1
    assert made.state.stalled == []


@pytest.mark.parametrize("number", ["{{ 0 }}", "{{ -1 }}", "{{ 'two' }}"])
def test_a_join_that_asks_for_no_token_fails_and_says_so(number: str) -> None:
    made = run(f"""
- {{step: start, next: {{arcs: [{{step: j}}]}}}}
- {{step: j, spec: {{policy: {{admit: {{join: {{from: {{start: "{number}"}}}}}}}}}}, tool: {{kind: noop}}}}
""")
    assert made.state.error is not None
    assert (made.state.status, made.state.error["kind"], made.state.error["step"]) == ("failed", "type", "j")


def test_an_error_in_the_admission_of_the_first_step_fails_the_execution() -> None:
    made = run("""
- {step: start, spec: {policy: {admit: {rules: [{when: "{{ 1 / 0 == 1 }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    assert made.state.error is not None
    assert (made.state.status, made.state.error["step"]) == ("failed", "start")


def test_a_parked_token_keeps_the_event_that_brought_it() -> None:
    made = run("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: slow}]}}
- {step: each, loop: {in: [1], iterator: n}, tool: {kind: noop}, next: {arcs: [{step: gate}]}}
- {step: slow, tool: {kind: wait, seconds: 1}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ event.name == 'loop.done' and done('slow') }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    assert made.state.stalled == []
    made = run("""
- {step: start, spec: {policy: {admit: {rules: [{when: "{{ event.name == 'workflow.started' and ctx.x }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    assert made.state.stalled == ["start"]
    assert named(made, "step.parked")[0].payload["saw"][0]["saw"]["event.name"] == "workflow.started"


# --- loops -----------------------------------------------------------------------------------------------------------


def test_a_loop_that_has_done_enough_cancels_the_children_of_its_iterations() -> None:
    made = House(
        net_of(
            HEAD
            + """
- step: race
  loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, complete_when: "{{ loop.completed >= 1 }}"}}
  tool:
    - {name: first, kind: noop, spec: {policy: {rules: [{when: "{{ iter.n == 0 }}", then: {do: break}}]}}}
    - {name: child, kind: playbook, path: other}
"""
        )
    )
    made.children_end = False
    made.run()
    assert made.state.status == "completed"
    assert sorted(made.stopped) == sorted(
        e.payload["wait"]["child"]["execution_id"] for e in named(made, "task.started") if "wait" in e.payload
    )
    assert len(made.stopped) <= 2


def test_a_signal_is_not_lost_to_an_inner_iteration_that_was_cancelled() -> None:
    made = started("""
- step: each
  loop:
    in: [0, 1]
    iterator: n
    loop: {in: [0, 1], iterator: m, spec: {mode: parallel, complete_when: "{{ loop.completed >= 1 }}"}}
  tool:
    - {name: skip, kind: noop, spec: {policy: {rules: [{when: "{{ iter.m == 0 and iter.parent.n == 0 }}", then: {do: break}}]}}}
    - {name: hear, kind: wait, signal: go}
""")
    while made.tick():
        pass
    waiting = made.state.listeners["go"]
    assert all(path[0] == 1 for _, path in waiting), "somebody who was cancelled still listens"
    made.happen(Signal("go", 1))
    while made.tick():
        pass
    assert made.state.status == "completed"


def test_a_loop_over_nothing_to_do_heeds_until_and_complete_when() -> None:
    made = run("""
- step: until
  tool: {kind: noop}
  loop: {in: [1, 2, 3], iterator: n, spec: {until: "{{ iter.n == 2 }}"}}
  set: {ctx.until: "{{ output.loop.completed }}"}
  next: {arcs: [{step: enough}]}
- step: enough
  tool: {kind: noop}
  loop: {in: [1, 2, 3], iterator: n, spec: {complete_when: "{{ loop.completed == 1 }}"}}
  set: {ctx.enough: "{{ output.loop.completed }}"}
  next: {arcs: [{step: end}]}
- {step: end}
""")
    assert made.state.ctx == {"until": 2, "enough": 1}


def test_until_is_asked_after_an_iteration_that_failed() -> None:
    made = run(
        """
- step: each
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [1, 2, 3], iterator: n, spec: {until: "{{ output.status == 'error' and iter.n == 2 }}"}}
  tool: {kind: shell, cmd: x}
  set: {ctx.loop: "{{ output.loop }}"}
""",
        tool=breaks,
    )
    assert made.state.ctx["loop"] == {"total": 3, "completed": 2, "succeeded": 0, "failed": 2}


def test_complete_when_and_until_may_ask_about_steps() -> None:
    made = run("""
- {step: start, tool: {kind: noop}, next: {arcs: [{step: one}]}}
- step: one
  loop: {in: [1, 2, 3], iterator: n, spec: {complete_when: "{{ steps.start.status.done }}"}}
  tool: {kind: shell, cmd: x}
  set: {ctx.one: "{{ output.loop.completed }}"}
  next: {arcs: [{step: two}]}
- step: two
  loop: {in: [1, 2, 3], iterator: n, spec: {until: "{{ steps.start.status.done }}"}}
  tool: {kind: shell, cmd: x}
  set: {ctx.two: "{{ output.loop.completed }}"}
""")
    assert made.state.ctx == {"one": 1, "two": 1}


def test_a_loop_whose_list_is_being_stored_is_not_done_a_second_time_by_a_pause() -> None:
    made = started("""
- step: each
  spec: {result: {inline_max_bytes: 10}}
  loop: {in: [1, 2], iterator: n}
  tool: {kind: shell, cmd: x}
""")
    while not named(made, "loop.done"):
        made.tick()
    made.happen(Pause())
    made.happen(Resume())
    assert len(named(made, "loop.done")) == 1


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["", "loop: {in: [1], iterator: n}, "])
def test_an_input_of_a_step_that_is_no_map_fails_the_step_and_says_so(loop: str) -> None:
    made = run("- {step: a, " + loop + 'input: "{{ workload.items }}", tool: {kind: shell, cmd: x}}')
    assert made.state.error is not None
    assert made.state.error["kind"] == "type"
    assert "list" in made.state.error["message"]


def test_the_step_that_terminates_the_execution_may_be_its_output() -> None:
    made = run("- {step: a, tool: {kind: noop, output: 7}, next: {arcs: [{terminate: completed}]}}")
    assert made.state.output == 7


# --- signals ---------------------------------------------------------------------------------------------------------


def test_a_signal_that_comes_just_after_the_timeout_is_kept_for_the_next_wait() -> None:
    made = started("""
- {step: a, tool: {kind: wait, signal: go, timeout: 5}, next: {arcs: [{step: b, when: "{{ event.name == 'step.failed' }}"}]}}
- {step: b, tool: {kind: wait, signal: go}, set: {ctx.b: "{{ output.data }}"}}
""")
    while made.pipes:
        made.tick()
    made.now += 10
    made.happen(Due())
    assert made.pipes, "the wait is over, and nobody has reported it yet"
    made.happen(Signal("go", "late"))
    while made.tick():
        pass
    assert made.state.ctx == {"b": "late"}
    assert made.state.over


def test_a_signal_that_comes_just_after_the_timeout_goes_to_who_waits_next() -> None:
    made = started("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: wait, signal: go, timeout: 5}, next: {arcs: [{step: end, when: true}]}}
- {step: b, tool: {kind: wait, signal: go}, set: {ctx.b: "{{ output.data }}"}}
- {step: end}
""")
    while made.pipes:
        made.step(next(iter(made.pipes)))  # the one that gives up has asked first
    made.now += 10
    made.happen(Due())
    made.happen(Signal("go", "late"))
    while made.tick():
        pass
    assert made.state.ctx == {"b": "late"}
    assert made.state.status == "completed"
    made.check()


# --- reports -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_step_is_not_believed_while_a_task_of_it_is_open() -> None:
    made = started("- {step: a, tool: {kind: wait, signal: go}}")
    while made.pipes:
        made.tick()
    before = len(made.log)
    made.happen(Fact("step.done", "a-1", {"output": {"status": "ok", "data": 1, "ref": None, "error": None}}))
    assert len(made.log) == before


# --- what templates see ----------------------------------------------------------------------------------------------


def test_the_message_of_a_rule_may_ask_about_steps() -> None:
    made = run("""
- {step: start, tool: {kind: noop}, next: {arcs: [{step: a}]}}
- step: a
  tool: {kind: shell, cmd: x, spec: {policy: {rules: [{else: {then: {do: fail, message: "start is {{ steps.start.status.done }}"}}}]}}}
""")
    assert made.state.error is not None
    assert made.state.error["message"] == "start is true"


def test_a_time_limit_may_come_from_the_input_and_must_be_a_number() -> None:
    steps = '- {step: a, input: {s: "{{ workload.limit }}"}, spec: {policy: {lifecycle: {timeout_s: "{{ input.s }}"}}}, tool: {kind: wait, seconds: 100}}'
    made = run(steps, payload={"limit": 5})
    assert made.state.error is not None
    assert (made.state.error["kind"], made.now) == ("timeout", 1_000_005.0)
    made = run(steps, payload={"limit": "soon"})
    assert made.state.error is not None
    assert made.state.error["kind"] == "type"


# --- children --------------------------------------------------------------------------------------------------------


def test_a_child_that_does_not_end_in_time_is_cancelled_and_its_task_fails() -> None:
    made = House(net_of(HEAD + "- {step: a, tool: {kind: playbook, path: other, spec: {timeout: 5}}}"))
    made.children_end = False
    made.run()
    assert made.state.error is not None
    assert (made.state.status, made.state.error["kind"], made.now) == ("failed", "timeout", 1_000_005.0)
    assert made.stopped == ["id-1"]


# --- opening ---------------------------------------------------------------------------------------------------------


def test_a_payload_that_breaks_the_schema_is_refused_before_anything_runs() -> None:
    text = HEAD.replace("{name: test}", "{name: test, schema: {properties: {items: {type: array}}}}")
    made = House(net_of(text + "- {step: a, tool: {kind: shell, cmd: x}}"), payload={"items": "none"})
    made.run()
    assert [event.name for event in made.events()] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "playbook.processed",
    ]
    assert made.state.error is not None
    assert (made.state.error["kind"], made.state.status) == ("payload-schema", "failed")
    assert "workload.items" in made.state.error["message"]


# --- reducers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "values", "expected"),
    [
        ("union", [[1, 2], 2, [True, {"a": 1}], {"a": 1}], [1, 2, True, {"a": 1}]),
        ("append", [[1], [2]], [[1], [2]]),
        ("merge", [{"a": {"b": 1, "c": 1}}, {"a": {"c": 2}}], {"a": {"b": 1, "c": 2}}),
        ("count", [None, 0], 2),
        ("first", [3, 1], 3),
        ("last", [3, 1], 1),
        ("min", [None, 3, 1], 1),
        ("max", [None, 3, 1], 3),
        *((how, [], None) for how in ("min", "max", "first", "last")),
        *((how, [], []) for how in ("append", "union")),
        ("sum", [], 0),
        ("count", [], 0),
        ("merge", [], {}),
    ],
)
def test_a_reducer_makes_one_value_of_many(how: str, values: list[Any], expected: Any) -> None:
    assert repr(reduce_values(how, values)) == repr(expected)  # in which true is not 1
