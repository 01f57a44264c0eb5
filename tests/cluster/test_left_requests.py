"""Requests that others leave: of executions that are not in memory, and over a store that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from test_handing_out import HEAD, until

from noetl.errors import NoetlError
from noetl.model.requests import Signal, encode_request
from noetl.ports import StoreFailed, Summary
from noetl.server.cluster.server_node import ServerNode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.catalog import Catalog
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.tools.registry import ToolKinds

WAITS = "workflow:\n- {step: a, tool: {kind: wait, signal: one}}\n"


class Fickle(MemoryLog):
    """A log that counts how often it is asked, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    def summary(self, execution_id: str) -> Summary | None:
        self.asked += 1
        if self.away:
            raise StoreFailed("it is away")
        return super().summary(execution_id)

    def signals(self, execution_id: str) -> list[str]:
        return [event.payload["signal"] for event in self.read(execution_id) if event.name == "signal.received"]


@asynccontextmanager
async def gone(log: Fickle) -> AsyncIterator[tuple[ServerNode, LiveExecution]]:
    """A server, and an execution of its own that it has not in memory now."""
    async with ServerNode(log, Catalog(ToolKinds()), MemoryRegistry(30.0), lease_s=30.0) as station:
        source, loaded = station.catalog.read(Path("it.yaml"), (HEAD + WAITS).encode())
        assert loaded.net is not None
        live = await station.start(source, loaded.net, {})
        await asyncio.sleep(0.1)
        station.service.give_up(live.id, NoetlError("it could not be written"))
        yield station, live


async def test_what_was_collected_outlasts_a_store_that_fails_behind_it() -> None:
    log = Fickle()
    async with gone(log) as (station, live):
        log.away = True
        log.post(live.id, encode_request(Signal("one")))
        log.post(live.id, encode_request(Signal("two")))
        await asyncio.sleep(0.3)
        log.away = False
        await station.resume(live.id)
        await until(lambda: log.signals(live.id) == ["one", "two"])


async def test_requests_that_came_back_out_of_order_are_handed_on_in_order() -> None:
    log = Fickle()
    async with gone(log) as (station, live):
        bodies = [encode_request(Signal(name)) for name in ("one", "two")]
        station._requests += [(6, live.id, bodies[1]), (5, live.id, bodies[0])]
        await station.resume(live.id)
        await until(lambda: log.signals(live.id) == ["one", "two"])


async def test_a_store_is_not_asked_all_the_time_for_an_execution_that_is_elsewhere() -> None:
    log = Fickle()
    async with gone(log) as (station, live):
        log.post(live.id, encode_request(Signal("one")))
        await until(lambda: bool(station._requests))
        log.asked, since = 0, time.monotonic()
        await asyncio.sleep(0.8)
        assert log.asked <= 1 + (time.monotonic() - since)
