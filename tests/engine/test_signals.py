"""Signals that waits with a `schema` or `assignees` take, refuse or leave alone."""

from __future__ import annotations

from typing import Any

from corpus import HEAD
from in_memory_node import House, net_of

from noetl.engine import explain_refusal, react
from noetl.model.events import Event
from noetl.model.requests import Due, Signal

NUMBER, TEXT = "schema: {type: number}", "schema: {type: string}"


def started(steps: str) -> House:
    """A run whose waits have all begun."""
    made = House(net_of(HEAD + steps))
    made.start()
    while made.pipes:
        made.step(next(iter(made.pipes)))
    return made


def send(made: House, data: Any, by: str | None = None) -> str | None:
    """Send a signal; the error that its sender gets."""
    refused = explain_refusal(made.state, Signal("go", data, by=by))
    made.happen(Signal("go", data, by=by))
    while made.pipes:
        made.step(next(iter(made.pipes)))
    made.check()
    return refused


def named(made: House, name: str) -> list[Event]:
    return [event for event in made.events() if event.name == name]


TWO = f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}}}
- {{step: a, tool: {{kind: wait, signal: go, {NUMBER}}}, set: {{ctx.a: "{{{{ output.data }}}}"}}}}
- {{step: b, tool: {{kind: wait, signal: go, {TEXT}}}, set: {{ctx.b: "{{{{ output.data }}}}"}}}}
"""


def test_a_signal_is_offered_to_waits_in_the_order_in_which_they_began() -> None:
    made = started(TWO)
    assert send(made, "x") is None
    assert made.state.ctx == {"b": "x"}
    assert send(made, 3) is None
    assert made.state.ctx == {"b": "x", "a": 3}
    assert made.state.status == "completed"


def test_a_signal_that_no_wait_takes_is_refused_and_nothing_is_recorded() -> None:
    made = started(TWO)
    before = made.state.seq
    refused = send(made, [1])
    assert refused is not None
    assert "step `a`: `data` does not fit its schema: [1] is not of type 'number'" in refused
    assert "step `b`" in refused
    assert made.state.seq == before
    assert made.state.signals == {}
    decision = react(made.net_index, made.state, [wrong := Signal("go", [1])], made.now, made.new_id)
    assert (decision.events, decision.refusals) == ((), {id(wrong): refused})


def kept(*signals: Any, wait: str) -> House:
    """A run that begins a wait when signals were kept for it."""
    made = started(
        "- {step: a, tool: {kind: wait, seconds: 9}, next: {arcs: [{step: b}]}}\n"
        f'- {{step: b, tool: {{kind: wait, signal: go, {wait}}}, set: {{ctx.b: "{{{{ output.data }}}}"}}}}\n'
    )
    for data in signals:
        assert send(made, data, by="ann") is None
    made.now += 10
    made.happen(Due())
    while made.pipes:
        made.step(next(iter(made.pipes)))
    made.check()
    return made


def test_a_wait_takes_the_first_kept_signal_that_fits_and_drops_those_before_it() -> None:
    made = kept("x", "y", 3, "z", wait=NUMBER)
    assert made.state.ctx == {"b": 3}
    begun = named(made, "task.started")[-1].payload
    assert [one["data"] for one in begun["dropped"]] == ["x", "y"]
    assert made.state.signals == {"go": ["z"]}
    assert (made.state.steps["b"].warned, "was dropped" in str(made.state.steps["b"].warning)) == (2, True)


def test_kept_signals_of_which_none_fits_stay_for_another_wait() -> None:
    made = kept("x", wait=NUMBER)
    assert made.state.signals == {"go": ["x"]}
    assert "dropped" not in named(made, "task.started")[-1].payload
    assert send(made, 4) is None
    assert made.state.ctx == {"b": 4}


def test_a_transient_wait_leaves_kept_signals_alone() -> None:
    made = kept(1, wait=f"transient: true, {NUMBER}")
    assert made.state.signals == {"go": [1]}
    assert send(made, 2) is None
    assert made.state.ctx == {"b": 2}


def test_only_assignees_answer_and_who_needs_no_token() -> None:
    asks = '- {step: a, tool: {kind: wait, signal: go, assignees: [ann]}, set: {ctx.a: "{{ output.data }}"}}\n'
    made = started(asks)
    assert "the token `bob` is not one of its `assignees`: ann" in str(send(made, 1, by="bob"))
    assert send(made, 2, by="ann") is None
    assert made.state.ctx == {"a": 2}
    assert named(made, "signal.received")[0].payload["by"] == "ann"
    assert send(started(asks), 3) is None


def test_a_kept_signal_of_another_sender_is_not_taken() -> None:
    made = kept(1, wait="assignees: [bob]")
    assert made.state.signals == {"go": [1]}
    assert kept(1, wait="assignees: [ann]").state.ctx == {"b": 1}


def test_a_signal_that_came_too_late_goes_to_the_next_wait_that_takes_it() -> None:
    steps = f"""
- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}, {{step: c}}]}}}}
- {{step: a, tool: {{kind: wait, signal: go, timeout: 5}}, next: {{arcs: [{{step: end, when: true}}]}}}}
- {{step: b, tool: {{kind: wait, signal: go, {NUMBER}}}, set: {{ctx.b: "{{{{ output.data }}}}"}}}}
- {{step: c, tool: {{kind: wait, signal: go, {TEXT}}}, set: {{ctx.c: "{{{{ output.data }}}}"}}}}
- {{step: end}}
"""
    for data, ctx, left in (("late", {"c": "late"}, None), ([1], {}, {"go": [[1]]})):
        made = started(steps)
        made.now += 10
        made.happen(Due())
        made.happen(Signal("go", data))
        while made.pipes:
            made.step(next(iter(made.pipes)))
        made.check()
        assert made.state.ctx == ctx
        assert left is None or made.state.signals == left


def test_a_timeout_of_the_task_or_step_ends_a_wait_with_an_error_and_one_of_the_executor_does_not() -> None:
    own = "- {step: a, tool: {kind: wait, seconds: 9, spec: {timeout: 5}}}\n"
    of_step = "- {step: a, spec: {timeout: 5}, tool: {kind: wait, signal: go}}\n"
    of_executor = "- {step: a, tool: {kind: wait, seconds: 9}}\nexecutor: {spec: {timeout: 5}}\n"
    for steps, kind in ((own, "timeout"), (of_step, "timeout"), (of_executor, None)):
        made = started(steps)
        made.now += 10
        made.happen(Due())
        while made.pipes:
            made.step(next(iter(made.pipes)))
        assert made.state.over
        assert (made.state.error or {}).get("kind") == kind
