"""Runs that go nowhere: a success that no arc matches, tokens that can never move, gates that wait for each other."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, net_of

from noetl.model.events import Event
from noetl.model.output import Output, failed, failure
from noetl.model.requests import Cancel, Pause, Resume
from noetl.model.state import Execution

NEVER = 'when: "{{ ctx.never }}"'
#: an exclusive router whose only arc is never taken
DEAD_END = f"next: {{arcs: [{{step: never, {NEVER}}}]}}"
REST = "- {step: never, tool: {kind: noop}}\n"
QUIET = '{rules: [{when: "{{ quiet() }}", then: {allow: true}}]}'


def run(steps: str, **settings: Any) -> House:
    """A run that is over."""
    made = House(net_of(HEAD + steps), **settings)
    made.run()
    assert made.state.over, list(made.state.runs)
    return made


def finished(made: House) -> dict[str, Any]:
    """What `workflow.finished` says."""
    return next(event.payload for event in made.events() if event.name == "workflow.finished")


def unmatched(steps: str, **settings: Any) -> list[str]:
    """What is reported, in the log as in the state."""
    made = run(steps, **settings)
    assert finished(made)["unmatched"] == list(made.state.unmatched)
    return list(made.state.unmatched)


def error_of(state: Execution) -> dict[str, Any]:
    assert state.error is not None
    return state.error


def breaks(_call: Any) -> Output:
    return failed(failure("shell", "no"))


# --- no arc matched ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        f"{{step: a, tool: {{kind: shell, cmd: x}}, {DEAD_END}}}",
        f"{{step: a, {DEAD_END}}}",
        f"{{step: a, loop: {{in: [1, 2], iterator: n}}, tool: {{kind: shell, cmd: x}}, {DEAD_END}}}",
        f"{{step: a, loop: {{in: [], iterator: n}}, tool: {{kind: shell, cmd: x}}, {DEAD_END}}}",
        f"{{step: a, next: {{spec: {{mode: inclusive}}, arcs: [{{step: never, {NEVER}}}, {{step: never, when: false}}]}}}}",
        f"{{step: a, next: {{spec: {{synthesize: {{from: '{{{{ [] }}}}'}}}}, arcs: [{{step: never, {NEVER}}}]}}}}",
    ],
    ids=["tool", "router", "loop", "empty loop", "inclusive", "empty plan"],
)
def test_a_success_that_no_arc_matches_is_reported(step: str) -> None:
    assert unmatched(f"- {step}\n{REST}") == ["a"]


@pytest.mark.parametrize(
    "step",
    [
        "{step: a, tool: {kind: shell, cmd: x}}",
        "{step: a, loop: {in: [1], iterator: n}, tool: {kind: noop}, next: {arcs: [{step: never, when: \"{{ event.name == 'loop.done' }}\"}]}}",
        "{step: a, loop: {in: [1], iterator: n}, tool: {kind: noop}, next: {arcs: [{step: never, when: \"{{ event.name == 'step.done' }}\"}]}}",
        f"{{step: a, next: {{arcs: [{{step: never, {NEVER}}}, {{terminate: completed}}]}}}}",
        f"{{step: a, next: {{spec: {{on_no_match: end}}, arcs: [{{step: never, {NEVER}}}]}}}}",
        "{step: a, next: {spec: {synthesize: {from: '{{ [] }}'}}}}",
        f"{{step: a, next: {{spec: {{synthesize: {{from: \"{{{{ [{{'step': 'new', 'tool': {{'kind': 'noop'}}}}] }}}}\"}}}}, arcs: [{{step: never, {NEVER}}}]}}}}",
    ],
    ids=["leaf", "loop.done", "step.done of a loop", "terminate", "on purpose", "empty plan without arcs", "plan"],
)
def test_a_step_that_has_no_arcs_or_goes_on_or_ends_on_purpose_is_not_reported(step: str) -> None:
    assert unmatched(f"- {step}\n{REST}") == []


def test_a_failed_step_is_never_unmatched() -> None:
    made = run(f"- {{step: a, tool: {{kind: shell, cmd: x}}, {DEAD_END}}}\n{REST}", tool=breaks)
    assert (made.state.status, list(made.state.unmatched)) == ("failed", [])


def test_a_planned_step_counts_like_any_other() -> None:
    plan = "[{'step': 'new', 'next': {'arcs': [{'step': 'never', 'when': false}]}}]"
    assert unmatched(f'- {{step: a, next: {{spec: {{synthesize: {{from: "{{{{ {plan} }}}}"}}}}}}}}\n{REST}') == ["new"]


def test_each_name_is_listed_once_in_the_order_in_which_it_happened() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: late}}, {{step: a}}, {{step: a}}]}}}}
- {{step: late, tool: {{kind: wait, seconds: 5}}, {DEAD_END}}}
- {{step: a, {DEAD_END}}}
{REST}""")
    assert finished(made)["unmatched"] == ["a", "late"]
    assert made.state.unmatched == {"a": 2, "late": 1}


def test_what_was_unmatched_is_listed_whatever_the_status() -> None:
    steps = f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}}}
- {{step: a, {DEAD_END}}}
- {{step: b, tool: {{kind: shell, cmd: x}}, next: {{arcs: [{{terminate: %s}}]}}}}
{REST}"""
    assert unmatched(steps % "completed") == ["a"]
    assert unmatched(steps % "failed") == ["a"]
    assert unmatched(steps % "completed", tool=breaks) == ["a"]
    made = House(net_of(HEAD + steps % "completed"))
    made.start()
    made.happen(Cancel("enough"))
    assert (made.state.status, finished(made)["unmatched"]) == ("cancelled", ["a"])


def test_arcs_that_were_not_asked_any_more_are_not_unmatched() -> None:
    """After a failure that no arc took, what still ends takes no arcs: that says nothing about them."""
    made = run(
        f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: bad}}, {{step: slow}}]}}}}
- {{step: bad, tool: {{kind: shell, cmd: x}}}}
- {{step: slow, tool: {{kind: wait, seconds: 5}}, {DEAD_END}}}
{REST}""",
        tool=breaks,
    )
    assert (made.state.status, made.state.steps["slow"].status) == ("failed", "done")
    assert made.state.unmatched == {}


def test_on_no_match_fail_fails_the_execution_and_leaves_the_step_done() -> None:
    made = run("""
- step: a
  tool: {kind: shell, cmd: x}
  next: {spec: {on_no_match: fail}, arcs: [{step: never, when: "{{ event.status == 'error' }}"}, {step: never, when: "{{ event.name == 'step.failed' }}"}]}
- {step: never, tool: {kind: noop}}
""")
    error = error_of(made.state)
    assert (made.state.status, error["kind"], error["step"]) == ("failed", "fail", "a")
    assert (made.state.steps["a"].status, "never" in made.state.steps) == ("done", False)
    assert finished(made)["unmatched"] == ["a"]


def test_on_no_match_fail_lets_what_runs_finish() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: slow}}, {{step: a}}]}}}}
- {{step: slow, tool: {{kind: wait, seconds: 5}}, next: {{arcs: [{{step: never}}]}}}}
- {{step: a, next: {{spec: {{on_no_match: fail}}, arcs: [{{step: never, {NEVER}}}]}}}}
{REST}""")
    assert (made.state.status, error_of(made.state)["step"]) == ("failed", "a")
    assert (made.state.steps["slow"].status, "never" in made.state.steps) == ("done", False)


# --- stalls ------------------------------------------------------------------------------------------------------------

GATE = f"- {{step: gate, spec: {{policy: {{admit: {{rules: [{{{NEVER}, then: {{allow: true}}}}]}}}}}}, tool: {{kind: noop}}}}\n"
MAY_NOT_STALL = "executor: {spec: {policy: {stalled: fail}}}\n"


def test_a_stall_that_may_not_be_is_an_error_that_names_the_steps() -> None:
    made = run(f"- {{step: a, next: {{arcs: [{{step: gate}}]}}}}\n{GATE}{MAY_NOT_STALL}")
    error = error_of(made.state)
    assert (made.state.status, error["kind"], error["step"]) == ("failed", "stalled", "gate")
    assert "gate" in error["message"]
    assert (finished(made)["stalled"], made.state.steps["gate"].status) == (["gate"], "skipped")


def test_an_error_of_its_own_goes_before_that_of_a_stall() -> None:
    steps = f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: gate}}, {{step: bad}}]}}}}
- {{step: bad, tool: {{kind: shell, cmd: x}}}}
{GATE}{MAY_NOT_STALL}"""
    made = run(steps, tool=breaks)
    assert (error_of(made.state)["kind"], made.state.stalled) == ("shell", ["gate"])


@pytest.mark.parametrize("how", ["completed", "failed"])
def test_an_execution_that_is_ended_does_not_stall(how: str) -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: gate}}, {{step: b}}]}}}}
- {{step: b, tool: {{kind: shell, cmd: x}}, next: {{arcs: [{{terminate: {how}}}]}}}}
{GATE}{MAY_NOT_STALL}""")
    assert (made.state.status, made.state.stalled) == (how, [])


def test_the_rules_that_kept_a_token_out_are_recorded_with_what_they_saw_in_the_end() -> None:
    made = run("""
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: gate}, {step: b}]}}
- {step: b, tool: {kind: shell, cmd: x}, set: {ctx.n: 3}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ ctx.n == 4 }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""")
    (dropped,) = [event.payload for event in made.events() if event.name == "step.skipped"]
    assert dropped["saw"] == [{"when": "{{ ctx.n == 4 }}", "held": False, "saw": {"ctx.n": 3}}]


# --- gates that wait for each other ------------------------------------------------------------------------------------


def gate(name: str, *targets: str, admit: str = QUIET) -> str:
    """A gate from which tokens could go on to others, and never do."""
    arcs = ", ".join(f"{{step: {one}, {NEVER}}}" for one in targets)
    return f"- {{step: {name}, spec: {{policy: {{admit: {admit}}}}}, tool: {{kind: shell, cmd: x}}, next: {{spec: {{on_no_match: end}}, arcs: [{arcs}]}}}}\n"


def fired(made: House) -> list[str]:
    return [event.entity_id for event in made.events() if event.name == "step.scheduled"]


def firing_of(made: House, step: str) -> Event:
    return next(event for event in made.events() if event.name == "step.scheduled" and event.entity_id == step)


def test_gates_that_wait_for_each_other_open_in_the_order_in_which_their_tokens_came() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: slow}}, {{step: two}}, {{step: three}}]}}}}
- {{step: slow, tool: {{kind: wait, seconds: 5}}, next: {{arcs: [{{step: one}}]}}}}
{gate("one", "two", "three")}{gate("three", "one", "two")}{gate("two", "one", "three")}{REST}""")
    assert fired(made)[2:] == ["two", "three", "one"]
    assert made.state.stalled == []
    assert firing_of(made, "two").payload["waited_for"] == ["three", "one"]
    assert "waited_for" not in firing_of(made, "one").payload, "nothing was left that it waited for"


def test_they_are_opened_one_at_a_time() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}}}
{gate("one", "two")}{gate("two", "one")}{REST}""")
    names = [(event.name, event.entity_id) for event in made.events()]
    assert names.index(("step.done", "one")) < names.index(("step.scheduled", "two"))


def test_gates_stay_closed_while_something_else_can_move() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}, {{step: beside}}]}}}}
- {{step: beside, tool: {{kind: wait, seconds: 50}}}}
{gate("one", "two")}{gate("two", "one")}{REST}""")
    assert fired(made) == ["start", "beside", "one", "two"]
    names = [(event.name, event.entity_id) for event in made.events()]
    assert names.index(("step.done", "beside")) < names.index(("step.scheduled", "one"))


def test_a_gate_that_waits_for_a_token_which_waits_for_something_else_stays_closed() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}, {{step: gate}}]}}}}
{gate("one", "two")}{gate("two", "one")}{gate("gate", "one", admit=f"{{rules: [{{{NEVER}, then: {{allow: true}}}}]}}")}{REST}""")
    assert fired(made) == ["start"]
    assert made.state.stalled == ["one", "two", "gate"]


def test_a_gate_that_would_not_open_even_if_it_were_quiet_keeps_the_others_closed() -> None:
    refuses = '{rules: [{when: "{{ quiet() and ctx.never }}", then: {allow: true}}]}'
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}}}
{gate("one", "two")}{gate("two", "one", admit=refuses)}{REST}""")
    assert made.state.stalled == ["one", "two"]


def test_joins_that_wait_for_quiet_count_among_the_gates() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}}}
{gate("one", "two", admit="{join: {from: [start, two], need: 1}, " + QUIET[1:])}{gate("two", "one")}{REST}""")
    assert fired(made) == ["start", "one", "two"]
    assert made.state.stalled == []


def test_a_gate_that_opens_may_send_a_token_to_the_other_which_waits_on() -> None:
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}}}
- {{step: one, spec: {{policy: {{admit: {QUIET}}}}}, next: {{arcs: [{{step: two}}]}}}}
{gate("two", "one")}{REST}""")
    assert fired(made) == ["start", "one", "two"], "the token of `one` merges into the one that was parked"


def test_an_error_in_a_rule_that_only_quiet_reaches_fails_the_execution() -> None:
    wrong = '{rules: [{when: "{{ quiet() and 1 / 0 }}", then: {allow: true}}]}'
    made = run(f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}]}}}}
{gate("one", "two", admit=wrong)}{gate("two", "one")}{REST}""")
    assert (made.state.status, error_of(made.state)["step"]) == ("failed", "one")


def test_gates_that_were_waiting_when_a_run_was_paused_open_when_it_goes_on() -> None:
    made = House(
        net_of(
            HEAD
            + f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: one}}, {{step: two}}, {{step: beside}}]}}}}
- {{step: beside, tool: {{kind: shell, cmd: x}}}}
{gate("one", "two")}{gate("two", "one")}{REST}"""
        )
    )
    made.start()
    made.happen(Pause())
    while made.tick():
        pass
    assert fired(made) == ["start", "beside"]
    made.happen(Resume())
    while made.tick():
        pass
    assert (made.state.status, fired(made)[2:]) == ("completed", ["one", "two"])


# --- what templates see of an error ------------------------------------------------------------------------------------


def test_the_status_of_a_step_has_the_message_and_the_error_as_a_map() -> None:
    made = run(
        """
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: b, when: "{{ steps.a.status.failure.kind == 'shell' }}"}]}}
- {step: b, tool: {kind: noop, output: ["{{ steps.a.status.error }}", "{{ steps.a.status.failure.kind }}", "{{ steps.b.status.error }}", "{{ steps.b.status.failure }}"]}}
""",
        tool=lambda call: failed(failure("shell", "no")),
    )
    assert made.state.output == ["no", "shell", None, None]
