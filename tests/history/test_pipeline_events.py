"""What a pipeline that goes on is told of its past: all that the log has of it, and without reading everybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.history.log_queries import read_pipeline_events
from noetl.model.events import Event, event_id
from noetl.model.orders import RunPipeline
from noetl.model.requests import Signal
from noetl.server.core.service import ExecutionService
from noetl.stores.memory import MemoryLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\nworkflow:\n"
#: a pipeline that is answered three times in each of several iterations, and fails and tries again between
MIXED = (
    HEAD
    + """
- step: outer
  loop: {in: "{{ [0, 1, 2] }}", iterator: i, spec: {mode: parallel}}
  tool:
    - {name: first, kind: wait, seconds: 0.02}
    - name: fails
      kind: shell
      cmd: "false"
      spec: {policy: {rules: [
        {when: "{{ output.status == 'error' and _attempt < 3 }}", then: {do: retry, attempts: 3, delay: 0}},
        {else: {then: {do: continue}}}]}}
    - {name: second, kind: wait, seconds: 0.02}
    - {name: child, kind: playbook, path: other}
  next: {arcs: [{step: alone}]}
- step: alone
  tool:
    - {name: some, kind: noop}
    - {name: held, kind: wait, signal: go}
    - {name: child, kind: playbook, path: other}
"""
)
OTHER = (
    HEAD.replace("it", "other") + "- {step: a, tool: [{name: w, kind: wait, seconds: 0.02}, {name: n, kind: noop}]}\n"
)
WAITS = """
- step: a
  loop: {in: "{{ range(%d) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: %d}}
  tool: {kind: wait, seconds: 0.05}
"""


class Counting(MemoryLog):
    """A log that knows how much was read of it."""

    many = 0

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        found = super().read(execution_id, after=after, limit=limit)
        self.many += len(found)
        return found


Told = list[tuple[list[Event], list[Event]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What pipelines were told, each beside what a look through the whole log finds of their tasks."""
    found: Told = []
    real: Callable[[ExecutionService, str, RunPipeline], list[Event]] = ExecutionService.read_recorded

    def recorded(self: ExecutionService, execution_id: str, order: RunPipeline) -> list[Event]:
        got = real(self, execution_id, order)
        mine = [e for e in self.log.read(execution_id) if e.step_run_id == order.step_run_id]
        found.append((got, [e for e in mine if e.iteration == order.iteration and e.entity_type == "task"]))
        return got

    monkeypatch.setattr(ExecutionService, "read_recorded", recorded)
    return found


def node(home: Path, log: MemoryLog) -> LocalNode:
    return LocalNode(Settings(home=home, environment={}), log)


async def mixed(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(MIXED)
    (tmp_path / "other.yaml").write_text(OTHER)
    log = MemoryLog()
    async with node(tmp_path, log) as first:
        source, loaded = first.catalog.read(file)
        assert loaded.net is not None, loaded.diagnostics
        live = await first.start(source, loaded.net, {})
        while not live.state.listeners:
            await asyncio.sleep(0.01)
    async with node(tmp_path, MemoryLog(beside=log)) as second:
        live = await second.resume(live.id)
        second.service.post(live.id, [Signal("go", {"a": 1})])
        await live.finished
        assert live.state.status == "completed", live.state.error


def test_a_pipeline_is_told_what_the_log_has_of_it_also_after_a_take_over(tmp_path: Path, told: Told) -> None:
    asyncio.run(mixed(tmp_path))
    assert all(got == wanted for got, wanted in told)
    assert max(len(got) for got, _ in told) >= 9  # it has been answered before, and has tried again
    assert len(told) >= 3 * 3 + 2


async def read_back(tmp_path: Path, many: int) -> int:
    log = Counting()
    async with node(tmp_path, log) as one:
        source, loaded = one.catalog.read(tmp_path / "it.yaml", (HEAD + WAITS % (many, many)).encode())
        assert loaded.net is not None, loaded.diagnostics
        live = await one.start(source, loaded.net, {})
        await live.finished
        assert live.state.status == "completed"
    return log.many


def test_what_is_read_for_an_answer_does_not_grow_with_how_many_others_wait(tmp_path: Path) -> None:
    few, many = (asyncio.run(read_back(tmp_path, count)) for count in (20, 80))
    assert many <= 4 * few + 80


def chained(seq: int, cause: int | None) -> Event:
    parent = event_id("x", cause) if cause is not None else None
    return Event(event_id("x", seq), "x", seq, "2026-01-01T00:00:00+00:00", "worker", "task.done", "task", "a.b", "success", {}, parent)  # fmt: skip


@pytest.mark.parametrize("many", [1, 7, 8, 9, 100, 3000])
def test_the_way_back_is_whole_however_long_it_is_and_whatever_stands_between(many: int) -> None:
    log = MemoryLog()
    causes = {seq: seq - 1 if seq % 3 else max(seq - 30, 1) for seq in range(2, many + 2)}
    asyncio.run(log.append([chained(1, None), *(chained(*one) for one in causes.items())], status="running"))
    wanted, at = [], many + 1
    while at > 1:
        wanted.append(at)
        at = causes[at]
    found = read_pipeline_events(log, "x", 1, many + 1)
    assert found is not None
    assert [event.seq for event in found] == wanted[::-1]


def test_there_is_no_way_back_from_what_is_not_written_yet_or_past_the_beginning() -> None:
    log = MemoryLog()
    asyncio.run(log.append([chained(1, None), chained(2, 1), chained(3, 1)], status="running"))
    assert read_pipeline_events(log, "x", 1, 4) is None
    assert read_pipeline_events(log, "x", 2, 3) is None
