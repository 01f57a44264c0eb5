"""Decisions that take too long, or fail: the execution is set aside, and nothing else stands still."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import ExecutionStuck
from noetl.model.requests import Cancel, Resume, Signal
from noetl.server.core import LiveExecution, Watchdog, resume_unowned, service
from noetl.stores import SqliteLog

BOUND_S = 0.3
WAITS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits}
workflow:
  - step: start
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: done}
"""


def spin() -> None:
    """Keep the processor busy, as a template would that nothing else stopped."""
    while True:
        sum(range(1_000))


def swallow() -> None:
    """The same, inside of code that takes every failure for one of its own."""
    while True:
        with contextlib.suppress(Exception):
            sum(range(1_000))


@pytest.fixture
def watchdog(tmp_path: Path) -> Any:
    found = Watchdog(tmp_path / "marks", bound_s=BOUND_S)
    yield found
    found.close()


@pytest.mark.parametrize("work", [spin, swallow])
def test_a_decision_without_end_is_ended(watchdog: Watchdog, work: Any) -> None:
    with pytest.raises(ExecutionStuck, match=r"more than 0\.3 s of processor time"):
        watchdog.run("x", work)
    assert watchdog.run("x", lambda: 1) == 1


def test_a_decision_that_sleeps_is_not_ended_for_the_time_on_the_wall(watchdog: Watchdog) -> None:
    def decide() -> int:
        time.sleep(3 * BOUND_S)
        return 1

    assert watchdog.run("x", decide) == 1


def test_what_a_decision_raises_is_passed_on(watchdog: Watchdog) -> None:
    with pytest.raises(ZeroDivisionError):
        watchdog.run("x", lambda: 1 // 0)


def test_an_end_that_comes_too_late_reaches_nothing_that_follows(watchdog: Watchdog) -> None:
    """The exception is raised for the thread, and the decision ends before it arrives."""
    main = threading.get_ident()

    def interrupt(number: int, decided: threading.Event) -> None:
        decided.wait()
        watchdog._interrupt((number, "x"), main)

    for number in range(1, 201):
        decided = threading.Event()

        other = threading.Thread(target=interrupt, args=(number, decided))
        other.start()
        with contextlib.suppress(ExecutionStuck):  # it may arrive in time
            watchdog.run("x", decided.set)
        other.join()
        sum(range(2_000))


def test_two_ends_of_the_process_in_long_decisions_set_the_execution_aside(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    for _ in range(2):
        dying = Watchdog(marks)
        dying.check("x")
        dying._under_way = (1, "x")
        dying._mark((1, "x"))
    with pytest.raises(ExecutionStuck, match="the process ended 2 times"):
        Watchdog(marks).check("x")
    Watchdog(marks).check("x")  # it was told once


def test_a_long_decision_that_ends_leaves_no_mark(tmp_path: Path) -> None:
    watchdog = Watchdog(tmp_path / "marks")
    watchdog.run("x", lambda: watchdog._mark((1, "x")))
    assert not list((tmp_path / "marks").iterdir())


# --- executions --------------------------------------------------------------------------------------------------------


class Poison:
    """Makes the decisions about signals endless."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = False
        self._react = service.react
        monkeypatch.setattr(service, "react", self._decide)

    def _decide(self, index: Any, state: Any, happened: Any, *rest: Any) -> Any:
        if not self.taken and any(isinstance(one, Signal) for one in happened):
            spin()
        return self._react(index, state, happened, *rest)


def run(coroutine: Any) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))


async def open_node(home: Path) -> LocalNode:
    settings = Settings(home)
    node = LocalNode(settings, SqliteLog(settings.database))
    node.service.watchdog._bound_s = BOUND_S
    return node


async def start(node: LocalNode, tmp_path: Path) -> LiveExecution:
    file = tmp_path / "waits.yaml"
    file.write_text(WAITS)
    source, loaded = node.catalog.read(file)
    assert loaded.net is not None
    live = await node.start(source, loaded.net, {})
    while "go" not in live.state.listeners:
        await asyncio.sleep(0.01)
    return live


def names(node: LocalNode, execution_id: str) -> list[str]:
    return [event.name for event in node.log.read(execution_id)]


def test_an_execution_whose_decision_takes_too_long_is_stuck_until_it_is_unpaused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        poison = Poison(monkeypatch)
        async with await open_node(tmp_path / "home") as node:
            lines: list[str] = []
            node.print_line = lines.append
            live = await start(node, tmp_path)
            with pytest.raises(ExecutionStuck):
                await node.service.record(live.id, [Signal("go", None)])
            with pytest.raises(ExecutionStuck):
                await live.finished
            summary = node.log.summary(live.id)
            assert summary is not None
            assert summary.status == "stuck"
            assert names(node, live.id)[-1] == "execution.stuck"
            assert any("stuck" in line and f"noetl unpause {live.id}" in line for line in lines)

            other = await start(node, tmp_path)  # the rest goes on
            poison.taken = True
            await node.service.record(other.id, [Signal("go", None)])
            await other.finished

            aside = node.service.live[live.id]
            await node.service.record(live.id, [Signal("go", 1)])  # nothing is decided
            assert names(node, live.id)[-1] == "execution.stuck"
            await node.service.record(live.id, [Resume()])
            await node.service.record(live.id, [Signal("go", 1)])
            await aside.finished
            assert aside.state.status == "completed"

    run(main())


def test_a_stuck_execution_is_not_evaluated_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        Poison(monkeypatch)
        async with await open_node(tmp_path / "home") as node:
            live = await start(node, tmp_path)
            with pytest.raises(ExecutionStuck):
                await node.service.record(live.id, [Signal("go", None)])
        decided: list[str] = []
        monkeypatch.setattr(service, "find_pending_orders", lambda *_: decided.append("orders"))
        async with await open_node(tmp_path / "home") as node:
            assert await resume_unowned(node) == []
            assert node.service.live[live.id].state.stuck is not None
            assert not decided
            await node.service.record(live.id, [Cancel("enough")])
            assert names(node, live.id)[-1] == "playbook.processed"

    run(main())


def test_a_mistake_of_ours_in_a_decision_sets_the_execution_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        def broken(*_: Any) -> Any:
            raise KeyError("x")

        async with await open_node(tmp_path / "home") as node:
            live = await start(node, tmp_path)
            monkeypatch.setattr(service, "react", broken)
            with pytest.raises(ExecutionStuck, match="KeyError"):
                await node.service.record(live.id, [Signal("go", None)])
            state = node.service.load(live.id)
            assert state.stuck is not None
            assert "KeyError" in state.stuck

    run(main())


def test_a_start_that_takes_too_long_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(service, "open_execution", lambda *_: spin())
        async with await open_node(tmp_path / "home") as node:
            with pytest.raises(ExecutionStuck):
                await start(node, tmp_path)
            assert node.log.summaries() == []

    run(main())
