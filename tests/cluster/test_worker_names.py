"""A worker's name is bound to the token it was first heard with, in every registry."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from servers import Database

from noetl.ports import WorkerRegistry
from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.postgres.schema import connect, prepare
from noetl.stores.postgres.worker_registry import PgRegistry


def make_tables(database: Database) -> None:
    with connect(database.url) as connection:
        prepare(connection)


@pytest.fixture(params=["memory", "postgres"])
def registries(request: pytest.FixtureRequest) -> Iterator[tuple[WorkerRegistry, WorkerRegistry]]:
    """A registry, and that of another server."""
    if request.param == "memory":
        one = MemoryRegistry(60.0)
        yield one, one
        return
    database: Database = request.getfixturevalue("database")
    make_tables(database)
    both = PgRegistry(database.url, 60.0), PgRegistry(database.url, 60.0)
    yield both
    for registry in both:
        registry.close()


async def test_a_name_is_known_with_its_token_alone(registries: tuple[WorkerRegistry, WorkerRegistry]) -> None:
    one, other = registries
    assert await one.renew("w", {"slots": 1}, token="ann")
    for registry in (one, other):
        assert await registry.knows("w", "ann")
        assert not await registry.knows("w", "bob")
        assert not await registry.renew("w", {"slots": 99}, token="bob")
        assert await registry.is_foreign("w", "bob")
        assert not await registry.is_foreign("w", "ann")
        assert not await registry.is_foreign("new", "bob")
    assert [found["slots"] for found in other.workers()] == [1]


async def test_another_token_ends_no_worker(registries: tuple[WorkerRegistry, WorkerRegistry]) -> None:
    one, other = registries
    await one.renew("w", {}, token="ann")
    await other.leave("w", "bob")
    assert await one.renew("w", {}, token="ann")
    await other.leave("w", "ann")
    getattr(one, "_renewed", {}).clear()  # what was written a moment ago is not written again
    assert not await one.renew("w", {}, token="ann")
    assert await one.is_foreign("w", "bob")
    assert not await one.renew("w", {}, token="bob")


async def test_a_worker_that_an_earlier_version_knows_belongs_to_whoever_shows_a_token_first(
    database: Database,
) -> None:
    make_tables(database)
    registry = PgRegistry(database.url, 60.0)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO noetl.worker (worker, until, about) VALUES ('w', now() + interval '1 hour', '{}')"
        )
    assert await registry.knows("w", "ann")
    assert await registry.renew("w", {}, token="ann")
    assert not await registry.renew("w", {}, token="bob")
    registry.close()
