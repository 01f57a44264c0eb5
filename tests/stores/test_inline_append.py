"""Small appends in PostgreSQL take one statement, and hold to all that slower ones do."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from log_contract import events
from servers import Database
from waiting import until

from noetl.ports import Conflict, StoreFailed
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.quick_append import InlineWriter
from noetl.stores.verify import verify_store


@pytest.fixture
def log(database: Database) -> Iterator[PostgresLog]:
    log = PostgresLog(database.url)
    yield log
    asyncio.run(log.close())


@pytest.fixture
def beside(database: Database, log: PostgresLog) -> Iterator[PostgresLog]:
    log = PostgresLog(database.url)
    yield log
    asyncio.run(log.close())


async def begun(log: PostgresLog, *names: str) -> InlineWriter:
    """Executions whose first two events are written, and what writes more of them."""
    for name in names:
        await log.append(events(name, 1, 2), status="running")
    while log._queue._inline is None or log._queue._queued:  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
    quick: InlineWriter = log._queue._inline  # type: ignore[attr-defined]
    return quick


def shut(log: PostgresLog) -> None:
    """Whatever wants the thread from now on fails."""

    def refuse(_tickets: object) -> None:
        raise AssertionError("the thread was wanted")

    log._queue._enqueue = refuse  # type: ignore[method-assign]


async def test_what_goes_on_where_this_process_wrote_last_needs_no_thread(log: PostgresLog) -> None:
    await begun(log, "x", "y")
    real = log._queue._enqueue
    shut(log)
    await asyncio.gather(
        log.append(events("x", 3, 4), status="running"), log.append(events("y", 3, 3), status="running")
    )
    await log.append(events("x", 5, 5), status="completed")
    log._queue._enqueue = real  # type: ignore[method-assign]
    assert log.read("x") == events("x", 1, 5)
    assert log.read("y") == events("y", 1, 3)
    summary = log.summary("x")
    assert summary is not None
    assert (summary.status, summary.seq) == ("completed", 5)


async def test_executions_begin_without_the_thread_unless_somebody_else_has_begun_them(
    log: PostgresLog, beside: PostgresLog
) -> None:
    await begun(log, "x")
    await beside.append(events("taken", 1, 1), status="running")
    real = log._queue._enqueue
    shut(log)
    await asyncio.gather(*(log.append(events(name, 1, 2), status="running") for name in ("a", "b")))
    log._queue._enqueue = real  # type: ignore[method-assign]
    first, second, third = await asyncio.gather(
        log.append(events("taken", 1, 3), status="running"),
        log.append(events("c", 1, 2), status="running"),
        log.append(events("a", 3, 3), status="running"),
        return_exceptions=True,
    )
    assert isinstance(first, Conflict)
    assert (second, third) == (None, None)
    found = {one.execution_id: one.seq for one in log.summaries()}
    assert found == {"x": 2, "taken": 1, "a": 3, "b": 2, "c": 2}
    assert log.read("a") == events("a", 1, 3)
    assert list(verify_store(log)) == []


async def test_appends_to_one_execution_that_come_together_are_written_in_their_order(log: PostgresLog) -> None:
    await begun(log, "x")
    await asyncio.gather(*(log.append(events("x", seq, seq), status="running") for seq in range(3, 20)))
    assert log.read("x") == events("x", 1, 19)


async def test_where_somebody_else_wrote_nothing_is_written_and_others_are(
    log: PostgresLog, beside: PostgresLog
) -> None:
    await begun(log, "x", "y")
    await beside.append(events("x", 3, 3), status="running")
    outcomes = await asyncio.gather(
        log.append(events("x", 3, 4), status="running"),
        log.append(events("y", 3, 3), status="running"),
        return_exceptions=True,
    )
    assert [type(one) for one in outcomes] == [Conflict, type(None)]
    assert log.read("x") == events("x", 1, 3)
    assert log.read("y") == events("y", 1, 3)
    # Who has read what the other wrote goes on behind it.
    await log.append(events("x", 4, 4), status="running")
    assert log.read("x") == events("x", 1, 4)


async def test_two_who_append_to_the_same_executions_the_other_way_round_do_not_wait_for_each_other(
    log: PostgresLog, beside: PostgresLog
) -> None:
    names = [f"x{number}" for number in range(20)]
    await begun(log, *names)
    await begun(beside, "other")
    for seq in range(3, 8):
        beside._queue._heads.update(log._queue._heads)  # type: ignore[attr-defined]
        first = [log.append(events(name, seq, seq), status="running") for name in names]
        second = [beside.append(events(name, seq, seq), status="running") for name in reversed(names)]
        outcomes = await asyncio.gather(*first, *second, return_exceptions=True)
        for one, other in zip(outcomes[:20], reversed(outcomes[20:]), strict=True):
            assert {type(one), type(other)} == {type(None), Conflict}
        for mine, theirs in zip(names, reversed(outcomes[20:]), strict=True):
            if theirs is None:
                log._queue._heads[mine] = beside._queue._heads[mine]  # type: ignore[attr-defined]


async def test_what_is_large_or_has_a_snapshot_is_left_to_the_thread(log: PostgresLog) -> None:
    await begun(log, "x")
    await log.append(events("x", 3, 400), status="running")
    await log.append(events("x", 401, 401), status="running", snapshot=b"state")
    await log.append(events("x", 402, 402), status="running")
    assert log.read("x") == events("x", 1, 402)
    assert log.snapshot("x") == (401, b"state")


async def test_a_connection_that_is_cut_is_noticed_and_the_next_append_is_written(
    log: PostgresLog, database: Database
) -> None:
    quick = await begun(log, "x")
    await log.append(events("x", 3, 3), status="running")
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
    async with asyncio.timeout(60):
        while not quick.broken:
            await asyncio.sleep(0.01)
    # Another's socket may have its number by now.
    assert not asyncio.get_running_loop().remove_reader(quick._socket)
    await log.append(events("x", 4, 4), status="running")
    assert log.read("x") == events("x", 1, 4)


async def test_who_waits_while_the_connection_breaks_hears_that_nobody_knows(
    log: PostgresLog, database: Database
) -> None:
    quick = await begun(log, "x")
    there = f"SELECT 1 FROM pg_stat_activity WHERE pid = {quick._connection.info.backend_pid}"
    told = asyncio.ensure_future(log.append(events("x", 3, 3), status="running"))
    while quick._group is None:
        await asyncio.sleep(0)
    quick._fail(StoreFailed("it is gone"))
    with pytest.raises(StoreFailed, match="it is gone"):
        await told
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        # The database may not have heard of it yet, and go on.
        await until(lambda: connection.execute(there).fetchone() is None)
    found = log.read("x")
    assert found in (events("x", 1, 2), events("x", 1, 3))
    await log.append(events("x", len(found) + 1, 5), status="running")
    assert log.read("x") == events("x", 1, 5)


def test_another_event_loop_finds_it_usable(database: Database) -> None:
    log = PostgresLog(database.url)
    asyncio.run(_first(log))
    asyncio.run(_second(log))
    assert log.read("x") == events("x", 1, 4)
    asyncio.run(log.close())


async def _first(log: PostgresLog) -> None:
    await begun(log, "x")
    await log.append(events("x", 3, 3), status="running")


async def _second(log: PostgresLog) -> None:
    await log.append(events("x", 4, 4), status="running")
