"""The log in PostgreSQL keeps the contract, goes on when the server was away, and knows who lives."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from contract import EventLogContract, events
from servers import Database

from noetl.ports import StoreFailed
from noetl.stores.pgfiles import VERSION
from noetl.stores.postgres import PostgresLog
from noetl.stores.verify import verify


def opened(url: str, lease_s: float = 10.0) -> Iterator[PostgresLog]:
    log = PostgresLog(url, lease_s=lease_s)
    yield log
    asyncio.run(log.close())


@pytest.fixture
def log(database: Database) -> Iterator[PostgresLog]:
    yield from opened(database.url)


@pytest.fixture
def beside(database: Database, log: PostgresLog) -> Iterator[PostgresLog]:
    yield from opened(database.url)


@pytest.fixture
def reopen(database: Database) -> Callable[[], PostgresLog]:
    return lambda: PostgresLog(database.url)


class TestPostgresLog(EventLogContract):
    """The fixtures are those of the module."""


async def test_an_event_is_never_changed(log: PostgresLog, database: Database) -> None:
    await log.append(events("x", 1, 2), status="running")
    with psycopg.connect(database.url) as connection, pytest.raises(psycopg.Error, match="never changed"):
        connection.execute("UPDATE noetl.event SET seq = 7")


async def test_an_event_that_was_tampered_with_is_not_handed_out(log: PostgresLog, database: Database) -> None:
    await log.append(events("x", 1, 3), status="running")
    with psycopg.connect(database.url) as connection:
        connection.execute("ALTER TABLE noetl.event DISABLE TRIGGER ALL")
        connection.execute("UPDATE noetl.event SET body = body || ' '::bytea WHERE seq = 2")
    with pytest.raises(StoreFailed, match="damaged at event 2"):
        log.read("x")
    assert [problem.execution_id for problem in verify(log)] == ["x"]


def test_of_an_address_that_is_none_nothing_is_shown() -> None:
    with pytest.raises(StoreFailed, match="has an address that is none") as caught:
        PostgresLog("postgresql://u:p%zzhush@127.0.0.1/x")
    assert "hush" not in str(caught.value)


def test_of_many_who_come_first_one_makes_the_tables(database: Database) -> None:
    problems: list[BaseException] = []

    def come() -> None:
        try:
            asyncio.run(PostgresLog(database.url).close())
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=come) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_database_of_a_later_version_is_refused(database: Database, log: PostgresLog) -> None:
    assert log.summaries() == []
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE noetl.version SET version = %s", (VERSION + 1,))
    with pytest.raises(StoreFailed, match="later version"):
        PostgresLog(database.url)


async def test_whoever_gives_no_sign_of_life_is_believed_dead(database: Database, log: PostgresLog) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("INSERT INTO noetl.owner VALUES ('dying', clock_timestamp() + interval '500 ms')")
        connection.execute("INSERT INTO noetl.ownership VALUES ('x', 'dying')")
    assert not await log.claim("x")
    await asyncio.sleep(0.7)
    assert await log.claim("x")


async def test_who_lives_is_believed_to_beyond_its_lease(database: Database, log: PostgresLog) -> None:
    living = PostgresLog(database.url, lease_s=0.6)
    assert await living.claim("x")
    await asyncio.sleep(1.5)
    assert not await log.claim("x")
    await living.close()
    assert await log.claim("x")


async def test_a_connection_that_was_cut_is_made_anew(log: PostgresLog, database: Database) -> None:
    await log.append(events("x", 1, 2), status="running")
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
    with pytest.raises(StoreFailed):
        await log.append(events("x", 3, 3), status="running")
    assert log.read("x") == events("x", 1, 2)
    await log.append(events("x", 3, 3), status="running")
    assert log.read("x") == events("x", 1, 3)


async def test_an_entry_that_the_database_refuses_fails_alone(log: PostgresLog) -> None:
    bad = events("bad\x00id", 1, 1)
    outcomes = await asyncio.gather(
        log.append(events("x", 1, 1), status="running"),
        log.append(bad, status="running"),
        log.append(events("y", 1, 1), status="running"),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "StoreFailed", "NoneType"]


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(StoreFailed) as refused:
        PostgresLog("postgresql://user:hunter2secret@127.0.0.1:1/db")
    assert "hunter2secret" not in str(refused.value)
