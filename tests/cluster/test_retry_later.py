"""Executions that cannot be gone on with: they are said once, left alone for a while, and keep nobody else waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_handing_out import HEAD, until

from noetl.errors import ExecutionStuck
from noetl.model.events import Event
from noetl.model.requests import Signal
from noetl.ports import LogDamaged, StoreFailed
from noetl.server.cluster.eviction import LATER_S
from noetl.server.cluster.server_node import ServerNode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core import service
from noetl.server.core.catalog import Catalog
from noetl.server.core.control_plane import Effects
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.tools.registry import ToolKinds

WAITS = "workflow:\n- {step: a, tool: {kind: wait, signal: one}}\n"


class Time:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Log(MemoryLog):
    """A log whose executions may be unreadable, for ever or for now."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[str, Exception] = {}
        self.tried: list[str] = []

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        self.tried.append(execution_id)
        if execution_id in self.wrong:
            raise self.wrong[execution_id]
        return super().read(execution_id, after=after, limit=limit)


def station_of(log: Log, clock: Time) -> ServerNode:
    return ServerNode(log, Catalog(ToolKinds()), MemoryRegistry(30.0), lease_s=0.15, effects=Effects(clock=clock))


async def start(station: ServerNode) -> LiveExecution:
    source, loaded = station.catalog.read(Path("it.yaml"), (HEAD + WAITS).encode())
    assert loaded.net is not None
    return await station.start(source, loaded.net, {})


async def test_a_damaged_log_is_told_once_and_tried_again_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    log, clock = Log(), Time()
    async with station_of(log, clock) as station:
        damaged, well = await start(station), await start(station)
        log.wrong[damaged.id] = LogDamaged("it is damaged at event 3")
        for live in (damaged, well):
            station.service.give_up(live.id, StoreFailed("it could not be written"))
        log.tried.clear()
        await until(lambda: well.id in station.service.live)
        await asyncio.sleep(0.5)
        assert log.tried.count(damaged.id) == 1
        clock.ahead += LATER_S
        await until(lambda: log.tried.count(damaged.id) == 2)
        del log.wrong[damaged.id]
        clock.ahead += LATER_S
        await until(lambda: damaged.id in station.service.live)
    said = [line for line in capsys.readouterr().err.splitlines() if damaged.id in line]
    assert said == [
        f"warning: {damaged.id} cannot be gone on with, and is tried again every 60 s: it is damaged at event 3"
    ]


async def test_what_a_mistake_of_ours_stops_is_stuck_and_reported_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    react, mistakes = service.react, []

    def mistaken(net_index: Any, state: Any, happened: list[Any], *more: Any) -> Any:
        if any(isinstance(one, Signal) for one in happened):
            mistakes.append(1)
            raise RuntimeError("a mistake")
        return react(net_index, state, happened, *more)

    monkeypatch.setattr(service, "react", mistaken)
    log, clock = Log(), Time()
    async with station_of(log, clock) as station:
        live = await start(station)
        with pytest.raises(ExecutionStuck, match="a mistake"):
            await station.service.record(live.id, [Signal("one")])
        clock.ahead += 2 * LATER_S
        await asyncio.sleep(0.5)
        assert station.service.live[live.id].state.stuck is not None
    assert len(mistakes) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if live.id in line]
    assert len(said) == 1
    assert "is stuck: RuntimeError: a mistake" in said[0]


async def test_an_execution_is_not_left_alone_for_a_store_that_was_away(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log()
    async with station_of(log, Time()) as station:
        live = await start(station)
        log.wrong[live.id] = StoreFailed("it is away")
        station.service.give_up(live.id, StoreFailed("it is away"))
        log.tried.clear()
        await until(lambda: log.tried.count(live.id) > 2)
        log.wrong.clear()
        await until(lambda: live.id in station.service.live)
    assert capsys.readouterr().err == ""


async def test_a_mistake_in_what_is_done_again_and_again_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with station_of(Log(), Time()) as station:
        monkeypatch.setattr(station.dispatcher.ready, "pools", lambda: 1 / 0)
        said: list[str] = []
        await until(lambda: said.append(capsys.readouterr().err) or "ZeroDivisionError" in said[-1])
        await asyncio.sleep(0.4)
    assert "".join([*said, capsys.readouterr().err]).count("ZeroDivisionError") == 1
