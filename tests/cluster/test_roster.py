"""Who comes and goes is told, a line each: by servers of workers and executions, by a worker of itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from fleet import Server, serving, working
from servers import Database
from test_handing_out import marking, marks, start, until, vanish

from noetl.app.http_server import describe_bus
from noetl.cli.output.printing import note_with_time
from noetl.config import Secret, Settings
from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry


def hearing(server: Server) -> list[str]:
    """The lines that a server says from now on."""
    said: list[str] = []
    server.station.worker_api.roster.print_line = said.append
    return said


async def test_a_worker_that_was_drained_takes_itself_off_the_list(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as other,
    ):
        said, elsewhere = hearing(server), hearing(other)
        async with working([server.url, other.url], tmp_path / "a", pools=["gpu"], slots=3) as outpost:
            name = outpost.agent.name
            await until(lambda: said and elsewhere)
            (row,) = server.station.workers()
            assert row["worker"] == name
            assert 0 <= row["heard_s_ago"] < 60
            await outpost.drain(60.0)
        assert server.station.workers() == other.station.workers() == []
        assert said == elsewhere == [f"worker {name} joined: 3 slots, pools gpu", f"worker {name} left in good order"]


async def test_a_worker_that_was_given_up_is_told_of_with_what_it_had(tmp_path: Path) -> None:
    registry = MemoryRegistry(60.0)
    async with (
        serving(MemoryLog(), registry, tmp_path, lease_s=0.6) as server,
        working([server.url], tmp_path / "a") as outpost,
    ):
        said, name = hearing(server), outpost.agent.name
        await start(server, tmp_path, marking(tmp_path, 600))
        await until(lambda: marks(tmp_path) == ["begun"])
        await vanish(outpost)
        registry._until[name] = 0.0
        await until(lambda: f"worker {name} was given up; 1 pipeline is handed out again" in said)


async def test_a_worker_says_that_it_was_given_up_and_begins_anew(tmp_path: Path) -> None:
    registry = MemoryRegistry(60.0)
    async with serving(MemoryLog(), registry, tmp_path) as server, working([server.url], tmp_path / "a") as outpost:
        said: list[str] = []
        outpost.print_line = said.append
        before = outpost.agent.name
        await until(server.station.workers)
        await registry.leave(before, "owner")
        await until(lambda: said)
        assert said[0].startswith(f"{before} was given up; ")
        assert said[0].endswith(f"It goes on as {outpost.agent.name}")
        await asyncio.sleep(0.3)
        assert len(said) == 1


async def test_executions_that_are_taken_over_are_counted(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(60.0)
    async with serving(log, registry, tmp_path, lease_s=0.3) as server:
        said = hearing(server)
        for _ in range(2):
            live = await start(
                server, tmp_path, "workflow:\n- step: heavy\n  spec: {pool: gpu}\n  tool: {kind: noop}\n"
            )
            server.station.service.give_up(live.id, RuntimeError("it was somebody else's"))
        server.station._retry_later._until.clear()
        await until(lambda: "2 executions were taken over: nobody ran them any more" in said)


async def test_a_database_knows_who_was_heard_when_and_who_left(database: Database) -> None:
    log, registry = PostgresLog(database.url), PgRegistry(database.url, 20.0)
    await registry.renew("a", {"slots": 1})
    (row,) = registry.workers()
    await registry.leave("a")
    left = registry.workers(), await registry.renew("a", {})
    registry.close()
    await log.close()
    assert row["slots"] == 1
    assert 0 <= row["heard_s_ago"] < 10
    assert left == ([], False)


def test_what_is_told_has_the_time_in_front(capsys: pytest.CaptureFixture[str]) -> None:
    note_with_time("worker w joined")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ worker w joined\n", capsys.readouterr().err)


def test_a_server_with_a_bus_says_so(tmp_path: Path) -> None:
    assert describe_bus(Settings(home=tmp_path)) == ""
    assert describe_bus(Settings(home=tmp_path, bus=Secret("nats://h"))) == "; workers are woken by NATS"
