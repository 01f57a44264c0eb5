"""Time limits, cancellation, conflicts, and connections that break, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from databases import Db, Proxy
from servers import QUICK, Database
from tool_world import Workshop, until

from noetl.services.servers import PostgresServer

ENDLESS = "SELECT pg_sleep(0.01) FROM generate_series(1, 100000)"


#: where those wait for each other that are to go on `together`
MEET = "SELECT pg_advisory_xact_lock_shared(7)"


async def calm(db: Db) -> None:
    await until(lambda: not db.busy())


async def together(db: Db, *queries: str) -> list[Any]:
    """What becomes of tasks that all come to `MEET` before any of them goes on."""
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
    waiting += "(SELECT oid FROM pg_database WHERE datname = current_database())"
    with psycopg.connect(db.database.url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(7)")
        working = asyncio.gather(*map(db.task, queries))
        await until(lambda: db.ask(waiting) == [(len(queries),)])
        keeper.execute("SELECT pg_advisory_unlock(7)")
        return await working


@pytest.mark.parametrize(
    "query", [ENDLESS, "SELECT pg_sleep(1000)", "SELECT n, repeat('x', 1000) FROM generate_series(1, 100000000) n"]
)
async def test_a_task_that_is_cancelled_leaves_nothing_running_on_the_server(db: Db, query: str) -> None:
    await db.rows("SELECT 1")
    working = asyncio.ensure_future(db.task(query, spill=1 << 20))
    while not db.busy():
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    started = time.monotonic()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert time.monotonic() - started < 300
    await calm(db)
    assert list((db.world.folder / ".drafts").glob("*")) == []
    assert await db.rows("SELECT 2 AS n") == [{"n": 2}]


async def test_what_a_cancelled_task_had_done_is_undone(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int)")
    working = asyncio.ensure_future(db.task("INSERT INTO t VALUES (1); SELECT pg_sleep(60)"))
    await until(lambda: any("pg_sleep" in query for _, query in db.busy()))
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await calm(db)
    assert await db.rows("SELECT * FROM t") == []


async def test_the_server_itself_keeps_the_time_limit_of_a_task(db: Db) -> None:
    output = await db.task("SELECT 1; SELECT pg_sleep(30)", spec={"timeout": 0.3})
    assert (output["error"]["kind"], output["pg"]["code"], output["error"]["retryable"]) == ("timeout", "57014", True)
    assert await db.rows("SHOW statement_timeout", spec={"timeout": 7}) == [{"statement_timeout": "7s"}]
    assert await db.rows("SHOW statement_timeout") == [{"statement_timeout": "0"}]


async def test_a_query_that_somebody_else_cancels_is_an_error_of_sql(db: Db) -> None:
    working = asyncio.ensure_future(db.task("SELECT pg_sleep(60)"))
    await until(lambda: ("active", "SELECT pg_sleep(60)") in db.busy())
    db.ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'")
    output = await working
    assert (output["error"]["kind"], output["pg"]["code"]) == ("sql", "57014")


async def test_serialization_failures_and_deadlocks_are_errors_to_try_again_after(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)")
    raise_level = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(v) FROM t;"
    outputs = await together(
        db, *(f"{raise_level} {MEET}; UPDATE t SET v = v + 1 WHERE n = {n}; COMMIT" for n in (1, 2))
    )
    (failed,) = [output for output in outputs if output["status"] == "error"]
    assert (failed["pg"]["code"], failed["error"]["retryable"], failed["error"]["code"]) == ("40001", True, "40001")
    outputs = await together(
        db,
        *(f"UPDATE t SET v = 1 WHERE n = {a}; {MEET}; UPDATE t SET v = 1 WHERE n = {b}" for a, b in ((1, 2), (2, 1))),
    )
    (failed,) = [output for output in outputs if output["status"] == "error"]
    assert (failed["pg"]["code"], failed["error"]["retryable"]) == ("40P01", True)


async def test_the_drivers_own_retries_get_past_a_conflict(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)")
    level = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(v) FROM t; SELECT pg_sleep(0.3);"
    queries = [f"{level} UPDATE t SET v = v + 1 WHERE n = {n}; COMMIT" for n in (1, 2)]
    outputs = await asyncio.gather(*(db.task(query, spec={"retries": 3}) for query in queries))
    assert [output["status"] for output in outputs] == ["ok", "ok"]
    assert db.ask("SELECT sum(v) FROM t") == [(2,)]


async def test_a_backend_that_is_terminated_is_an_error_to_try_again_after(db: Db) -> None:
    working = asyncio.ensure_future(db.task("SELECT 1; SELECT pg_sleep(60)"))
    # Between two statements the end of the connection would be noticed, and not the reason for it.
    while not any(state == "active" and "pg_sleep" in query for state, query in db.busy()):
        await asyncio.sleep(0.02)
    db.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'noetl'")
    output = await working
    assert (output["error"]["kind"], output["error"]["retryable"], output["pg"]["code"]) == ("sql", True, "57P01")
    assert await db.rows("SELECT 1 AS n") == [{"n": 1}]


async def test_connections_are_kept_and_one_that_the_server_closed_is_replaced(db: Db) -> None:
    ((first,),) = [row.values() for row in await db.rows("SELECT pg_backend_pid() AS pid")]
    ((again,),) = [row.values() for row in await db.rows("SELECT pg_backend_pid() AS pid")]
    assert first == again
    db.ask(f"SELECT pg_terminate_backend({first})")
    await until(lambda: db.ask(f"SELECT 1 FROM pg_stat_activity WHERE pid = {first}") == [])
    ((other,),) = [row.values() for row in await db.rows("SELECT pg_backend_pid() AS pid")]
    assert other != first


async def test_a_connection_that_was_opened_while_the_database_could_only_be_read_is_replaced(db: Db) -> None:
    db.ask("CREATE TABLE t (n int)")
    setting = f'ALTER DATABASE "{db.database.name}" %s default_transaction_read_only'
    db.ask(f"{setting % 'SET'} = on")
    output = await db.task("INSERT INTO t VALUES (1)")
    assert output["pg"]["code"] == "25006"
    db.ask(f"BEGIN READ WRITE; {setting % 'RESET'}; COMMIT")
    assert (await db.task("INSERT INTO t VALUES (1)"))["status"] == "ok"


async def test_there_are_no_more_connections_than_the_pool_may_have_and_none_after_the_end(db: Db) -> None:
    query = "SELECT pg_sleep(0.1), count(*) AS n FROM pg_stat_activity WHERE application_name = 'noetl' AND datname = current_database()"
    found = await asyncio.gather(*(db.rows(query, spec={"pool_size": 3}) for _ in range(9)))
    assert max(row["n"] for (row,) in found) == 3
    await db.world.close()
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'noetl' AND datname = current_database()"
    await until(lambda: db.ask(count) == [(0,)])


async def test_a_server_without_free_connections_is_an_error_to_try_again_after(db: Db) -> None:
    db.ask(f'ALTER DATABASE "{db.database.name}" CONNECTION LIMIT 0')
    db.ask("CREATE ROLE crowd LOGIN PASSWORD 'crowd'") if not db.ask(
        "SELECT 1 FROM pg_roles WHERE rolname = 'crowd'"
    ) else None
    output = await db.task("SELECT 1", credential={**db.credential, "user": "crowd", "password": "crowd"})
    assert (output["pg"]["code"], output["error"]["retryable"]) == ("53300", True)


async def test_what_a_task_sets_in_its_session_is_not_there_for_the_next(db: Db) -> None:
    await db.rows(
        "SET search_path = pg_catalog; SET DateStyle = 'German'; CREATE TEMP TABLE secret (n int)",
        spec={"pool_size": 1},
    )
    await db.rows("SELECT set_config('application_name', 'other', false)", spec={"pool_size": 1})
    (row,) = await db.rows(
        "SELECT current_setting('search_path') AS path, to_regclass('secret') AS there, DATE '2024-02-29' AS day, "
        "current_setting('application_name') AS name",
        spec={"pool_size": 1},
    )
    assert row == {"path": '"$user", public', "there": None, "day": "2024-02-29", "name": "noetl"}


async def test_a_connection_that_is_lost_before_the_end_has_done_nothing(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int)")
    proxy = Proxy(db.database)
    async with proxy.open():
        through = {**db.credential, "port": proxy.port}
        await db.rows("SELECT 1", credential=through)
        proxy.word = b"pg_sleep"
        output = await db.task("INSERT INTO t VALUES (1); SELECT pg_sleep(0)", credential=through)
        assert (output["pg"]["code"], output["error"]["retryable"], output["error"]["kind"]) == ("08006", True, "sql")
        assert db.ask("SELECT * FROM t") == []
        proxy.word = b"COMMIT"
        output = await db.task("INSERT INTO t VALUES (2); SELECT 1", credential=through)
        assert (output["pg"]["code"], output["error"]["retryable"]) == ("08007", False)
        assert "exactly_once" in output["error"]["message"]
        assert db.ask("SELECT * FROM t") == [(2,)]


@pytest.mark.parametrize("code", ["57P01", "57P02", "08006"])
async def test_a_commit_that_is_answered_by_a_farewell_may_have_happened(db: Db, code: str) -> None:
    await db.rows("CREATE TABLE t (n int)")
    proxy = Proxy(db.database)
    async with proxy.open():
        through = {**db.credential, "port": proxy.port}
        proxy.word, proxy.says = b"COMMIT", code
        output = await db.task("INSERT INTO t VALUES (1); SELECT 1", credential=through)
        assert (output["pg"]["code"], output["error"]["retryable"]) == ("08007", False)
        assert "the session is over" in output["error"]["message"]
        assert db.ask("SELECT * FROM t") == [(1,)]
        await db.task("SELECT 1", exactly_once=True, key="first")  # the table of markers is there
        proxy.word = b"COMMIT"
        await db.rows("INSERT INTO t VALUES (2); SELECT 1", credential=through, exactly_once=True, key="two")
        assert db.ask("SELECT * FROM t") == [(1,), (2,)]


async def test_a_connection_that_is_lost_behind_the_commit_is_no_failure(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int)")
    proxy = Proxy(db.database)
    async with proxy.open():
        through = {**db.credential, "port": proxy.port}
        proxy.word = b"DISCARD ALL"
        query = "SET search_path = public; INSERT INTO t VALUES (1) RETURNING n"
        assert await db.rows(query, credential=through) == [{"n": 1}]
        assert proxy.cuts == 1
        assert await db.rows(query, credential=through) == [{"n": 1}]


async def test_a_server_that_goes_away_and_comes_back_is_met_again(world: Workshop) -> None:
    with TemporaryDirectory(prefix="noetl-") as folder, PostgresServer(Path(folder) / "data", settings=QUICK) as server:
        db = Db(world, Database(server, "postgres"))
        assert await db.rows("SELECT 1 AS n") == [{"n": 1}]
        working = asyncio.ensure_future(db.task("SELECT pg_sleep(60)"))
        await asyncio.sleep(0.5)
        server.stop(at_once=True)
        output = await working
        assert (output["error"]["kind"], output["error"]["retryable"]) == ("sql", True)
        output = await db.task("SELECT 1")
        assert (output["error"]["kind"], output["error"]["retryable"]) == ("sql", True)
        server.start()
        credential = {**db.credential, "password": server.password}
        assert await db.rows("SELECT 1 AS n", credential=credential) == [{"n": 1}]
        await world.close()


def test_the_driver_is_one_that_reads_rows_in_runs() -> None:
    assert psycopg.capabilities.has_stream_chunked()


async def test_notices_are_lines_of_the_task(db: Db) -> None:
    await db.rows("DO $$ BEGIN RAISE NOTICE 'as far as %', 3; RAISE WARNING 'mind'; END $$")
    assert db.world.logged("stderr", "s") == "NOTICE: as far as 3\nWARNING: mind\n"
