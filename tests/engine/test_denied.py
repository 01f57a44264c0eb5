"""A pipeline that may not go on: its step fails, or the iteration that it is, and nothing else."""

from __future__ import annotations

from corpus import HEAD
from in_memory_node import House, net_of

from noetl.model.output import failure
from noetl.model.requests import Denied, Signal, decode_request, encode_request

LOOP = """
- step: a
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: wait, signal: go}
"""
ERROR = failure("concurrency", "no room")


def waiting(steps: str, listeners: int) -> House:
    made = House(net_of(HEAD + steps))
    made.start()
    while len(made.state.listeners.get("go", ())) < listeners:
        assert made.tick()
    return made


def test_the_step_fails_with_the_error_that_was_given() -> None:
    made = waiting("- {step: a, tool: {kind: wait, signal: go}}", 1)
    made.happen(Denied("a-1", None, ERROR))
    assert made.state.status == "failed"
    assert made.state.error is not None
    assert made.state.error["kind"] == "concurrency"


def test_of_a_loop_the_iteration_fails_and_listens_no_more() -> None:
    made = waiting(LOOP, 3)
    made.happen(Denied("a-1", 1, ERROR))
    assert sorted(made.state.listeners["go"]) == [("a-1", (0,)), ("a-1", (2,))]
    made.happen(Signal("go"), Signal("go"))
    while made.tick():
        pass
    assert made.state.status == "completed"
    assert made.state.steps["a"].loop == {"total": 3, "completed": 3, "succeeded": 2, "failed": 1}


def test_what_has_ended_already_is_not_ended_again() -> None:
    made = waiting(LOOP, 3)
    made.happen(Denied("a-1", 1, ERROR))
    before = made.state.seq
    made.happen(Denied("a-1", 1, ERROR), Denied("a-2", None, ERROR))
    assert made.state.seq == before


def test_it_can_be_left_for_another_process() -> None:
    asked = Denied("a-1", "0.1", dict(ERROR))
    assert decode_request(encode_request(asked), 7) == Denied("a-1", "0.1", dict(ERROR), number=7)
