"""The log in PostgreSQL keeps the contract, goes on when the server was away, and knows who lives."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from access_contract import AccessContract
from log_contract import EventLogContract, events
from servers import Database
from waiting import until

from noetl.ports import AccessStore, LogDamaged, StoreFailed
from noetl.stores.appends import queries
from noetl.stores.postgres.claims import ClaimQueue, DatabaseClock
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.schema import VERSION, connect
from noetl.stores.verify import verify_store


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


@pytest.fixture
def access(log: PostgresLog) -> AccessStore:
    return log.access()


@pytest.fixture
def access_beside(beside: PostgresLog) -> AccessStore:
    return beside.access()


class TestPostgresAccess(AccessContract):
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
    with pytest.raises(LogDamaged, match="damaged at event 2"):
        log.read("x")
    assert [problem.execution_id for problem in verify_store(log)] == ["x"]


def test_of_an_address_that_is_none_nothing_is_shown() -> None:
    with pytest.raises(StoreFailed, match="has an address that is none") as caught:
        PostgresLog("postgresql://u:p%zzhush@127.0.0.1/x")
    assert "hush" not in str(caught.value)


def test_a_database_that_is_gone_without_a_word_is_found_out_soon(database: Database) -> None:
    with connect(database.url) as connection:
        found = connection.info.get_parameters()
        kernel = socket.socket(fileno=os.dup(connection.pgconn.socket))
    wanted = {"keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3", "tcp_user_timeout": "10000"}
    assert {name: found.get(name) for name in wanted} == wanted
    with kernel:
        if kernel.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
            assert kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000


def test_what_the_address_of_a_database_says_of_its_connections_holds(database: Database) -> None:
    mark = "&" if "?" in database.url else "?"
    own = {"keepalives_idle": "70", "tcp_user_timeout": "90000", "connect_timeout": "4", "application_name": "mine"}
    with connect(f"{database.url}{mark}{'&'.join(f'{name}={value}' for name, value in own.items())}") as connection:
        found = connection.info.get_parameters()
    assert {name: found.get(name) for name in own} == own
    assert found["keepalives_count"] == "3"


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
        connection.execute("INSERT INTO noetl.owner VALUES ('dying', clock_timestamp() + interval '1 hour')")
        connection.execute("INSERT INTO noetl.ownership VALUES ('x', 'dying')")
    assert not await log.claim("x")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE noetl.owner SET until = clock_timestamp() WHERE owner = 'dying'")
    assert await log.claim("x")


async def test_who_lives_is_believed_to_beyond_its_lease(database: Database, log: PostgresLog) -> None:
    living = PostgresLog(database.url, lease_s=30.0)
    assert await living.claim("x")
    with psycopg.connect(database.url, autocommit=True) as connection:
        ends = "SELECT until FROM noetl.owner"
        first = connection.execute(ends).fetchone()
        await until(lambda: connection.execute(ends).fetchone() != first)
    assert not await log.claim("x")
    await living.close()
    assert await log.claim("x")


async def test_whatever_goes_wrong_with_a_claim_whoever_asked_is_told(database: Database, log: PostgresLog) -> None:
    wrong = [True]

    def connecting() -> psycopg.Connection[Any]:
        if wrong:
            raise RuntimeError("something that nobody has thought of")
        return connect(database.url)

    claims = ClaimQueue(connecting, "me", 10.0, DatabaseClock(time.time))
    with pytest.raises(StoreFailed, match="nobody has thought of"):
        await asyncio.wait_for(claims.claim("x"), 60)
    wrong.clear()
    assert await asyncio.wait_for(claims.claim("x"), 60)
    await claims.close()


async def test_a_connection_that_was_cut_is_made_anew(log: PostgresLog, database: Database) -> None:
    await log.append(events("x", 1, 2), status="running")
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
    try:
        await log.append(events("x", 3, 3), status="running")
    except StoreFailed:  # unless the cut was noticed before; then another connection was made at once
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


async def test_requests_of_an_execution_come_to_light_in_the_order_of_their_numbers(
    database: Database, log: PostgresLog, beside: PostgresLog
) -> None:
    await log.claim("x")
    with psycopg.connect(database.url) as slow, psycopg.connect(database.url, autocommit=True) as looking:
        slow.execute(queries("postgres")["add_request"], ("x", b"first"))
        second = asyncio.create_task(asyncio.to_thread(beside.post, "x", b"second"))
        await asyncio.to_thread(log.post, "another", b"it is not kept waiting")
        await asyncio.sleep(0.5)
        assert not second.done()
        assert log.collect() == []
        # and who waits has no number yet
        assert looking.execute("SELECT last_value FROM noetl.inbox_number_seq").fetchone() == (2,)
        slow.commit()
        await second
    assert [body for _, _, body in log.collect()] == [b"first", b"second"]


async def test_a_request_is_left_over_a_connection_that_was_cut_before(database: Database, log: PostgresLog) -> None:
    await log.claim("x")
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
    log.post("x", b"once")
    assert [body for _, _, body in log.collect()] == [b"once"]


async def test_who_sleeps_is_minded_while_somebody_lives_who_may_wake_it(database: Database) -> None:
    gone, there = PostgresLog(database.url), PostgresLog(database.url)
    await gone.append(events("x", 1, 1), status="running")
    await gone.claim("x")
    await gone.evict([("x", None)])
    found = gone.summary("x")
    assert found is not None
    assert (found.owner, found.alive, found.dormant, found.is_attended) == (None, False, True, True)
    await gone.close()
    assert [one.is_attended for one in there.summaries()] == [False]
    await there.register_waker()
    assert [one.dormant for one in there.summaries(unfinished=True)] == [True]
    await there.claim("x")
    assert [(one.alive, one.dormant) for one in there.summaries()] == [(True, False)]
    await there.close()
