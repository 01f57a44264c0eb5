"""Nothing is ever spliced: hostile values at every place of a statement, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from databases import Db
from hostile import EVERYWHERE, HOSTILE, NAMED, NAMES, TEXTS, around
from hypothesis import HealthCheck, given, settings
from servers import Database
from tool_world import Workshop

#: where a value can stand in PostgreSQL alone
POSITIONS = EVERYWHERE | {
    "in any": "SELECT v FROM (VALUES ({{ workload.v }}), ('other')) t(v) WHERE v = ANY({{ workload.list }})",
    "in a list in parentheses": "SELECT v FROM (VALUES ({{ workload.v }}), ('other')) t(v) WHERE v IN ({{ workload.list }})",
    "out of an array": "SELECT ({{ workload.list }}::text[])[1] AS v",
    "out of jsonb": "SELECT {{ workload.map }}::jsonb ->> 'v' AS v",
    "built into jsonb": "SELECT jsonb_build_object('k', {{ workload.v }}) ->> 'k' AS v",
    "in a block of code": "CREATE TABLE d (v text); DO $$ BEGIN INSERT INTO d VALUES ({{ workload.v }}); END $$; SELECT v FROM d",
    "quoted in a block of code": "CREATE TABLE d (v text); DO $$ BEGIN INSERT INTO d VALUES ('{{ workload.v }}'); END $$; SELECT v FROM d",
    "in a function": "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT {{ workload.v }}::text $$; SELECT f() AS v",
    "in a remark on a table": "CREATE TABLE d (n int); COMMENT ON TABLE d IS {{ workload.v }}; SELECT coalesce(obj_description('d'::regclass), '') AS v",
    "in a setting": "SELECT set_config('a.b', {{ workload.v }}, true) AS v",
    "explained": "CREATE TABLE d (v text); PREPARE p AS INSERT INTO d VALUES ({{ workload.v }}); EXECUTE p; SELECT v FROM d",
}
CLEAN = "DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS d; DROP FUNCTION IF EXISTS f; "


@pytest.fixture(autouse=True)
def canary(database: Database) -> None:
    import psycopg

    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE canary AS SELECT 1 AS n")


async def through(db: Db, position: str, value: str) -> Any:
    query = CLEAN + POSITIONS[position]
    output = await db.task(query, **around(query, value))
    if "\x00" in value:  # PostgreSQL has no such text, and says so
        assert output["error"]["kind"] == "sql", (position, value)
        return [{"v": value}]
    assert output["error"] is None, (position, value, output["error"])
    return output["data"]


@pytest.mark.parametrize("position", POSITIONS)
async def test_hostile_values_come_back_as_they_are(db: Db, position: str) -> None:
    for value in HOSTILE:
        assert await through(db, position, value) == [{"v": value}], (position, value)
    tables = "SELECT relname, (SELECT count(*) FROM canary) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'd'"
    assert db.ask(tables) == [("canary", 1)]


@pytest.mark.parametrize(
    "position", ["bare", "in a literal", "in a dollar quote", "as a list", "in a view", "in a block of code"]
)
def test_any_text_comes_back_as_it_is(position: str, database: Database, tmp_path: Path) -> None:
    values: list[str] = []

    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    @given(TEXTS)
    def gather(text: str) -> None:
        values.append(text)

    async def all_of_them() -> None:
        world = Workshop(tmp_path)
        try:
            for value in values:
                assert await through(Db(world, database), position, value) == [{"v": value}], (position, value)
        finally:
            await world.close()

    gather()
    asyncio.run(all_of_them())


@pytest.mark.parametrize("query", NAMED)
async def test_a_name_that_is_no_plain_identifier_is_refused(db: Db, query: str) -> None:
    for name in NAMES:
        found = await db.error(query, workload={"t": name})
        assert found["kind"] == "sql"
    assert db.ask("SELECT n FROM canary") == [(1,)]


async def test_a_name_that_is_plain_is_quoted(db: Db) -> None:
    workload = {"s": "My", "t": "select", "c": "Größe"}
    query = 'CREATE SCHEMA {{ workload.s }}; CREATE TABLE {{ workload.s }}.{{ workload.t }} (n int); SELECT n FROM {{ workload.s ~ "." ~ workload.t }}'
    assert await db.rows(query, workload=workload) == []
    assert db.ask('SELECT n FROM "My"."select"') == []


async def test_half_of_a_character_is_refused(db: Db) -> None:
    found = await db.error("SELECT {{ workload.v }} AS v", workload={"v": "\ud800"})
    assert found["kind"] == "sql"


async def test_a_parameter_that_nobody_gives_is_named(db: Db) -> None:
    assert "`who`" in (await db.error("SELECT :who"))["message"]


async def test_text_that_is_marked_is_inserted_as_it_is(db: Db) -> None:
    assert await db.rows("SELECT {{ workload.v | sql }} AS v", workload={"v": "1 + 1"}) == [{"v": 2}]
