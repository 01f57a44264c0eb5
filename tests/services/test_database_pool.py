"""A database that a test had before is like a new one, or is not given out again."""

from __future__ import annotations

import psycopg
import pytest
from servers import Database, DatabasePool

from noetl.services.servers import PostgresServer


@pytest.fixture
def pool(postgres_server: PostgresServer) -> DatabasePool:
    return DatabasePool(postgres_server)


def execute(database: Database, *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in statements:
            found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


def drop(*databases: Database) -> None:
    for name, server in {one.name: one.server for one in databases}.items():
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


def test_a_database_that_is_given_out_again_has_nothing_in_it_and_no_connection(pool: DatabasePool) -> None:
    first = pool.take()
    public = "SELECT nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE nspname = 'public'"
    before = execute(first, public)
    execute(first, "CREATE TABLE t (n int)", 'CREATE SCHEMA "An Other"', "CREATE TYPE \"An Other\".e AS ENUM ('a')")
    with psycopg.connect(first.url) as left_open:
        pool.put_back(first)
        again = pool.take()
        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")
        left_open.close()
    assert again == first
    assert execute(again, public) == before
    assert execute(again, "SELECT nspname FROM pg_namespace WHERE oid >= 16384") == [("public",)]
    assert execute(again, "SELECT relname FROM pg_class WHERE oid >= 16384") == []
    drop(again)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER DATABASE {} CONNECTION LIMIT 0",
        "ALTER DATABASE {} SET enable_seqscan = off",
        "GRANT CREATE ON DATABASE {} TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "SELECT lo_create(0)",
        "CREATE PUBLICATION p",
    ],
)
def test_a_database_that_was_changed_outside_of_its_schemas_is_not_given_out_again(
    pool: DatabasePool, statement: str
) -> None:
    first = pool.take()
    execute(first, statement.format(first.name))
    pool.put_back(first)
    other = pool.take()
    assert other != first
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        execute(first, "SELECT 1")
    drop(other)
