"""Whether a log fits another playbook: what does not is named, with the event and the way out."""

from __future__ import annotations

import pytest

from noetl.engine.fold import apply
from noetl.history.fork import misfits
from noetl.lang.loader import load
from noetl.model.events import EVENTS, Event, event_id
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
PIPE = "  - {step: a, tool: [{name: one, kind: shell, cmd: x}, {name: two, kind: wait, signal: s}]}\n"
LOOP = "  - {step: a, loop: {in: [1, 2], iterator: n}, tool: [{name: one, kind: shell, cmd: x}]}\n"


def net(text: str) -> Net:
    loaded = load(HEAD + text, ToolKinds())
    assert loaded.net is not None, loaded.diagnostics
    return loaded.net


def event(seq: int, name: str, step: str = "a", task: str | None = None, **more: object) -> Event:
    entity = step if task is None else f"{step}.{task}"
    iteration = more.pop("iteration", None)
    run = None if EVENTS[name].entity_type in ("playbook", "workflow") else f"{step}-1"
    where = run if iteration is None else f"{run}/{iteration}"
    return Event(
        event_id("x", seq), "x", seq, "2026-01-01T00:00:00+00:00", "worker", name, EVENTS[name].entity_type, entity,
        "success", dict(more), None, run, None if task is None else f"{where}/{task}",
        iteration if isinstance(iteration, int) else None, 1,
    )  # fmt: skip


OPENING = [
    event(1, "playbook.execution.requested", "t", workload={}, playbook="h"),
    event(2, "playbook.request.evaluated", "t"),
    event(3, "workflow.started", "t"),
    event(4, "step.scheduled", **{"from": []}),  # type: ignore[arg-type]
    event(5, "step.started"),
]
#: at its second task, which waits for a signal
WAITING = [
    *OPENING,
    event(6, "task.started", task="one"),
    event(7, "task.done", task="one", output={"data": 1, "error": None}, do="continue"),
    event(8, "task.started", task="two", wait={"signal": "s"}),
]
LOOPING = [
    *OPENING,
    event(6, "loop.started", items=[1, 2], mode="sequential"),
    event(7, "loop.iteration.started", iteration=0),
    event(8, "task.started", task="one", iteration=0),
]


def found(text: str, events: list[Event]) -> list[tuple[str, int]]:
    state = Execution("x")
    for one in events:
        apply(state, one)
    return [(one.message, one.keep) for one in misfits(net(text), events, state)]


@pytest.mark.parametrize(("text", "events"), [(PIPE, WAITING), (LOOP, LOOPING)], ids=["pipeline", "loop"])
def test_a_log_fits_the_playbook_that_made_it(text: str, events: list[Event]) -> None:
    # In the middle of a decision there is nothing to judge yet: a loop is scheduled before it begins.
    for length in (1, 2, 3, 6, 7, 8):
        assert found(text, events[:length]) == []


def test_tasks_behind_the_one_under_way_may_change() -> None:
    assert found(PIPE.replace("signal: s}", "signal: s}, {name: three, kind: noop}"), WAITING) == []
    assert found(PIPE.replace("cmd: x", "cmd: y"), WAITING) == []


@pytest.mark.parametrize(
    ("text", "events", "said", "keep"),
    [
        (PIPE.replace("step: a", "step: b"), WAITING, "there is no step `a` any more, which has run", 3),
        (PIPE.replace("name: one", "name: uno"), WAITING, "at task `one`, where there is `uno` now", 4),
        (PIPE.replace(", {name: two, kind: wait, signal: s}", ""), WAITING, "at task `two`, where there is no task", 4),
        (PIPE.replace("kind: wait, signal: s", "kind: shell, cmd: z"), WAITING, "is of another kind now", 7),
        (LOOP, WAITING, "step `a` is under way, and has a loop now", 3),
        (PIPE, LOOPING, "step `a` is under way, and has no loop any more", 3),
        (LOOP.replace("iterator: n", "iterator: n, loop: {in: [1], iterator: m}"), LOOPING, "nested differently", 3),
        ("  - {step: a, next: {arcs: [{terminate: completed}]}}\n", WAITING, "has no task any more", 3),
    ],
)
def test_what_does_not_fit_is_named_with_the_last_event_to_keep(
    text: str, events: list[Event], said: str, keep: int
) -> None:
    [(message, way)] = found(text, events)
    assert said in message
    assert way == keep


def test_a_step_the_run_was_to_begin_or_end_with_must_be_there() -> None:
    opening = event(1, "playbook.execution.requested", "t", workload={}, playbook="h", entry_step="z", return_step="y")
    assert [message for message, _ in found(PIPE, [opening])] == [
        "there is no step `z`, with which the run began",
        "there is no step `y`, with which the run was to end",
    ]
