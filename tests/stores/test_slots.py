"""Slots beside every log keep the same contract: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from log_contract import events
from servers import Database

from noetl.model.wire import Ask, Cap, Pace
from noetl.ports.cluster import HasSlots
from noetl.stores.appends import schema
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.sqlite_log import SqliteLog


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """Two processes' views on one store."""
    if request.param == "memory":
        first = MemoryLog()
        yield first, MemoryLog(first)
        return
    if request.param == "sqlite":
        both: list[Any] = [SqliteLog(tmp_path / "noetl.db"), SqliteLog(tmp_path / "noetl.db")]
    else:
        database: Database = request.getfixturevalue("database")
        both = [PostgresLog(database.url, lease_s=60.0), PostgresLog(database.url, lease_s=60.0)]
    yield both[0], both[1]
    for log in both:
        asyncio.run(log.close())


def ask(execution_id: str, limit: int = 1, **more: Any) -> Ask:
    return Ask((execution_id, "a-1", more.pop("iteration", None)), Cap("k", limit, **more))


async def verdicts(slots: Any, *asks: Ask) -> list[str]:
    return [one.verdict for one in await slots.take(asks)]


async def begun(log: Any, *names: str) -> Any:
    for name in names:
        await log.claim(name)
        await log.append(events(name, 1, 1), status="running")
    return log.slots(time.time)


async def test_a_slot_is_held_across_processes_until_it_is_released(logs: tuple[Any, Any]) -> None:
    assert all(isinstance(log, HasSlots) for log in logs)
    one, other = await begun(logs[0], "x"), await begun(logs[1], "y")
    assert await verdicts(one, ask("x")) == ["granted"]
    assert await verdicts(other, ask("y")) == ["wait"]
    assert await verdicts(one, ask("x")) == ["granted"]
    assert await other.list_holders("x") == [("x", "a-1", None)]
    await one.release([("x", "a-1", None)])
    assert await verdicts(other, ask("y")) == ["granted"]


async def test_iterations_hold_slots_of_their_own(logs: tuple[Any, Any]) -> None:
    slots = await begun(logs[0], "x")
    asks = [ask("x", 2, iteration=at) for at in (0, "1.2", 3)]
    assert await verdicts(slots, *asks) == ["granted", "granted", "wait"]
    assert sorted(await slots.list_holders("x"), key=str) == [("x", "a-1", "1.2"), ("x", "a-1", 0)]


async def test_the_slot_of_an_execution_that_is_over_is_free(logs: tuple[Any, Any]) -> None:
    one, other = await begun(logs[0], "x"), await begun(logs[1], "y")
    assert await verdicts(one, ask("x")) == ["granted"]
    await logs[0].append(events("x", 2, 2), status="completed")
    assert await verdicts(other, ask("y")) == ["granted"]


async def test_the_slot_of_a_process_that_is_gone_is_free(logs: tuple[Any, Any]) -> None:
    one, other = await begun(logs[0], "x"), await begun(logs[1], "y")
    assert await verdicts(one, ask("x")) == ["granted"]
    assert await verdicts(other, ask("y")) == ["wait"]
    await logs[0].close()
    assert await verdicts(other, ask("y")) == ["granted"]


async def test_a_displaced_holder_counts_until_it_has_left(logs: tuple[Any, Any]) -> None:
    one, other = await begun(logs[0], "x"), await begun(logs[1], "y")
    assert await verdicts(one, ask("x")) == ["granted"]
    (answer,) = await other.take([ask("y", on_limit="cancel_running")])
    assert (answer.verdict, answer.victims) == ("wait", (("x", "a-1", None),))
    assert await verdicts(one, ask("x")) == ["displaced"]
    await one.release([("x", "a-1", None)])
    assert await verdicts(other, ask("y", on_limit="cancel_running")) == ["granted"]


async def test_starts_are_counted_across_processes_and_forgotten_with_time(logs: tuple[Any, Any]) -> None:
    one, other = logs[0].slots(time.time), logs[1].slots(time.time)
    slowly, soon = (
        [Ask((name, "a-1", None), pace=Pace(key, 2, per_s)) for name in ("x", "y", "z")]
        for key, per_s in (("slowly", 600.0), ("soon", 0.5))
    )
    assert await verdicts(one, *slowly[:2]) == ["granted", "granted"]
    (answer,) = await other.take(slowly[2:])
    assert answer.verdict == "wait"
    assert 0 < answer.after <= 600
    assert await verdicts(one, *soon[:2]) == ["granted", "granted"]
    await asyncio.sleep(0.55)
    assert await verdicts(other, soon[2]) == ["granted"]


async def test_many_who_ask_at_once_get_no_more_than_there_are(logs: tuple[Any, Any]) -> None:
    names = [f"x{number}" for number in range(20)]
    one, other = await begun(logs[0], *names[:10]), await begun(logs[1], *names[10:])
    found = await asyncio.gather(
        *(verdicts(one if at < 10 else other, ask(name, 5)) for at, name in enumerate(names))
    )  # fmt: skip
    assert found.count(["granted"]) <= 5
    assert len(await one.list_holders(names[0])) <= 1


async def test_a_file_of_the_version_before_gets_its_tables_and_keeps_its_executions(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(f"PRAGMA application_id = {0x4E6F4554}; PRAGMA user_version = 1; {schema('sqlite')}")
        connection.execute(
            "INSERT INTO execution (execution_id, path, playbook, requested_at, status, updated_at, seq, over)"
            " VALUES ('old', 'p', 'h', '', 'running', '', 0, 0)"
        )
    connection.close()
    log = SqliteLog(path)
    slots = await begun(log, "x")
    assert await verdicts(slots, ask("x")) == ["granted"]
    assert [one.execution_id for one in log.summaries()] == ["x", "old"]
    await log.close()


async def test_an_execution_that_is_in_no_memory_keeps_its_slots(database: Database) -> None:
    """It is owned by nobody while it waits, and what it holds is still its own when it is woken."""
    here, there = PostgresLog(database.url, lease_s=60.0), PostgresLog(database.url, lease_s=60.0)
    one, other = await begun(here, "x"), await begun(there, "y")
    assert await verdicts(one, ask("x")) == ["granted"]
    await here.evict([("x", None)])
    assert await verdicts(other, ask("y")) == ["wait"]
    await there.claim("x")
    assert await verdicts(other, ask("y"), ask("x")) == ["wait", "granted"]
    for log in (here, there):
        await log.close()
