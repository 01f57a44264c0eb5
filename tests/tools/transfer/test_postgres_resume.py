"""Transfers from and to PostgreSQL whose process is killed, and which then go on: no row lost, none twice."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkServer
from pgworld import Pg, asked, auths, query, table, told
from servers import Database
from test_resume import MORTAL, attempt

from noetl.drivers.datahost.host import HostCall
from noetl.drivers.postgres import connection_arguments
from noetl.tools.transfer.postgres_source import PostgresSource

pytestmark = pytest.mark.usefixtures("forkserver")

IDS = [(n,) for n in range(10)]
STABLE = table("s", order_by="id")
EVERYWHERE = [table("a"), table("u", mode="upsert", key="id"), table("r", mode="replace")]
#: the rows lie in the table in another order than before
REORDERED = (
    "CREATE TABLE z AS SELECT * FROM s ORDER BY id DESC",
    "DELETE FROM s",
    "INSERT INTO s SELECT * FROM z ORDER BY id DESC",
)


@pytest.fixture
def prepared(database: Database) -> Database:
    told(
        database,
        "CREATE TABLE s AS SELECT n AS id, 'row ' || n AS t FROM generate_series(0, 9) n",
        "CREATE TABLE r (id int PRIMARY KEY, t text)",
        "INSERT INTO r VALUES (77, 'as before')",
    )
    return database


def task(database: Database, source: dict[str, Any], *targets: dict[str, Any]) -> dict[str, Any]:
    given = {"kind": "transfer", "source": source, "targets": list(targets), "chunk": {"size": 3}}
    return {**given, "auths": auths(database)}


def ids(database: Database, name: str) -> list[Any]:
    return asked(database, f"SELECT id FROM {name} ORDER BY id")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_a_killed_transfer_goes_on_though_the_rows_lie_in_another_order(
    prepared: Database, tmp_path: Path, nth: int, when: str
) -> None:
    given = task(prepared, STABLE, *EVERYWHERE)
    assert attempt(tmp_path, given, nth, when) is None
    assert ids(prepared, "r") == [(77,)]
    told(prepared, *REORDERED)
    output = attempt(tmp_path, given)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert [one["rows"] for one in output["data"]["targets"]] == [10, 10, 10]
    for name in ("a", "u", "r"):
        assert ids(prepared, name) == IDS, name
    assert Pg(tmp_path, prepared).left() == []


def test_it_goes_on_behind_a_key_and_not_behind_a_number_of_rows(prepared: Database, tmp_path: Path) -> None:
    given = task(prepared, STABLE, table("a"))
    assert attempt(tmp_path, given, 3, "after") is None
    there = ids(prepared, "a")
    told(prepared, "INSERT INTO s VALUES (-1, 'late'), (-2, 'late')", "DELETE FROM s WHERE id IN (1, 2)")
    assert attempt(tmp_path, given) is not None
    assert ids(prepared, "a") == IDS
    assert there == IDS[: len(there)]


def test_a_key_of_several_columns_and_of_hostile_text_is_gone_on_behind(database: Database, tmp_path: Path) -> None:
    told(
        database,
        "CREATE TABLE s AS SELECT n AS id, n / 4 AS g, E'it''s \"' || n || E'\",\\n\\\\x' AS k FROM generate_series(0, 9) n",
    )
    given = task(database, table("s", order_by=["g", "k"]), table("a"))
    assert attempt(tmp_path, given, 3, "after") is None
    assert attempt(tmp_path, given) is not None
    assert ids(database, "a") == IDS


@pytest.mark.parametrize(
    "source", [table("s", order_by=["g", "k"]), query("SELECT * FROM s", order_by=["g", "k"])], ids=["table", "query"]
)
@pytest.mark.parametrize("nth", [2, 3, 4])
def test_rows_whose_key_has_a_null_are_not_lost(
    database: Database, tmp_path: Path, source: dict[str, Any], nth: int
) -> None:
    told(
        database,
        "CREATE TABLE s (id int, g int, k text, UNIQUE (g, k))",
        "INSERT INTO s VALUES (0, 1, 'a'), (1, 1, 'b'), (2, 1, 'c'), (3, 1, NULL), (4, 2, 'a'), (5, 2, 'b'), (6, 2, NULL), "
        "(7, NULL, 'a'), (8, NULL, 'b'), (9, NULL, NULL)",
    )
    given = task(database, source, table("a"))
    assert attempt(tmp_path, given, nth, "after") is None
    output = attempt(tmp_path, given)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert ids(database, "a") == IDS


@pytest.mark.parametrize(("full", "condition"), [("NOT NULL", "Index Cond"), ("", "Filter")])
def test_the_index_of_a_table_whose_key_has_no_nulls_finds_the_rows_behind_it(
    database: Database, tmp_path: Path, full: str, condition: str
) -> None:
    told(database, f"CREATE TABLE s (a int {full}, b int {full})", "CREATE INDEX ON s (a, b)")
    given = {"auth": "pg", "whole": True, "query": ("SELECT * FROM s", []), "order_by": ["a", "b"]}
    connect = connection_arguments(database.credential)
    source = PostgresSource({**given, "connect": connect}, tmp_path, 10, HostCall(tmp_path))
    try:
        statement = source._statement({"rows": 1, "key": ["1", "1"]})
    finally:
        source.close()
    inner = statement.removeprefix("COPY (").removesuffix(") TO STDOUT (FORMAT csv)")
    told(database, f"ALTER DATABASE {database.name} SET enable_seqscan = off")
    assert condition in str(asked(database, f"EXPLAIN {inner}"))


def test_without_an_order_rows_that_cannot_be_taken_back_are_not_doubled(prepared: Database, tmp_path: Path) -> None:
    given = task(prepared, table("s"), table("a"))
    assert attempt(tmp_path, given, 3, "after") is None
    told(prepared, *REORDERED)
    output = attempt(tmp_path, given)
    assert output is not None
    assert output["error"]["kind"] == "not-resumable"
    assert "source.order_by" in output["error"]["message"]


def test_without_an_order_upserts_and_replacements_begin_anew(prepared: Database, tmp_path: Path) -> None:
    given = task(prepared, table("s"), *EVERYWHERE[1:])
    assert attempt(tmp_path, given, 3, "after") is None
    told(prepared, *REORDERED)
    output = attempt(tmp_path, given)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert ids(prepared, "u") == ids(prepared, "r") == IDS


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
def test_a_process_killed_inside_of_a_chunk_leaves_nothing_of_it(
    prepared: Database, tmp_path: Path, mode: str, forkserver: ForkServer
) -> None:
    target = table("slow", mode=mode, **({"key": "id"} if mode == "upsert" else {}))
    told(
        prepared,
        "CREATE TABLE slow (id int PRIMARY KEY, t text CHECK (length(t) > 0))",
        "CREATE TABLE gate (closed bool)",
        "INSERT INTO gate VALUES (true)",
        "CREATE FUNCTION wait_there(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN "
        "IF $1 = 'row 4' AND (SELECT closed FROM gate) THEN PERFORM pg_sleep(300); END IF; RETURN true; END $$",
        "CREATE DOMAIN slowly AS text CHECK (wait_there(VALUE))",
        "ALTER TABLE slow ALTER t TYPE slowly",
    )
    given = task(prepared, STABLE, target)
    arguments = (str(tmp_path), json.dumps(given), "0", "after")
    process = forkserver.start(*arguments, cwd=tmp_path, env=os.environ, program=MORTAL)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until = time.monotonic() + 300
    while asked(prepared, sleeping) == [(0,)] and time.monotonic() < until:
        time.sleep(0.02)
    assert asked(prepared, sleeping) == [(1,)]
    process.kill()
    process.wait()
    told(prepared, "UPDATE gate SET closed = false", *REORDERED)
    output = attempt(tmp_path, given)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert ids(prepared, "slow") == IDS
    assert Pg(tmp_path, prepared).left() == []


def test_the_other_way_round_files_and_postgres_go_on_together(database: Database, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,t\n" + "".join(f"{n},x\n" for n in range(10)))
    given = task(
        database, {"kind": "file", "path": "in.csv"}, table("a"), {"kind": "file", "path": "o.ndjson", "mode": "append"}
    )
    for nth in (3, 2):
        assert attempt(tmp_path, given, nth, "before") is None
    assert attempt(tmp_path, given) is not None
    assert ids(database, "a") == IDS
    assert len((tmp_path / "o.ndjson").read_text().splitlines()) == 10


def test_data_in_hand_is_gone_on_with(database: Database, tmp_path: Path) -> None:
    given = task(database, {"kind": "data", "data": [{"id": n} for n in range(10)]}, table("a"))
    assert attempt(tmp_path, given, 3, "before") is None
    assert attempt(tmp_path, given) is not None
    assert ids(database, "a") == IDS


async def test_two_attempts_at_the_same_time_do_not_both_bring_in_a_chunk(database: Database, tmp_path: Path) -> None:
    import asyncio

    one, other = Pg(tmp_path / "1", database), Pg(tmp_path / "2", database)
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    source = query("SELECT n AS id FROM generate_series(0, 999) n", order_by="id")
    try:
        done = await asyncio.gather(*(pg.output(source, table("a"), chunk={"size": 10}) for pg in (one, other)))
    finally:
        await one.close()
        await other.close()
    assert asked(database, "SELECT count(*), count(DISTINCT id) FROM a") == [(1000, 1000)]
    for output in done:
        assert output["error"] is None or "another attempt" in output["error"]["message"], output["error"]
