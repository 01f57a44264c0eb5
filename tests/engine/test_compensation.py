"""What an execution undoes when it fails or is cancelled, in which order, and what runs last; whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpus import HEAD
from in_memory_node import House, net_of
from simulation import Runs, Simulation

from noetl.engine.fold import apply
from noetl.engine.reaction import react
from noetl.errors import UsageError
from noetl.history import explain_cancel_refusal, find_last_kept, parse_fork_point
from noetl.model.events import Event
from noetl.model.orders import PauseChild
from noetl.model.output import Output, failed, failure, ok
from noetl.model.requests import Cancel, Due, Pause, Resume
from noetl.model.state import Execution, pipeline_runs

BOOK = "- {{step: {0}, spec: {{policy: {{compensation: {{kind: shell, cmd: undo}}}}}}, tool: {{kind: shell, cmd: do}}, next: {{arcs: [{{step: {1}}}]}}}}\n"
BAD = "- {step: bad, tool: {kind: python, code: 'def main(): pass'}}\n"
UNDO = ("step.compensating", "step.compensated", "step.compensation.failed")


def fails_in_python(call: Any) -> Output:
    """A tool of which only `python` fails."""
    return failed(failure("python", "no")) if call.kind == "python" else ok({"key": call.key})


def undone(events: list[Event]) -> list[tuple[str, str, Any]]:
    return [(event.name, event.entity_id, event.iteration) for event in events if event.name in UNDO]


def node(steps: str, **settings: Any) -> House:
    return House(net_of(HEAD + steps), tool=settings.pop("tool", fails_in_python), **settings)


def names(made: House | Simulation) -> list[str]:
    events = made.events() if isinstance(made, House) else made.log.read("x")
    return [f"{event.name} {event.entity_id}" for event in events]


def run_until(made: House, name: str) -> House:
    """Run a node until its log has an event of this name."""
    made.start()
    for _ in range(1000):
        if any(event.name == name for event in made.events()):
            return made
        assert made.tick()
    raise AssertionError(name)


# --- order and durability ----------------------------------------------------------------------------------------------

TRIP = (
    BOOK.format("flight", "rooms")
    + """
- step: rooms
  spec: {policy: {compensation: {kind: shell, cmd: "undo {{ iter.n }}"}}}
  loop: {in: [1, 2, 3], iterator: n}
  tool: {kind: shell, cmd: do}
  next: {arcs: [{step: flight_back}]}
"""
    + BOOK.format("flight_back", "bad")
    + BAD
)
ORDER = [("flight_back", None), ("rooms", 2), ("rooms", 1), ("rooms", 0), ("flight", None)]


def test_a_run_killed_at_any_write_undoes_the_same_runs_in_the_same_order(tmp_path: Path) -> None:
    runs = Runs(TRIP, tmp_path, tool=fails_in_python)
    expected = [
        (name, step, iteration) for step, iteration in ORDER for name in ("step.compensating", "step.compensated")
    ]
    for made in (runs.calm, *runs.disturbed()):
        assert undone(made.log.read("x")) == expected
        assert made.state.status == "failed"
        assert made.state.error is not None
        assert made.state.error["step"] == "bad"
        assert made.ledger == runs.calm.ledger
    keys = {key for key, task in runs.calm.ledger if task.endswith(".compensation")}
    assert len(keys) == len(ORDER), "each has a key of its own"


def test_a_compensation_that_fails_does_not_stop_the_others() -> None:
    def tool(call: Any) -> Output:
        return (
            failed(failure("shell", "stuck"))
            if call.task == "compensation" and call.step == "b"
            else fails_in_python(call)
        )

    made = node(BOOK.format("a", "b") + BOOK.format("b", "bad") + BAD, tool=tool)
    state = made.run()
    assert [name for name, _, _ in undone(made.events())] == [
        "step.compensating", "step.compensation.failed", "step.compensating", "step.compensated",
    ]  # fmt: skip
    assert (state.steps["b"].undo_failed, state.steps["a"].undone) == (1, 1)
    assert state.error is not None
    assert state.error["step"] == "bad"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("- {step: bad, next: {arcs: [{terminate: failed}]}}\n", ["a"]),
        ("- {step: bad, next: {arcs: [{terminate: completed}]}}\n", []),
        ("- {step: bad, tool: {kind: noop}}\n", []),
    ],
    ids=["terminate: failed", "terminate: completed", "completed"],
)
def test_only_a_failure_or_a_cancellation_undoes(last: str, expected: list[str]) -> None:
    made = node(BOOK.format("a", "bad") + last)
    made.run()
    assert [step for name, step, _ in undone(made.events()) if name == "step.compensated"] == expected


def test_every_run_of_a_step_is_undone() -> None:
    steps = """
- step: a
  spec: {policy: {compensation: {kind: shell, cmd: "{{ ctx.n }}"}}}
  tool: {kind: shell, cmd: do}
  set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}
  next: {arcs: [{step: a, when: "{{ ctx.n < 3 }}"}, {step: bad}]}
"""
    seen: list[Any] = []

    def tool(call: Any) -> Output:
        if call.task == "compensation":
            seen.append(str(call.config["cmd"]).strip("'"))
        return fails_in_python(call)

    made = node(steps + BAD, tool=tool)
    made.run()
    assert seen == ["3", "2", "1"], "each sees `ctx` as it was when that run ended"


def test_a_step_that_an_arc_cancels_records_nothing_but_the_iterations_that_ended_well() -> None:
    steps = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: boss}]}}
- step: each
  spec: {policy: {compensation: {kind: shell, cmd: undo}}}
  loop: {in: [0, 100], iterator: s}
  tool: {kind: wait, seconds: "{{ iter.s }}"}
- {step: boss, tool: {kind: wait, seconds: 5}, next: {arcs: [{step: bad, cancel: [each]}]}}
"""
    made = node(steps + BAD)
    made.run()
    assert undone(made.events()) == [("step.compensating", "each", 0), ("step.compensated", "each", 0)]


# --- while compensations run -------------------------------------------------------------------------------------------


def test_while_compensations_run_cancel_is_refused() -> None:
    made = run_until(node(BOOK.format("a", "b") + BOOK.format("b", "bad") + BAD), "step.compensating")
    assert "compensations are running" in (explain_cancel_refusal(made.state) or "")
    made.happen(Cancel("now"))
    assert "execution.cancelled test" not in names(made)
    assert made.run_on().status == "failed"
    assert made.state.steps["a"].undone == 1


def test_a_pause_holds_the_compensations_that_have_not_begun() -> None:
    made = run_until(node(BOOK.format("a", "b") + BOOK.format("b", "bad") + BAD), "step.compensating")
    made.happen(Pause())
    made.run_on()
    assert not made.state.over
    assert [record.step for record in made.state.undo] == ["a"]
    made.restart()
    made.run_on()
    assert not made.state.over, "nor does a process that resumes it begin with them"
    made.happen(Resume())
    assert made.run_on().status == "failed"
    assert made.state.steps["a"].undone == 1


def test_a_deadline_does_not_bound_compensations() -> None:
    steps = (
        BOOK.format("a", "bad").replace("kind: shell, cmd: undo", "kind: wait, seconds: 100")
        + """
- {step: bad, spec: {policy: {lifecycle: {deadline_s: 5}}}, tool: {kind: wait, seconds: 50}}
"""
    )
    made = node(steps)
    state = made.run()
    assert state.error is not None
    assert state.error["kind"] == "timeout"
    assert state.steps["a"].undone == 1


CALLER = BOOK.format("a", "call") + "- {step: call, tool: {kind: playbook, path: other}}\n"
CHILD = (
    HEAD.replace("name: test", "name: other")
    + BOOK.format("inside", "held")
    + "- {step: held, tool: {kind: wait, signal: never}}\n"
)


def test_a_pause_reaches_a_child_that_was_told_to_end_and_so_does_its_end() -> None:
    made = node(BOOK.format("flight", "call") + "- {step: call, tool: {kind: playbook, path: child}}\n")
    made.children_end = False
    run_until(made, "task.done")
    while not any(pipe.wait is not None for run in made.state.runs.values() for _, pipe in pipeline_runs(run) if pipe):
        assert made.tick()
    asked: list[PauseChild] = []
    for request in (Pause(), Cancel("no more"), Resume()):
        decision = react(made.net_index, made.state, [request], made.now, made.new_id)
        asked += [order for order in decision.orders if isinstance(order, PauseChild)]
    (child,) = made.state.stopped_children
    assert asked == [PauseChild(child, True), PauseChild(child, False)]


def test_a_child_that_is_cancelled_with_its_caller_is_undone_before_the_caller(tmp_path: Path) -> None:
    runs = Runs(CALLER, tmp_path, [Cancel("enough")], child=CHILD.encode())
    for made in (runs.calm, *runs.disturbed()):
        assert made.state.status == "cancelled"
        children = made.log.summaries(parent="x")
        own = [event for event in made.log.read("x") if event.name == "step.compensating"]
        for child in children:
            ends = [event.timestamp for event in made.log.read(child.execution_id) if event.name == "workflow.finished"]
            assert all(end <= event.timestamp for end in ends for event in own)
    calm = runs.calm
    (child,) = calm.log.summaries(parent="x")
    assert [step for name, step, _ in undone(calm.log.read(child.execution_id)) if name == "step.compensated"] == [
        "inside"
    ]
    assert [step for name, step, _ in undone(calm.log.read("x")) if name == "step.compensated"] == ["a"]


def test_a_run_that_is_paused_then_cancelled_then_unpaused_ends_and_so_does_its_child(tmp_path: Path) -> None:
    runs = Runs(CALLER, tmp_path, [Pause(), Cancel("enough"), Resume()], child=CHILD.encode())
    for made in (runs.calm, *runs.disturbed()):
        assert made.state.status == "cancelled"
        assert all(child.status == "cancelled" for child in made.log.summaries(parent="x"))
        assert made.state.steps["a"].undone == 1


RACE = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: call}, {step: other}]}}
- {step: call, spec: {policy: {compensation: {kind: shell, cmd: undo}}}, tool: {kind: playbook, path: other%s}}
- {step: other, tool: {kind: playbook, path: other}, next: {arcs: [{step: bad, cancel: [call]}]}}
- {step: bad, tool: {kind: wait, seconds: 0.1}, next: {arcs: [{terminate: failed}]}}
"""
BRIEF = HEAD.replace("name: test", "name: other") + "- {step: held, tool: {kind: wait, seconds: 0.4}}\n"


@pytest.mark.parametrize("timeout", ["", ", spec: {timeout: 0.4}"], ids=["cancelled", "timed out"])
def test_a_child_that_ends_at_the_moment_at_which_it_is_stopped_is_not_waited_for(tmp_path: Path, timeout: str) -> None:
    runs = Runs(RACE % timeout, tmp_path, child=BRIEF.encode())
    for made in (runs.calm, *runs.disturbed()):
        assert made.state.status == "failed"
        assert made.state.stopped_children == {}


# --- finally -----------------------------------------------------------------------------------------------------------


def test_a_cancelled_step_is_recorded_at_once_and_the_execution_waits_for_its_finally_tasks() -> None:
    steps = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: long}, {step: boss}]}}
- {step: long, spec: {policy: {finally: [{kind: wait, seconds: 50}]}}, tool: {kind: wait, signal: never}}
- {step: boss, tool: {kind: wait, seconds: 5}, next: {arcs: [{step: end, cancel: [long]}]}}
- {step: end}
"""
    made = node(steps)
    state = made.run()
    told = names(made)
    assert told.index("step.cancelled long") < told.index("task.started long.finally_1")
    assert told.index("step.closed long") < told.index("workflow.finished test")
    assert "step.done long" not in told
    assert state.steps["long"].status == "cancelled"
    assert made.now >= 1_000_055


def test_finally_tasks_that_have_ended_do_not_run_again_when_the_step_is_cancelled_meanwhile() -> None:
    steps = "- {step: a, spec: {policy: {finally: [{kind: shell, cmd: one}, {kind: wait, seconds: 50}, {kind: shell, cmd: two}]}}, tool: {kind: noop}}\n"
    made = node(steps)
    made.start()
    while not any(event.entity_id == "a.finally_2" for event in made.events()):
        made.tick()
    made.happen(Cancel("now"))
    state = made.run_on()
    assert state.status == "cancelled"
    assert state.steps["a"].status == "cancelled"
    assert [task for _, task in made.ledger] == ["a.finally_1", "a.finally_3"]


def test_a_timeout_bounds_the_body_and_not_its_finally_tasks() -> None:
    steps = "- {step: a, spec: {policy: {lifecycle: {timeout_s: 5}, finally: [{kind: wait, seconds: 50}, {kind: shell, cmd: x}]}}, tool: {kind: noop}}\n"
    made = node(steps)
    assert made.run().steps["a"].status == "done"
    assert [task for _, task in made.ledger] == ["a.finally_2"]


def test_what_the_body_still_reports_after_its_time_is_over_is_not_taken_for_its_finally_tasks() -> None:
    steps = "- {step: a, spec: {policy: {lifecycle: {timeout_s: 5}, finally: [{kind: shell, cmd: x}]}}, tool: {kind: shell, cmd: x}}\n"
    made = node(steps)
    made.start()
    (late,) = made.pipes.values()
    made.now += 10
    made.happen(Due())
    assert made.state.runs["a-1"].closing is not None
    made.report(late)  # `step.started`, from a worker that has not heard yet that it is to stop
    assert names(made)[-1] == "step.closing a"
    state = made.run_on()
    assert state.error is not None
    assert state.error["kind"] == "timeout"
    assert [task for _, task in made.ledger] == ["a.finally_1"]


@pytest.mark.parametrize("body", ["noop", "python"])
def test_a_finally_task_that_fails_fails_a_step_that_had_not_failed(body: str) -> None:
    def tool(call: Any) -> Output:
        return failed(failure("shell", "while cleaning")) if call.kind == "shell" else fails_in_python(call)

    code = ", code: 'def main(): pass'" if body == "python" else ""
    made = node(
        f"- {{step: a, spec: {{policy: {{finally: [{{kind: shell, cmd: x}}]}}}}, tool: {{kind: {body}{code}}}}}\n",
        tool=tool,
    )
    state = made.run()
    assert state.error is not None
    assert state.error["kind"] == ("shell" if body == "noop" else "python")


# --- the step that runs last -------------------------------------------------------------------------------------------

LAST = "- {step: last, tool: {kind: %s}, set: {ctx.how: '{{ event.status }}'}}\nexecutor: {spec: {policy: {finally: {step: last}}}}\n"


def test_stalled_tokens_are_dropped_then_runs_are_undone_then_the_last_step_runs() -> None:
    steps = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: gate}]}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ ctx.never is defined }}", then: {allow: true}}]}}}, tool: {kind: noop}}
"""
    made = node(steps + BOOK.format("a", "bad") + BAD + LAST % "noop")
    state = made.run()
    order = [
        "step.skipped gate",
        "step.compensating a",
        "step.compensated a",
        "step.scheduled last",
        "step.done last",
        "workflow.finished test",
    ]
    told = names(made)
    assert [told.index(one) for one in order] == sorted(told.index(one) for one in order)
    assert (state.stalled, state.ctx["how"]) == (["gate"], "failed")
    assert state.output is None


@pytest.mark.parametrize(
    ("steps", "status", "error"),
    [
        ("- {step: a, tool: {kind: noop, output: 7}}\n", "failed", "last"),
        ("- {step: a, next: {arcs: [{terminate: completed}]}}\n", "failed", "last"),
        ("- {step: a, next: {arcs: [{terminate: failed}]}}\n", "failed", "a"),
    ],
    ids=["completed", "terminate: completed", "terminate: failed"],
)
def test_a_last_step_that_fails_fails_an_execution_that_completed(steps: str, status: str, error: str) -> None:
    made = node(steps + LAST % "python, code: 'def main(): pass'")
    state = made.run()
    assert state.error is not None
    assert (state.status, state.error["step"]) == (status, error)


def test_no_run_is_undone_because_the_last_step_failed() -> None:
    made = node(
        BOOK.format("a", "b")
        + "- {step: b, tool: {kind: noop, output: 7}}\n"
        + LAST % "python, code: 'def main(): pass'"
    )
    state = made.run()
    assert (state.status, state.output) == ("failed", 7)
    assert undone(made.events()) == []


def test_the_last_step_runs_though_the_execution_may_run_no_more_steps() -> None:
    steps = "- {step: a, next: {arcs: [{step: a}]}}\n" + LAST % "noop"
    made = node(steps.replace("policy: {finally", "policy: {limits: {max_steps: 5}, finally"))
    state = made.run()
    assert state.error is not None
    assert (state.error["kind"], state.ctx["how"]) == ("limit", "failed")


# --- reruns ------------------------------------------------------------------------------------------------------------


def test_a_rerun_may_not_keep_what_was_undone() -> None:
    made = node(TRIP)
    made.run()
    events = made.events()
    for point in ("bad", "flight_back", "rooms[1]", str(len(events) - 3)):
        with pytest.raises(UsageError, match="--from 'flight'` is the earliest"):
            find_last_kept(events, parse_fork_point(point), run=None, known=["flight"])
    kept = find_last_kept(events, parse_fork_point("flight"), run=None, known=["flight"])
    assert events[kept].name == "step.scheduled"


def test_what_a_fork_keeps_can_still_be_undone() -> None:
    made = node(TRIP)
    made.run()
    state = Execution("x")
    for event in made.events():
        apply(state, event)
        if event.name == "loop.done":
            break
    assert [(record.step, record.iteration) for record in state.undo] == [
        ("flight", None),
        ("rooms", 0),
        ("rooms", 1),
        ("rooms", 2),
    ]


def test_what_a_fork_keeps_and_its_playbook_can_no_longer_undo_is_reported() -> None:
    made = node(TRIP)
    made.run()
    events = made.events()
    ended = next(at for at, event in enumerate(events) if event.name == "step.done" and event.entity_id == "flight")
    without = BOOK.format("flight", "bad").replace("compensation: {kind: shell, cmd: undo}", "") + BAD
    fork = node(without)
    fork.go_on(events[: ended + 1])
    assert undone(fork.events()) == [
        ("step.compensating", "flight", None),
        ("step.compensation.failed", "flight", None),
    ]
    assert fork.state.steps["flight"].undo_error is not None
    assert fork.state.steps["flight"].undo_error["kind"] == "not-resumable"
