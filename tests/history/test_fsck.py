"""The invariants of a log: what breaks one is found, with the event at which it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.history.fsck import check_log
from noetl.history.log_queries import snapshot_of
from noetl.lang.loader import load
from noetl.model.events import Event, event_id
from noetl.model.net import Net
from noetl.model.state import Execution
from noetl.ports import PlaybookSource
from noetl.stores.memory import MemoryLog
from noetl.tools.registry import ToolKinds

pytestmark = pytest.mark.damages

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sample}
workflow:
  - step: each
    loop: {in: [1, 2], iterator: x}
    tool: {kind: noop}
    next: {arcs: [{step: left}, {step: right}]}
  - {step: left, tool: {kind: noop}}
  - {step: right, tool: {kind: noop}}
"""
RUN = "x"


def net() -> Net:
    found = load(TEXT, ToolKinds(), name="sample.yaml").net
    assert found is not None
    return found


async def recorded(folder: Path) -> list[Event]:
    """The events of a real run."""
    async with LocalNode(Settings(folder), MemoryLog()) as node:
        source = PlaybookSource("hash", TEXT, str(folder / "sample.yaml"))
        live = await node.start(source, net(), {}, execution_id=RUN)
        await live.finished
        return node.log.read(RUN)


def numbered(events: list[Event]) -> list[Event]:
    return [
        msgspec.structs.replace(one, seq=seq, event_id=event_id(RUN, seq), parent_id=None)
        for seq, one in enumerate(events, 1)
    ]


def problems(events: list[Event], snapshot: bytes | None = None, status: str = "completed") -> list[tuple[str, str]]:
    async def found() -> list[tuple[str, str]]:
        log = MemoryLog()
        await log.append(numbered(events), status=status, snapshot=snapshot)
        summary = log.summary(RUN)
        assert summary is not None
        return [(one.kind, one.message) for one in check_log(log, summary, net())]

    return asyncio.run(found())


@pytest.fixture
def events(tmp_path: Path) -> list[Event]:
    return asyncio.run(recorded(tmp_path))


def at(events: list[Event], name: str) -> int:
    return next(index for index, event in enumerate(events) if event.name == name)


def test_a_real_run_keeps_every_rule(events: list[Event]) -> None:
    assert problems(events) == []


def twice(name: str) -> Callable[[list[Event]], list[Event]]:
    def change(events: list[Event]) -> list[Event]:
        index = at(events, name)
        return [*events[: index + 1], *events[index:]]

    return change


def changed(name: str, **payload: Any) -> Callable[[list[Event]], list[Event]]:
    def change(events: list[Event]) -> list[Event]:
        index = at(events, name)
        other = msgspec.structs.replace(events[index], payload={**events[index].payload, **payload})
        return [*events[:index], other, *events[index + 1 :]]

    return change


BOTH = [{"to": "left", "taken": True}, {"to": "right", "taken": True}]
BROKEN: dict[str, tuple[Callable[[list[Event]], list[Event]], str, str]] = {
    "an attempt that ends twice": (twice("task.done"), "attempts", "had ended already"),
    "an iteration that starts twice": (twice("loop.iteration.started"), "loops", "had started already"),
    "an iteration that ends twice": (twice("loop.iteration.done"), "loops", "had ended already"),
    "a loop that is done twice": (twice("loop.done"), "loops", "was done already"),
    "a loop that counts wrongly": (changed("loop.done", loop={"completed": 5}), "loops", "counts 5 iterations, 2 have"),
    "arcs that are judged twice": (twice("next.evaluated"), "routing", "had been judged already"),
    "an exclusive step with two ways": (changed("next.evaluated", arcs=BOTH), "routing", "took 2 arcs: left, right"),
    "an end behind the end": (twice("playbook.processed"), "terminal", "comes behind playbook.processed"),
    "an event without its beginning": (lambda events: [events[0], *events[4:]], "replay", "makes no sense here"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_rule_is_found(events: list[Event], name: str) -> None:
    change, kind, said = BROKEN[name]
    found = problems(change(events))
    assert any(one == kind and said in message for one, message in found), found


def test_what_still_runs_behind_the_end_is_found(events: list[Event]) -> None:
    index = at(events, "step.done")
    found = problems([*events[:index], *events[-2:]])
    assert ("finish", "it is over, but each-1 still runs") in found


def test_a_snapshot_that_is_not_what_the_events_yield_is_found(events: list[Event]) -> None:
    wrong = snapshot_of(Execution(RUN, status="completed"))
    found = problems(events, wrong)
    assert [kind for kind, _ in found] == ["snapshot"]
    assert "steps" in found[0][1]
    assert problems(events, b"\xc1")[0][0] == "snapshot"


def test_a_summary_that_says_something_else_is_found(events: list[Event]) -> None:
    assert problems(events, status="running") == [("summary", "the summary says running, the events say completed")]
