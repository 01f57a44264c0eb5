"""A pipeline from task to task, with outputs handed in: what each directive does, and that facts are enough to go on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from noetl.lang.loader import load
from noetl.model.events import Event, Fact
from noetl.model.output import Output, failed, failure, ok
from noetl.pipeline import machine, replay
from noetl.pipeline.frame import Frame, Moment, task_progress_fact, task_started_fact
from noetl.pipeline.machine import LONGEST, Finish, Move, RunTask, Sleep, delay_before
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
ERROR = failed(failure("http-status", "503", retryable=True), http={"status": 503})


class Driver:
    """Hands outputs to a pipeline and keeps its facts."""

    def __init__(self, step: str, **scopes: Any) -> None:
        loaded = load(HEAD + step, KINDS)
        assert loaded.net is not None, loaded.diagnostics
        self.step = loaded.net.playbook.steps[0]
        self.scopes = {"execution_id": "x", "workload": {}, "ctx": {}, "step": {}, "input": {}, **scopes}
        self.now = 100.0
        self.facts: list[Fact] = []
        self.ran: list[str] = []
        self.frame = self.new_frame()

    def new_frame(self) -> Frame:
        return Frame(self.step, self.scopes, run="a-1", iteration=None)

    def moment(self) -> Moment:
        return Moment(self.now, lambda: "id", 1.0)

    def run(self, *outputs: Output) -> Move:
        """Run until the outputs are used up or the pipeline ends."""
        move = machine.begin(self.frame, self.moment())
        return self.go_on(move, *outputs)

    def go_on(self, move: Move, *outputs: Output) -> Move:
        waiting = list(outputs)
        while True:
            self.facts += move.facts
            if isinstance(move, Finish):
                return move
            if isinstance(move, Sleep):
                self.now = move.until
                move = machine.proceed(self.frame, self.moment())
                continue
            if not waiting:
                return move
            self.ran.append(f"{move.task.name}#{move.attempt}")
            self.facts.append(task_started_fact(self.frame, {}))
            move = machine.advance(self.frame, waiting.pop(0), self.moment())

    @property
    def end(self) -> Fact:
        return self.facts[-1]


def policy(rules: str) -> str:
    return f"- {{step: a, tool: [{{name: one, kind: http, url: u, spec: {{policy: {{rules: [{rules}]}}}}}}, {{name: two, kind: http, url: u}}]}}"


RETRY = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 2, backoff: exponential}}"


def test_ok_goes_on_and_an_error_fails_without_a_policy() -> None:
    driver = Driver("- {step: a, tool: [{name: one, kind: http, url: u}, {name: two, kind: http, url: u}]}")
    driver.run(ok(1), ERROR)
    assert driver.ran == ["one#1", "two#1"]
    assert driver.end.name == "step.failed"
    assert driver.end.payload["output"]["error"]["task"] == "two"


def test_a_retry_waits_longer_each_time_and_keeps_the_last_error() -> None:
    driver = Driver(policy(RETRY))
    driver.run(ERROR, ERROR, ERROR)
    delays = [fact.payload.get("delay") for fact in driver.facts if fact.name == "task.done"]
    assert delays == [2.0, 4.0, None]
    assert driver.end.payload["output"]["error"]["kind"] == "http-status"
    assert len({fact.task_run_id for fact in driver.facts if fact.task}) == 1


def test_a_chunk_that_came_through_starts_attempts_and_backoff_again() -> None:
    driver = Driver(policy(RETRY))
    move = driver.run()
    for chunks in (0, 0, 2, 2, 5, 5, 5):
        assert isinstance(move, RunTask)
        driver.frame.progress = {"chunks": chunks}
        driver.facts.append(task_progress_fact(driver.frame, driver.frame.progress))
        move = driver.go_on(replace(move, facts=()), ERROR)
    delays = [fact.payload.get("delay") for fact in driver.facts if fact.name == "task.done"]
    assert delays == [2.0, 4.0, 2.0, 4.0, 2.0, 4.0, None]
    again = Driver(policy(RETRY))
    tasks = [fact for fact in driver.facts if fact.task is not None]
    replay.resume(again.frame, [_event(fact) for fact in tasks[:-3]])
    assert (again.frame.counted_from, again.frame.chunks) == (driver.frame.counted_from, driver.frame.chunks)


def test_the_set_of_an_exhausted_retry_is_not_applied() -> None:
    driver = Driver(policy(RETRY.replace("attempts: 3", "attempts: 1, set: {ctx.x: 1}")))
    driver.run(ERROR)
    assert driver.frame.scopes["ctx"] == {}


def test_an_ok_that_is_retried_in_vain_is_exhausted() -> None:
    driver = Driver(policy("{else: {then: {do: retry, attempts: 2, delay: 0}}}"))
    driver.run(ok(), ok())
    assert driver.end.payload["output"]["error"]["kind"] == "retry-exhausted"


def test_skip_leaves_output_and_prev_as_they_were() -> None:
    driver = Driver(
        policy("{else: {then: {do: continue}}}").replace(
            "name: two, kind: http, url: u",
            "name: two, kind: http, url: u, spec: {policy: {rules: [{else: {then: {do: skip}}}]}}",
        )
    )
    driver.run(ok("first"), ok("second"))
    assert driver.end.payload["output"]["data"] == "first"
    assert driver.frame.scopes["_prev"] == "first"


def test_break_ends_well_even_on_an_error() -> None:
    driver = Driver(policy("{else: {then: {do: break}}}"))
    driver.run(ERROR)
    assert driver.end.name == "step.done"
    assert driver.end.payload["output"]["data"] is None
    assert driver.end.payload["output"]["status"] == "ok"


def test_fail_puts_its_message_in_front_and_keeps_the_kind() -> None:
    driver = Driver(policy("{else: {then: {do: fail, message: 'no luck'}}}"))
    driver.run(ERROR)
    error = driver.end.payload["output"]["error"]
    assert (error["kind"], error["message"]) == ("http-status", "no luck: 503")


def test_jumps_count_visits_and_each_visit_has_its_own_key() -> None:
    driver = Driver(
        policy("{else: {then: {do: continue}}}").replace(
            "name: two, kind: http, url: u",
            'name: two, kind: http, url: u, spec: {policy: {rules: [{when: "{{ output.data < 3 }}", then: {do: jump, to: one}}]}}',
        )
    )
    driver.run(ok(), ok(1), ok(), ok(2), ok(), ok(3))
    keys = [fact.task_run_id for fact in driver.facts if fact.name == "task.started"]
    assert keys == ["a-1/one", "a-1/two", "a-1/one.2", "a-1/two.2", "a-1/one.3", "a-1/two.3"]


def test_a_template_that_fails_in_a_set_makes_the_task_fail() -> None:
    driver = Driver("- {step: a, tool: {kind: http, url: u, set: {ctx.x: '{{ output.data.none }}'}}}")
    driver.run(ok({}))
    assert driver.end.payload["output"]["error"]["kind"] == "template"
    assert driver.frame.scopes["ctx"] == {}


def test_an_input_that_cannot_be_evaluated_is_the_tasks_own_error() -> None:
    driver = Driver("- {step: a, tool: {kind: python, code: 'def main(): pass', input: {n: '{{ ctx.none }}'}}}")
    driver.run()
    assert [fact.name for fact in driver.facts] == ["step.started", "task.started", "task.done", "step.failed"]


@pytest.mark.parametrize("count", range(9))
def test_what_was_recorded_is_enough_to_go_on(count: int) -> None:
    """Whatever of the facts is recorded, a new frame goes on as the old one would have."""
    text = policy(RETRY).replace(
        "name: two, kind: http, url: u",
        "name: two, kind: http, url: u, set: {step.n: '{{ step.n | default(0) + 1 }}'}, spec: {policy: {rules: [{when: '{{ step.n < 3 }}', then: {do: jump, to: one}}]}}",
    )
    outputs = [ERROR, ok(1), ok(2), ERROR, ok(3), ok(4), ok(5), ok(6)]
    whole = Driver(text)
    whole.run(*outputs)
    assert isinstance(whole.end, Fact)
    assert whole.end.name == "step.done"
    recorded = [fact for fact in whole.facts if fact.task is not None][: 2 * count]
    again = Driver(text)
    replay.resume(again.frame, [_event(fact) for fact in recorded])
    again.now = 10_000.0
    again.go_on(machine.proceed(again.frame, again.moment()), *outputs[len(recorded) // 2 :])
    assert again.end.name == "step.done"
    assert again.end.payload["output"]["data"] == whole.end.payload["output"]["data"]
    assert again.frame.scopes["step"] == whole.frame.scopes["step"]
    keys = [fact.task_run_id for fact in whole.facts if fact.name == "task.started"]
    assert [fact.task_run_id for fact in again.facts if fact.name == "task.started"] == keys[len(recorded) // 2 :]


def _event(fact: Fact) -> Event:
    stamp = "2026-01-01T00:00:00+00:00"
    return Event("e", "x", 1, stamp, "worker", fact.name, "task", "a", fact.status, fact.payload, None, fact.step_run_id,
                 fact.task_run_id, None, fact.attempt)  # fmt: skip


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("none", [1, 1, 1]), ("fixed", [1, 1, 1]), ("linear", [1, 2, 3]), ("exponential", [1, 2, 4])],
)
def test_a_backoff_grows_as_its_name_says(backoff: str, expected: list[float]) -> None:
    assert [delay_before(n, backoff=backoff, delay=1, max_delay=300) for n in (1, 2, 3)] == expected


def test_no_delay_is_negative_or_longer_than_its_limits() -> None:
    assert delay_before(50, backoff="exponential", delay=1, max_delay=60) == 60
    assert delay_before(5_000, backoff="exponential", delay=1e300, max_delay=1e308) == LONGEST
    assert delay_before(1, backoff="fixed", delay=-5, max_delay=60) == 0
    assert 5 <= delay_before(1, backoff="fixed", delay=10, max_delay=60, chance=0.0) <= 10


@pytest.mark.parametrize(
    ("jitter", "chance", "waits"), [("", 0.2, 4.0), (", jitter: true", 0.2, 2.4), (", jitter: true", 1.0, 4.0)]
)
def test_jitter_spreads_the_delay_of_a_retry(jitter: str, chance: float, waits: float) -> None:
    rule = f"{{else: {{then: {{do: retry, attempts: 2, delay: 4{jitter}}}}}}}"
    driver = Driver(policy(rule))
    machine.begin(driver.frame, driver.moment())
    move = machine.advance(driver.frame, ERROR, Moment(100.0, lambda: "id", chance))
    assert isinstance(move, Sleep)
    assert move.until == pytest.approx(100 + waits)


def test_a_task_is_told_its_name_its_attempt_and_its_key() -> None:
    driver = Driver("- {step: a, tool: {kind: http, url: u}}")
    move = driver.run()
    assert isinstance(move, RunTask)
    assert (move.scopes["_task"], move.scopes["_attempt"], move.scopes["task_key"]) == ("a", 1, "x/a-1/a")


def test_the_set_of_a_rule_that_fails_is_applied() -> None:
    driver = Driver(policy("{else: {then: {do: fail, message: 'no {{ ctx.why }}', set: {ctx.why: luck}}}}"))
    driver.run(ERROR)
    done = next(fact for fact in driver.facts if fact.name == "task.done")
    assert done.payload["set"] == {"ctx.why": "luck"}
    assert driver.end.payload["output"]["error"]["message"] == "no luck: 503"


def test_what_a_skipped_task_tried_before_is_forgotten_too() -> None:
    driver = Driver(
        policy("{else: {then: {do: continue}}}").replace(
            "name: two, kind: http, url: u",
            "name: two, kind: http, url: u, spec: {policy: {rules: ["
            + RETRY
            + ", {else: {then: {do: skip}}}]}}}, {name: three, kind: http, url: '{{ output.data }}'",
        )
    )
    move = driver.run(ok("first"), ERROR, ok("second"))
    assert isinstance(move, RunTask)
    assert move.scopes["output"]["data"] == "first"
    again = driver.new_frame()
    replay.resume(again, [_event(fact) for fact in driver.facts if fact.task is not None])
    assert again.scopes["output"]["data"] == "first"


@pytest.mark.parametrize("then", ["do: jump, to: one", "do: retry, attempts: 200000, delay: 0"])
def test_a_task_that_can_never_start_is_given_up_like_any_other(then: str) -> None:
    rules = "[{when: '{{ _attempt < 3000 }}', then: {" + then + "}}]"
    driver = Driver(
        "- {step: a, spec: {policy: {max_jumps: 3000}}, tool: [{name: one, kind: python, code: 'def main(): pass', "
        "input: {n: '{{ ctx.none }}'}, spec: {policy: {on_unmatched: fail, rules: " + rules + "}}}]}"
    )
    move = driver.run()
    assert isinstance(move, Finish)
    assert driver.end.name == "step.failed"


def test_writes_are_recorded_in_the_order_in_which_they_were_made() -> None:
    driver = Driver(
        "- {step: a, tool: {kind: http, url: u, set: {ctx.a.b: 1}, "
        "spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.a: {c: 2}}}}}]}}}}"
    )
    driver.run(ok())
    again = driver.new_frame()
    replay.resume(again, [_event(fact) for fact in driver.facts if fact.task is not None])
    assert again.scopes["ctx"] == driver.frame.scopes["ctx"] == {"a": {"c": 2}}
