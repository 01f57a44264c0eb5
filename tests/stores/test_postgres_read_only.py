"""A database that can only be read for a while: nothing is left over of that when it can be written again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import psycopg
import pytest
from log_contract import events
from servers import Database
from waiting import until

from noetl.drivers.postgres import is_spent_code
from noetl.model.wire import Ask, Cap
from noetl.ports import StoreFailed
from noetl.stores.postgres import schema
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry


class Switch:
    """Makes a database read-only, and cuts all connections to it, as a fail-over does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _do(self, *statements: str) -> None:
        with psycopg.connect(self._database.server.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def cut(self) -> None:
        """Cut all connections."""
        named = self._database.name
        self._do(f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{named}'")

    def off(self) -> None:
        """From now on sessions can only read."""
        self._do(f'ALTER DATABASE "{self._database.name}" SET default_transaction_read_only = on')
        self.cut()

    def on(self) -> None:
        """New sessions can write; those that are open stay as they are."""
        self._do(f'ALTER DATABASE "{self._database.name}" RESET default_transaction_read_only')


@pytest.fixture
def switch(database: Database) -> Iterator[Switch]:
    made = Switch(database)
    yield made
    made.on()


@pytest.fixture(params=["as it is", "with sessions that may only read"])
def url(database: Database, request: pytest.FixtureRequest) -> str:
    """An address; with the second one connections are opened although nothing can be written with them."""
    mark = "&" if "?" in database.url else "?"
    return database.url if request.param == "as it is" else f"{database.url}{mark}target_session_attrs=any"


async def begun(log: PostgresLog) -> None:
    """A log that has used each of its connections."""
    await log.append(events("x", 1, 2), status="running")
    await until(lambda: log._queue._inline is not None)  # type: ignore[attr-defined]
    await log.append(events("x", 3, 3), status="running")
    await log.claim("x")
    await log._slots.take([Ask(("x", "s", None), Cap("k", 1, "queue"))])


async def test_what_could_not_write_writes_again_without_being_cut(url: str, switch: Switch) -> None:
    log, registry = PostgresLog(url, lease_s=600.0), PgRegistry(url, 600.0)
    heard: list[str] = []
    try:
        await begun(log)
        await registry.renew("w", {})
        switch.off()
        for failing in (
            log.append(events("x", 4, 4), status="running"),
            log.append(events("x", 4, 4), status="running"),  # with a connection opened meanwhile, if there is one
            log.append(events("y", 1, 100), status="running"),
            log.claim("z"),
            log.claim("z"),
            log.probe(),
            registry.renew("w2", {}),
            registry.renew("w2", {}),
            log._slots.take([Ask(("y", "s", None), Cap("k", 1, "queue"))]),
        ):
            with pytest.raises(StoreFailed):
                await failing
        assert [one.seq for one in log.summaries()] == [3], "it can still be read"
        log.listen(heard.append)
        switch.on()
        log.post("x", b"asked")
        await log.probe()
        await log.append(events("x", 4, 4), status="running")
        await log.append(events("y", 1, 100), status="running")
        assert await log.claim("z")
        assert await registry.renew("w", {})
        assert [one[2] for one in log.collect()] == [b"asked"]
        assert len(await log._slots.take([Ask(("y", "s", None), Cap("k2", 1, "queue"))])) == 1
        await until(lambda: log._queue._inline is not None)  # type: ignore[attr-defined]
        await log.append(events("x", 5, 5), status="running")
        assert [event.seq for event in log.read("x")] == [1, 2, 3, 4, 5]
        await until(lambda: bool(heard))
        log.post("x", b"more")
        await until(lambda: len(heard) > 1)
    finally:
        registry.close()
        await log.close()


async def test_small_appends_find_out_themselves_that_their_connection_can_only_read(
    database: Database, switch: Switch
) -> None:
    log = PostgresLog(database.url)
    try:
        await begun(log)
        inline = log._queue._inline  # type: ignore[attr-defined]
        inline._connection.pgconn.exec_(b"SET default_transaction_read_only = on")
        await log.append(events("x", 4, 4), status="running")
        assert inline.broken
        await until(lambda: log._queue._inline is not None)  # type: ignore[attr-defined]
        assert log._queue._inline is not inline  # type: ignore[attr-defined]
        assert len(log.read("x")) == 4
    finally:
        await log.close()


async def test_who_reads_while_nothing_can_be_written_looks_for_a_better_connection_soon(
    database: Database, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await PostgresLog(database.url).close()
    switch.off()
    log = PostgresLog(database.url)  # nothing has to be upgraded, so nothing has to be written
    try:
        assert log.summaries() == []
        session = next(iter(log._readers.values()))
        before = session.open()
        assert session.open() is before
        switch.on()
        monkeypatch.setattr(schema, "_READ_ONLY_S", 0.0)
        session._until = time.monotonic()
        await asyncio.sleep(0.001)
        after = session.open()
        assert after is not before
        assert session.open() is after, "this one can write"
    finally:
        await log.close()


@pytest.mark.parametrize("code", ["25006", "57P01", "57P02", "57P03", "08006", "0A000", "25P02", "26000", "XX000"])
def test_a_session_that_cannot_do_better_is_given_up(code: str) -> None:
    assert is_spent_code(code)


@pytest.mark.parametrize("code", [None, "23505", "40001", "40P01", "53100", "57014", "55P03", "P0001"])
def test_a_session_whose_statement_failed_is_kept(code: str | None) -> None:
    assert not is_spent_code(code)
