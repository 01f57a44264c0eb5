"""The way back: recorded values where they are real, and tasks that run again where they were redacted."""

from __future__ import annotations

from typing import Any

from test_machine import Driver, _event

from noetl.model.events import Event
from noetl.model.output import failed, failure, ok
from noetl.pipeline.machine import RunTask
from noetl.pipeline.replay import Replay, ends_to_rerun

MASK = "[redacted]"


def done(seq: int, **payload: Any) -> Event:
    payload = {"output": ok(seq), "do": "continue", **payload}
    return Event("", "x", seq, "2026-01-01T00:00:00+00:00", "worker", "task.done", "task", "a.t", "success", payload)


def test_an_output_is_wanted_only_while_it_is_in_sight() -> None:
    secret = {"redacted": ["output"]}
    assert ends_to_rerun([done(1), done(2, **secret)]) == {2}
    assert ends_to_rerun([done(1, **secret), done(2)]) == set()
    assert ends_to_rerun([done(1, **secret), done(2, do="skip")]) == {1}
    assert ends_to_rerun([done(1, **secret), done(2, **secret)]) == {
        1,
        2,
    }  # what runs again may read what was before it


def test_a_value_that_was_set_is_wanted_until_it_is_overwritten() -> None:
    secret = {"redacted": ["step.t"], "set": {"step.t": MASK}}
    assert ends_to_rerun([done(1, **secret), done(2)]) == {1}
    assert ends_to_rerun([done(1, **secret), done(2, set={"step.t": "plain"})]) == set()
    assert ends_to_rerun([done(1, **secret), done(2, set={"step.other": "plain"})]) == {1}


def test_a_failed_task_is_not_run_again_for_the_words_of_its_error() -> None:
    error = failed(failure("python", f"denied for {MASK}"))
    assert ends_to_rerun([done(1, output=error, redacted=["output"])]) == set()


STEP = """
- step: a
  tool:
    - {name: login, kind: shell, cmd: u, input: {n: "{{ step.n | default(1) }}"}, set: {step.token: "{{ output.data.t }}", step.id: "{{ output.data.id }}"}}
    - {name: two, kind: shell, cmd: u}
    - {name: three, kind: shell, cmd: u, input: {token: "{{ step.token }}", id: "{{ step.id }}"}}
"""


def recorded(driver: Driver) -> list[Event]:
    """The facts of a pipeline as the log has them, with the token taken out."""
    events = []
    for seq, fact in enumerate(driver.facts, 1):
        event = _event(fact)
        payload = event.payload
        if fact.name == "task.done" and "token.real" in str(payload):
            payload = {**payload, "redacted": ["output", "step.token"]}
            payload["output"] = {**payload["output"], "data": {"t": MASK, "id": 7}}
            payload["set"] = {**payload["set"], "step.token": MASK}
        changed = {name: getattr(event, name) for name in Event.__struct_fields__}
        events.append(Event(**{**changed, "seq": seq, "payload": payload}))
    return events


def test_a_task_runs_again_at_its_place_and_what_was_recorded_stays() -> None:
    driver = Driver(STEP)
    driver.run(ok({"t": "token.real", "id": 7}), ok(2))
    again = Driver(STEP)
    replay = Replay(again.frame, recorded(driver))
    assert not replay.done
    move = replay.next()
    assert isinstance(move, RunTask)
    assert (move.task.name, move.input, move.task_run_id) == ("login", {"n": 1}, driver.facts[1].task_run_id)
    # The second answer may differ in what was not secret: what was recorded counts.
    assert replay.take(ok({"t": "token.real", "id": 8})) is None
    assert replay.done
    assert again.frame.task.name == "three"
    assert again.frame.scopes["step"] == {"token": "token.real", "id": 7}
    assert again.frame.number == driver.frame.number


def test_a_task_that_fails_when_it_runs_again_ends_the_way_back() -> None:
    driver = Driver(STEP)
    driver.run(ok({"t": "token.real", "id": 7}), ok(2))
    replay = Replay(Driver(STEP).frame, recorded(driver))
    lost = replay.take(failed(failure("http-status", "503", retryable=True)))
    assert lost is not None
    assert lost["kind"] == "http-status"
    assert "task `login` had to run again" in lost["message"]


def test_what_cannot_run_again_goes_on_with_what_was_recorded() -> None:
    driver = Driver(STEP)
    driver.run(ok({"t": "token.real", "id": 7}), ok(2))
    again = Driver(STEP)
    replay = Replay(again.frame, recorded(driver))
    replay.keep()
    assert replay.done
    assert again.frame.scopes["step"]["token"] == MASK
