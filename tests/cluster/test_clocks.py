"""Machines that do not agree on the time, and a database whose clock is set back: waits take as long as they are to."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from fleet import serving, working
from servers import Database
from test_handing_out import start, until

from noetl.server.cluster import eviction
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core import Effects
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.claims import DatabaseClock
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

WAIT_S = 1.5
WAITS = f"workflow:\n- {{step: end, tool: {{kind: wait, seconds: {WAIT_S}}}}}\n"


def took_s(log: PostgresLog | MemoryLog, execution_id: str) -> float:
    events = log.read(execution_id)
    began = next(event for event in events if event.name == "task.started")
    return (datetime.fromisoformat(events[-1].timestamp) - datetime.fromisoformat(began.timestamp)).total_seconds()


@pytest.mark.parametrize("skew_s", [600.0, -600.0])
async def test_a_wait_that_a_worker_begins_ends_by_the_clock_of_its_server(tmp_path: Path, skew_s: float) -> None:
    log = MemoryLog()
    async with (
        serving(log, MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "w") as worker,
    ):
        worker.runners.clock = lambda: time.time() + skew_s
        live = await start(server, tmp_path, WAITS)
        await live.finished
    assert WAIT_S - 0.1 < took_s(log, live.id) < 60


@pytest.mark.parametrize("skew_s", [600.0, -600.0])
async def test_a_wait_that_is_handed_over_between_servers_is_as_long_as_it_was(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch, skew_s: float
) -> None:
    monkeypatch.setattr(eviction, "_STILL_S", 0.05)
    monkeypatch.setattr(eviction, "_FAR_S", 0.1)
    monkeypatch.setattr(eviction, "_AHEAD_S", 0.05)

    def clock() -> float:
        return time.time() + skew_s

    logs = [PostgresLog(database.url, lease_s=60.0), PostgresLog(database.url, lease_s=60.0, clock=clock)]
    registries = [PgRegistry(database.url, 60.0) for _ in logs]
    async with (
        AsyncExitStack() as first,
        serving(logs[1], registries[1], tmp_path, cluster_store=logs[1], effects=Effects(clock=clock)) as other,
    ):
        server = await first.enter_async_context(serving(logs[0], registries[0], tmp_path, cluster_store=logs[0]))
        async with working([server.url, other.url], tmp_path / "w"):
            began = time.monotonic()
            live = await start(server, tmp_path, WAITS)
            await until(lambda: live.id not in server.station.service.live)
            await first.aclose()
            await until(lambda: (found := logs[1].summary(live.id)) is not None and found.status == "completed")
        assert time.monotonic() - began > WAIT_S - 0.1
        assert WAIT_S - 0.1 < took_s(logs[1], live.id) < 60


def test_a_clock_is_followed_unless_the_difference_is_noise() -> None:
    clock = DatabaseClock(time.time)
    assert clock.set(time.time() + 0.03, took=0.001) == 0
    assert clock.offset == 0
    assert clock.set(time.time() + 600, took=0.001) == 0
    assert round(clock.offset) == 600
    assert clock.set(time.time() + 580, took=60.0) == 0, "who took a minute to answer says little"
    assert round(clock.offset) == 600
    assert round(clock.set(time.time(), took=0.001)) == 580
    assert round(clock.offset) == 0


async def test_after_the_clock_of_the_database_was_set_back_nobody_dead_is_believed_to_live_for_long(
    database: Database,
) -> None:
    await PostgresLog(database.url).close()
    with psycopg.connect(database.url, autocommit=True) as connection:
        hour = "clock_timestamp() + interval '1 hour'"
        connection.execute(f"INSERT INTO noetl.owner VALUES ('dead', {hour})".encode())
        connection.execute(f"INSERT INTO noetl.worker VALUES ('dead', {hour}, false, '{{}}')".encode())
        for name, updated in (("before", "2001-01-01T00:00:00Z"), ("after", "2999-01-01T00:00:00Z")):
            connection.execute(
                "INSERT INTO noetl.execution (execution_id, path, playbook, requested_at, status, updated_at, seq, hash, over)"
                " VALUES (%s, '', '', '', 'running', %s, 1, '', false)",
                (name, updated),
            )
            connection.execute(f"INSERT INTO noetl.dormant VALUES ('{name}', {hour})".encode())
        left = "SELECT extract(epoch FROM until - clock_timestamp()) FROM noetl.%s WHERE %s = 'dead'"
        log = PostgresLog(database.url, lease_s=60.0)
        await log.register_waker()
        for table in ("owner", "worker"):
            row = connection.execute((left % (table, table)).encode()).fetchone()
            assert row is not None
            assert row[0] <= 180
        assert log.find_due(0.0, 10) == ["after"], "it waits for a time that was told by the clock as it was"
        log._claims.clock._last = (time.time() + 3600, time.monotonic())  # as it was told a moment ago
        await log.probe()
        assert sorted(log.find_due(1.0, 10)) == ["after", "before"]
        await log.close()
