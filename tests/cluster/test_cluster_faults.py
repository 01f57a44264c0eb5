"""Faults between servers and workers in one process: messages that go undelivered, clocks that jump, two who think they own the same."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter as Count
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fleet import serving, working
from servers import Database
from waiting import until

from noetl.errors import ServerUnavailable, UnexpectedAnswer
from noetl.model.events import Fact
from noetl.model.requests import Signal
from noetl.model.wire import HeldPipeline, PipelineReport, ServerReply, WorkerMessage
from noetl.ports import PlaybookSource
from noetl.server.cluster.server_node import ServerNode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.catalog import Catalog
from noetl.server.core.control_plane import Effects
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry
from noetl.stores.verify import verify_store
from noetl.tools.registry import ToolKinds
from noetl.worker.link import ServerLink

HEAD = b"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: faulty, path: faulty}\nworkflow:\n"
CHAIN = b"""
- step: first
  tool: {kind: python, code: "result = 1"}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ range(12) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 6}}
  tool: [{name: a, kind: noop, output: "{{ iter.n }}"}, {name: b, kind: noop, output: "{{ iter.n * 2 }}"}]
  set: {ctx.all: "{{ output.data }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.all | sum }}"}}
"""
LONG = b"""
- {step: only, tool: {kind: python, code: "import time; time.sleep(3); result = 1"}}
"""
WAITS = b"""
- {step: rest, tool: {kind: wait, signal: go}, next: {arcs: [{step: end}]}}
- {step: end}
"""


#: outlasts whatever holds this process up
LEASE_S = 60.0


def read(station: ServerNode, folder: Path, text: bytes) -> tuple[PlaybookSource, Any]:
    source, loaded = station.catalog.read(folder / "faulty.yaml", HEAD + text)
    assert loaded.net is not None, loaded.diagnostics
    return source, loaded.net


async def begun(station: ServerNode, folder: Path, text: bytes) -> LiveExecution:
    return await station.start(*read(station, folder, text), {})


def faulty(
    exchange: Callable[[WorkerMessage], Awaitable[ServerReply]], chance: random.Random
) -> Callable[[WorkerMessage], Awaitable[ServerReply]]:
    """Messages that are lost on either way, late, doubled, and behind others that were said after them."""
    late: set[asyncio.Task[Any]] = set()

    async def said_later(message: WorkerMessage) -> None:
        await asyncio.sleep(chance.uniform(0, 0.3))
        await exchange(message)

    async def say(message: WorkerMessage) -> ServerReply:
        fate = chance.random()
        if fate < 0.1:
            raise ServerUnavailable("lost on its way there")
        if fate < 0.2:
            await exchange(message)
            raise ServerUnavailable("lost on its way back")
        if fate < 0.4:
            task = asyncio.create_task(said_later(message))  # a copy, whose answer nobody hears
            late.add(task)
            task.add_done_callback(lambda done: (late.discard(done), done.exception()))
        if fate < 0.5:
            await asyncio.sleep(chance.uniform(0, 0.2))
        return await exchange(message)

    return say


@pytest.mark.slow
async def test_messages_that_are_lost_doubled_late_and_out_of_order_change_nothing(tmp_path: Path) -> None:
    log, chance = MemoryLog(), random.Random(3)
    async with serving(log, MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "w") as worker:
        for link in worker.agent.links:
            link.exchange = faulty(link.exchange, chance)  # type: ignore[method-assign]
        started = [await begun(server.station, tmp_path, CHAIN) for _ in range(8)]
        await asyncio.gather(*(live.finished for live in started))
        for live in started:
            assert (live.state.status, live.state.output) == ("completed", 132), live.state.error
            ends = Count(
                (e.step_run_id, e.iteration, e.task_run_id) for e in log.read(live.id) if e.name == "task.done"
            )
            assert set(ends.values()) == {1}, "an end was taken twice"
            assert len(ends) == 1 + 24 + 1


@pytest.mark.slow
async def test_clocks_that_jump_by_years_take_nothing_from_those_who_have_it(tmp_path: Path) -> None:
    log, ahead = MemoryLog(), 0.0

    async def jump() -> None:
        nonlocal ahead
        for year in (10, -10, 3, -7, 10, 0):
            await asyncio.sleep(0.5)
            ahead = year * 31_557_600.0

    effects = Effects(clock=lambda: time.time() + ahead)
    async with (
        serving(log, MemoryRegistry(60.0), tmp_path, effects=effects) as server,
        working([server.url], tmp_path / "w") as worker,
    ):
        live = await begun(server.station, tmp_path, LONG)
        name = worker.agent.name
        await asyncio.gather(live.finished, jump())
        assert live.state.status == "completed"
        assert worker.agent.name == name, "it was taken for dead"
        assert [line for _, line in log.lines(live.id) if "refused" in line.text] == []
        stamps = [event.timestamp for event in log.read(live.id)]
        assert stamps == sorted(stamps), "recorded times go back"


async def test_a_worker_that_dies_while_it_waits_for_work_is_given_none(tmp_path: Path) -> None:
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        station = server.station
        await station.registry.renew("gone", {})
        asking = asyncio.create_task(
            station.worker_api.serve(WorkerMessage("gone", pools=["default"], room=5, wait=20))
        )
        await asyncio.sleep(0.05)
        station.worker_api.give_up("gone")
        await begun(station, tmp_path, CHAIN)
        reply = await asking
        assert reply.lost
        assert reply.assignments == []
        await station.registry.renew("here", {})
        found = await station.worker_api.serve(WorkerMessage("here", pools=["default"], room=5, wait=20))
        assert [one.order.step for one in found.assignments] == ["first"]


@pytest.mark.parametrize("name", ["old", "new"])
async def test_a_late_report_is_refused_and_recorded_whatever_its_worker_calls_itself(
    tmp_path: Path, name: str
) -> None:
    log, registry = MemoryLog(), MemoryRegistry(60.0)
    async with serving(log, registry, tmp_path) as server:
        station = server.station
        await station.registry.renew("old", {})
        live = await begun(station, tmp_path, CHAIN)
        given = (await station.worker_api.serve(WorkerMessage("old", pools=["default"], room=5, wait=20))).assignments[
            0
        ]
        registry._until["old"] = 0.0
        for worker in (await station.registry.give_up()).given_up:
            station.worker_api.give_up(worker)
        if name == "new":
            await station.registry.renew("new", {})
        fact = Fact("step.started", given.order.step_run_id, {}, "in_progress")
        late = PipelineReport(live.id, given.order.step_run_id, given.order.iteration, given.fence, [fact])
        seq = live.state.seq
        reply = await station.worker_api.serve(WorkerMessage(name, [late], pools=["default"]))
        assert reply.lost or reply.refused == [0]
        assert live.state.seq == seq
        assert any("refused: step.started" in line.text for _, line in log.lines(live.id))


async def test_an_answer_that_is_none_is_asked_for_again() -> None:
    class Odd(ServerLink):
        async def _call(self, *_: Any, **__: Any) -> bytes:
            return b"<html>"

    with pytest.raises(UnexpectedAnswer, match="did not answer as a NoETL server does"):
        await Odd("http://127.0.0.1:1", None).exchange(WorkerMessage("me"))


@pytest.mark.slow
async def test_of_two_servers_that_go_on_with_the_same_execution_the_log_lets_one_win(
    tmp_path: Path, database: Database
) -> None:
    logs = [PostgresLog(database.url, lease_s=LEASE_S) for _ in range(2)]
    catalog = Catalog(ToolKinds())
    stations = [
        ServerNode(log, catalog, PgRegistry(database.url, LEASE_S), lease_s=2.0, cluster_store=None) for log in logs
    ]
    async with stations[0] as one, stations[1] as two:
        started = [await begun(one, tmp_path, WAITS) for _ in range(20)]
        net = started[0].net
        others = [await two.service.take_over(live.id, net) for live in started]  # as if nobody owned it
        told = await asyncio.gather(
            *(
                station.service.record(live.id, [Signal("go", {"by": number})])
                for live in started
                for number, station in enumerate((one, two))
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(one, BaseException) for one in told) == len(started), "one of two loses"
        assert sum(live.lost for live in (*started, *others)) == len(started)
        for live in started:
            assert [event.name for event in logs[0].read(live.id)].count("signal.received") == 1

        def knows(live: LiveExecution) -> bool:
            """Whether its owner, which may have lost, has come to know what the other one wrote."""
            now, summary = one.service.live.get(live.id), logs[0].summary(live.id)
            return now is not None and summary is not None and now.state.seq == summary.seq

        await until(lambda: all(map(knows, started)))
        assert list(verify_store(logs[0])) == []


async def test_an_execution_is_taken_over_once_however_many_want_it_at_the_same_time(
    tmp_path: Path, database: Database
) -> None:
    log = PostgresLog(database.url, lease_s=LEASE_S)
    async with ServerNode(log, Catalog(ToolKinds()), PgRegistry(database.url, LEASE_S), lease_s=2.0) as station:
        live = await begun(station, tmp_path, WAITS)
        station.service.release(live)
        found = await asyncio.gather(*(station.resume(live.id) for _ in range(5)))
        assert len({id(one) for one in found}) == 1


async def test_what_a_worker_had_that_was_given_up_long_ago_is_nobodys(database: Database) -> None:
    log = PostgresLog(database.url)
    registry = PgRegistry(database.url, LEASE_S)
    try:
        await registry.renew("old", {})
        await registry.renew("new", {})
        held = [HeldPipeline("e", "s-1", None, "f1", "old", 1), HeldPipeline("e", "s-2", None, "f2", "new", 0)]
        await registry.keep([*held, HeldPipeline("e", "s-3", None, "f3", "forgotten", 2)], [])
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(
                "UPDATE noetl.worker SET given_up = true, until = now() - '9 hours'::interval WHERE worker = 'old'"
            )
        found = {one.step_run_id: (one.worker, one.tries) for one in registry.read_held("e")}
        assert found == {"s-1": (None, 1), "s-2": ("new", 0), "s-3": (None, 2)}
    finally:
        registry.close()
        await log.close()


@pytest.mark.slow
async def test_a_worker_that_died_once_is_not_counted_at_each_take_over(tmp_path: Path, database: Database) -> None:
    log = PostgresLog(database.url, lease_s=LEASE_S)
    registry = PgRegistry(database.url, LEASE_S)
    async with ServerNode(log, Catalog(ToolKinds()), registry, lease_s=2.0) as station:
        live = await begun(station, tmp_path, CHAIN)
        await registry.keep([HeldPipeline(live.id, "first-1", None, "f", "dead", 1)], [])
        for _ in range(8):
            station.service.release(station.service.live[live.id])
            live = await station.resume(live.id)
        await registry.renew("here", {})
        found = await station.worker_api.serve(WorkerMessage("here", pools=["default"], room=5, wait=20))
        assert [one.order.step for one in found.assignments] == ["first"]
        assert live.state.status == "running"
