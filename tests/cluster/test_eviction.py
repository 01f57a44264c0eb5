"""Executions on their way to bed: who is given something to do meanwhile stays up, whatever becomes of the others."""

from __future__ import annotations

import asyncio

from test_overtaken import report, said, start, station, take

from noetl.model.requests import Signal
from noetl.server.cluster.server_node import ServerNode
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog

WAITS = "- {step: a, tool: {kind: wait, signal: go}}\n"


class Beds:
    """Beds that have to be made first, from which nobody is woken."""

    def __init__(self) -> None:
        self.made = asyncio.Event()
        self.attended = 0

    async def register_waker(self) -> None:
        self.attended += 1

    async def evict(self, sleepers: list[tuple[str, float | None]]) -> None:
        await self.made.wait()

    def find_due(self, ahead_s: float, most: int) -> list[str]:
        return []

    def find_unowned(self, most: int) -> list[str]:
        return []

    def not_owned(self, execution_ids: list[str]) -> list[str]:
        return []


class Claims(MemoryLog):
    """A log that says who owns what when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[str] = []
        self.asked, self.may = asyncio.Event(), asyncio.Event()
        self.may.set()

    async def claim(self, execution_id: str) -> bool:
        self.claimed.append(execution_id)
        self.asked.set()
        await self.may.wait()
        return await super().claim(execution_id)


async def going_to_bed(server: ServerNode) -> tuple[list[LiveExecution], asyncio.Task[None]]:
    """Two executions that wait for a signal, while they are being laid down."""
    eviction = server._eviction
    assert eviction is not None
    executions = [await start(server, WAITS), await start(server, WAITS)]
    for live, given in zip(executions, await take(server, "worker"), strict=True):
        await report(server, "worker", given, said(live, given, waits="go"))
        eviction._touched[live.id] = 0.0
    laying = asyncio.create_task(eviction.evict())
    await asyncio.sleep(0)
    return executions, laying


async def test_who_was_given_work_while_its_bed_was_made_stays_up() -> None:
    log, cluster_store = Claims(), Beds()
    async with station(log, "worker", cluster_store=cluster_store) as server:
        (still, stirred), laying = await going_to_bed(server)
        await server.service.record(stirred.id, [Signal("go")])
        assert not stirred.busy  # all is decided and written, and a worker may come for it
        log.claimed.clear()
        cluster_store.made.set()
        await laying
        assert (list(server.service.live), log.claimed) == ([stirred.id], [stirred.id])
        assert [one.execution_id for one in await take(server, "worker")] == [stirred.id]
        assert still.lost


async def test_who_is_still_sleeps_before_another_is_claimed_again() -> None:
    log, cluster_store = Claims(), Beds()
    async with station(log, "worker", cluster_store=cluster_store) as server:
        (stirred, still), laying = await going_to_bed(server)
        log.asked.clear()
        log.may.clear()
        server.service.post(stirred.id, [Signal("go")])
        cluster_store.made.set()
        await log.asked.wait()
        assert list(server.service.live) == [stirred.id]  # who asks for the other now finds it asleep, and wakes it
        assert still.lost
        log.may.set()
        await laying
        assert list(server.service.live) == [stirred.id]


async def test_a_server_is_known_as_one_who_wakes_others_before_it_runs_anything() -> None:
    cluster_store = Beds()
    async with station(MemoryLog(), "worker", cluster_store=cluster_store) as server:
        eviction = server._eviction
        assert eviction is not None
        await eviction.wake()
        await eviction.wake()
        assert cluster_store.attended == 1
