"""A log may be cut at any event and gone on with: what is kept holds, what was cut off is decided and done again."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from corpus import CONFLUENT, HEAD, RACES
from in_memory_node import CATALOG, House, Signal, net_of, outcome

from noetl.history.fork import Fork, ForkTarget, build_fork
from noetl.model.events import Event, epoch_seconds
from noetl.model.output import Output, failed, failure, ok
from noetl.model.requests import Pause

#: decisions that leave no trace of what caused them, and times that count from the start
SPECIAL = {
    "failing set": """
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.x: "{{ output.data.no.such }}"}, next: {arcs: [{step: b, when: "{{ event.name == 'step.failed' }}"}]}}
- {step: b, tool: {kind: shell, cmd: x}, set: {ctx.kind: "{{ steps.a.status.failure.kind }}"}}
""",
    "timeout that writes": """
- {step: a, spec: {policy: {lifecycle: {timeout_s: 5}}}, tool: {kind: wait, seconds: 100}, set: {ctx.late: 1}, next: {arcs: [{step: b, when: true}]}}
- {step: b, tool: {kind: shell, cmd: x}}
""",
    "deadline": """
- {step: a, tool: {kind: wait, seconds: 10}, next: {arcs: [{step: b}]}}
- {step: b, spec: {policy: {lifecycle: {deadline_s: 60}}}, tool: {kind: shell, cmd: x}}
""",
    "bad input": """
- {step: a, input: {x: "{{ ctx.no.such }}"}, tool: {kind: shell, cmd: x}, next: {arcs: [{step: b, when: true}]}}
- {step: b, loop: {in: "{{ 3 }}", iterator: n}, tool: {kind: shell, cmd: x}, next: {arcs: [{step: c, when: true}]}}
- {step: c, loop: {in: [1, 2], iterator: n}, input: {x: "{{ iter.no.such }}"}, tool: {kind: shell, cmd: x}}
""",
    "routers in loops": """
- {step: a, loop: {in: [[1], [2, 3]], iterator: g, loop: {in: "{{ iter.g }}", iterator: n}}, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end}
""",
}
CONFLUENT = CONFLUENT | SPECIAL
NETS = {name: net_of(HEAD + text) for name, text in (CONFLUENT | RACES).items()}
#: seconds between an event and the fork behind it
PAUSE = 1_000_000.0


def settled(call: Any) -> Output:
    """Requests fail on some first attempts, always the same ones, whichever execution asks."""
    number = sum(call.key.partition("/")[2].encode())
    if call.kind == "http" and call.attempt == 1 and number % 3 == 0:
        return failed(failure("http-status", "503", retryable=True), http={"status": 503, "headers": {}})
    return ok({"n": number % 7}, http={"status": 200, "headers": {}})


def node(name: str, **settings: Any) -> House:
    made = House(NETS[name], tool=settled, **settings)
    made.signals = [Signal("go", {"n": 7}, number=1), Signal("go", {"n": 8}, number=2)] if "signal" in name else []
    return made


def later(event: Event) -> str:
    return datetime.fromtimestamp(epoch_seconds(event.timestamp) + PAUSE, UTC).isoformat(timespec="microseconds")


def cut(name: str, events: list[Event], seq: int, target: str = "y") -> Fork:
    ids = (f"{target}-id-{number}" for number in itertools.count(1))
    return build_fork(
        events[:seq],
        ForkTarget(target, NETS[name], "hash", None, later(events[seq - 1])),
        CATALOG,
        ended=frozenset(),
        new_child=lambda: next(ids),
        new_id=lambda: next(ids),
    )


def gone_on(name: str, made: Fork, **settings: Any) -> House:
    """The execution that a fork begins, run to its end."""
    follower = node(name, **settings)
    follower.now = epoch_seconds(made.events[made.seq].timestamp)
    heard = sum(event.name == "signal.received" for event in made.events)
    del follower.signals[:heard]
    follower.go_on(made.events)
    return follower


def ended_tasks(events: list[Event]) -> set[str]:
    """The tasks whose result is recorded and final."""
    return {e.task_run_id or "" for e in events if e.name == "task.done" and e.payload["do"] != "retry"}


@pytest.mark.parametrize("name", CONFLUENT)
def test_forked_at_any_event_a_run_ends_as_the_original_did(name: str) -> None:
    original = node(name)
    expected = outcome(original.run())
    events = original.events()
    for seq in range(1, len(events) - 1):
        made = cut(name, events, seq)
        follower = gone_on(name, made)
        assert outcome(follower.state) == expected, f"event {seq} of {len(events)}"
        again = {key.partition("/")[2] for key, _ in follower.ledger}
        assert not again & ended_tasks(events[:seq]), f"event {seq}: what was done is done again"
        assert all(key.startswith("y/") for key, _ in follower.ledger)


@pytest.mark.parametrize("name", CONFLUENT | RACES)
def test_what_is_kept_stands_in_the_new_log_as_it_was(name: str) -> None:
    original = node(name, seed=3)
    original.run()
    events = original.events()
    for seq in range(1, len(events) - 1):
        made = cut(name, events, seq)
        kept = made.events[:seq]
        assert [(e.seq, e.name, e.timestamp, e.step_run_id, e.iteration) for e in kept] == [
            (e.seq, e.name, e.timestamp, e.step_run_id, e.iteration) for e in events[:seq]
        ]
        assert made.events[seq].name == "execution.forked"
        assert {event.execution_id for event in made.events} == {"y"}
        assert all((event.parent_id or "y-0").startswith("y-") for event in made.events)


def test_a_pause_that_is_kept_ends_with_the_fork() -> None:
    original = node("parallel loop")
    original.start()
    for _ in range(4):
        original.tick()
    original.happen(Pause())
    for _ in range(10):
        original.tick()
    events = original.events()
    assert original.state.paused
    for seq in range(2, len(events) + 1):
        follower = gone_on("parallel loop", cut("parallel loop", events, seq))
        assert follower.state.status == "completed"
        assert not follower.state.paused


def test_a_date_that_is_waited_for_does_not_move() -> None:
    NETS["date"] = net_of(HEAD + "- {step: a, tool: {kind: wait, until: '1980-01-01T00:00:00Z'}}")
    original = node("date")
    original.start()
    original.tick()
    made = cut("date", original.events(), len(original.log))
    pipe = made.state.runs["a-1"].pipe
    assert pipe is not None
    assert pipe.wait is not None
    assert pipe.wait.until == epoch_seconds("1980-01-01T00:00:00+00:00")


@pytest.mark.parametrize("name", RACES)
def test_a_race_that_is_forked_in_its_middle_ends_soundly(name: str) -> None:
    for seed in range(4):
        original = node(name, seed=seed)
        original.run()
        events = original.events()
        for seq in range(1, len(events) - 1):
            follower = gone_on(name, cut(name, events, seq), seed=seed + 1, faults=0.1)
            assert follower.state.over, f"seed {seed}, event {seq}"


@pytest.mark.parametrize("name", ["nested loops", "gate", "signal", "timeout", "cycle", "stalled"])
def test_a_fork_can_be_forked_again_at_any_of_its_events(name: str) -> None:
    original = node(name)
    expected = outcome(original.run())
    for first in range(2, len(original.log), 3):
        follower = gone_on(name, cut(name, original.events(), first))
        events = follower.events()
        for second in range(2, len(events), 2):
            again = gone_on(name, cut(name, events, second, target="z"))
            assert outcome(again.state) == expected, f"event {first}, then {second}"
