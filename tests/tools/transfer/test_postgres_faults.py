"""What goes wrong between a transfer and PostgreSQL, and what is told of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cutting import wire
from pgworld import Pg, auths, data, query, table
from servers import QUICK, Database
from tool_world import until

from noetl.ports import Call
from noetl.services.servers import PostgresServer


@pytest.fixture
def pg(tmp_path: Path, database: Database) -> Pg:
    return Pg(tmp_path, database)


def over(database: Database, port: int) -> dict[str, Any]:
    """The credential of a way to the same server."""
    return {"pg": {**auths(database)["pg"], "port": port}}


# --- rows that do not fit -----------------------------------------------------------------------------------------------


UNFIT: list[tuple[Any, dict[str, Any], str]] = [
    ({"id": "x"}, {"column": "id", "row": 5, "value": "x"}, "invalid input syntax for type integer"),
    ({"id": 2**40}, {"column": "id", "row": 5, "value": str(2**40)}, "out of range for type integer"),
    ({"amount": "12345.6"}, {"row": 5}, "numeric field overflow"),
    ({"day": "2024-02-30"}, {"column": "day", "row": 5, "value": "2024-02-30"}, "date/time field value out of range"),
    ({"name": None}, {"column": "name", "row": 5}, "must not be empty"),
    ({"name": "too long a name"}, {"column": "name", "row": 5, "value": "too long a name"}, "value too long"),
    ({"j": "{broken"}, {"column": "j", "row": 5}, "invalid input syntax for type json"),
    ({"id": 1}, {"row": 5}, "duplicate key"),
]


@pytest.mark.parametrize(
    ("form", "wrong", "place", "said"),
    [
        pytest.param(form, *one, id=f"{form}-{next(iter(one[0]))}{number}")
        for form in ("csv", "postgres", "data")
        for number, one in enumerate(UNFIT)
        if form != "data" or "j" not in one[0]  # text in JSON is a string of jsonb, and fits
    ],
)
async def test_a_value_that_does_not_fit_is_told_with_column_row_and_value(
    pg: Pg, form: str, wrong: dict[str, Any], place: dict[str, Any], said: str
) -> None:
    pg.tell("CREATE TABLE t (id int PRIMARY KEY, name varchar(10) NOT NULL, amount numeric(5,2), day date, j jsonb)")
    rows = [{"id": n, "name": f"a\n{n}", "amount": "1.5", "day": "2024-02-29", "j": '{"a": 1}'} for n in range(1, 7)]
    rows[4] |= wrong
    source = data(*rows)
    if form == "csv":
        await pg.move(source, {"kind": "file", "path": "in.csv"})
        source = {"kind": "file", "path": "in.csv"}
    if form == "postgres":
        pg.tell("CREATE TABLE s (id text, name text, amount text, day text, j text)")
        await pg.move(source, table("s"), key="first")
        source = table("s")
    error = await pg.fail(source, table("t"), key="second", chunk={"size": 3})
    assert error["kind"] == "type"
    assert {key: error.get(key) for key in place} == place, error
    assert said in error["message"]
    assert not error["retryable"]
    assert pg.ask("SELECT count(*) FROM t") == [(3,)]


async def test_a_key_without_a_value_is_told(pg: Pg) -> None:
    error = await pg.fail(data({"id": 1}, {"id": None}), table("t", mode="upsert", key="id"))
    assert error["message"].endswith("row 2 has no value for `id`, the `key` of the upsert")
    error = await pg.fail(data({"id": 1}), table("t", mode="upsert", key="nr"), key="2")
    assert "the rows have no column `nr`, which is the `key` of the upsert" in error["message"]


async def test_a_row_with_too_many_fields_is_told(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (a int, b int)")
    text = "a,b\n" + "1,2\n" * 30_000 + "1,2,3\n" + "1,2\n"
    (pg.folder / "in.csv").write_text(text)
    error = await pg.fail({"kind": "file", "path": "in.csv"}, table("t"))
    assert error["row"] == 30_001
    assert error["kind"] == "type"


# --- questions that make no sense ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (query("SELECT nothing FROM nowhere"), 'the source\'s query: relation "nowhere" does not exist'),
        (query("SELECT 1 AS a, 2 AS a"), "two columns `a`"),
        (
            query("SELECT 1 AS a", order_by="b"),
            "`order_by` names a column `b` that the rows do not have; they have `a`",
        ),
        (query("DELETE FROM pg_class"), "the source's query"),
        (query("SELECT 1; SELECT 2"), "must be one statement, not 2"),
        (query("SELECT 1 / (n - 5) AS a FROM generate_series(1, 9) n"), "division by zero"),
        ({"kind": "postgres", "table": "t"}, "needs `auth`"),
        ({"kind": "postgres", "table": "t", "auth": "other"}, "needs `auth`"),
    ],
)
async def test_a_source_that_makes_no_sense_is_refused_with_a_way_out(pg: Pg, source: Any, said: str) -> None:
    error = await pg.fail(source, table("t"))
    assert said in error["message"], error
    assert not error["retryable"]


async def test_a_source_cannot_write(pg: Pg) -> None:
    pg.tell("CREATE FUNCTION sly() RETURNS int LANGUAGE sql AS 'CREATE TABLE made (); SELECT 1'")
    error = await pg.fail(query("SELECT sly() AS a"), table("t"))
    assert error["code"] == "25006"


async def test_a_wrong_credential_says_which_and_why_and_does_not_show_it(pg: Pg) -> None:
    wrong = {"pg": {**auths(pg.database)["pg"], "password": "hunter2-secret"}}
    for source, target in ((table("s"), {"kind": "file", "path": "o.csv"}), (data({"id": 1}), table("t"))):
        error = await pg.fail(source, target, auths=wrong)
        assert error["kind"] == "credential"
        assert "the credential `pg`" in error["message"]
        assert "password authentication failed" in error["message"]
        assert "hunter2" not in str(error)
    error = await pg.fail(table("s"), table("t"), auths={"pg": {"kind": "bearer", "token": "x"}})
    assert "needs a `postgres_credential`; `pg` is of the kind `bearer`" in error["message"]


@pytest.mark.parametrize(
    "dsn",
    [
        "password=correct hushbattery",
        "postgresql://u:p%zzhush@127.0.0.1/x",
        "postgresql://u:a@hush@127.0.0.1/x",
        "postgresql://u:pa@hush/b@db/x",
    ],
)
@pytest.mark.parametrize("kind", ["postgres_credential", "generic", "secret_manager"])
async def test_of_an_address_that_is_none_nothing_is_shown(pg: Pg, dsn: str, kind: str) -> None:
    wrong = {"pg": {"kind": kind, "dsn": dsn}}
    for source, target in ((table("s"), {"kind": "file", "path": "o.csv"}), (data({"id": 1}), table("t"))):
        error = await pg.fail(source, target, auths=wrong)
        assert (error["kind"], error["retryable"]) == ("credential", False)
        assert "the credential `pg` has an address that is none (`dsn`)" in error["message"]
        assert "hush" not in str(error)


async def test_a_server_that_is_not_there_may_be_there_later(pg: Pg) -> None:
    error = await pg.fail(data({"id": 1}), table("t"), auths=over(pg.database, 1))
    assert error["retryable"]
    assert "no connection to PostgreSQL with the credential `pg`" in error["message"]


async def test_who_may_not_make_the_table_of_markers_is_told_how_to(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (id int)", "CREATE ROLE guest LOGIN PASSWORD 'guest'", "GRANT ALL ON t TO guest")
    try:
        guest = {"pg": {**auths(pg.database)["pg"], "user": "guest", "password": "guest"}}
        error = await pg.fail(data({"id": 1}), table("t"), auths=guest)
        assert error["code"] == "42501"
        assert "GRANT CREATE ON SCHEMA" in error["message"]
    finally:
        pg.tell("DROP OWNED BY guest", "DROP ROLE guest")


# --- servers and connections that go away -------------------------------------------------------------------------------


async def test_a_commit_whose_answer_was_lost_is_looked_up(pg: Pg) -> None:
    source = query("SELECT n AS id FROM generate_series(0, 9) n", order_by="id")
    files = {"kind": "file", "path": "o.ndjson"}
    await pg.move(source, files)
    with wire(pg.database.server.port) as way:
        way.commits = 2
        told = await pg.move({"kind": "file", "path": "o.ndjson"}, table("t", mapping={"id": "{{ row.id }}", "n": "{{ chunk.index }}"}),
                             auths=over(pg.database, way.port), chunk={"size": 2}, key="cut")  # fmt: skip
        assert way.cuts == 1
    assert told["rows"] == 10
    assert pg.ask("SELECT id FROM t ORDER BY id") == [(n,) for n in range(10)]
    assert pg.left() == []


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
async def test_after_a_lost_commit_a_later_attempt_brings_in_nothing_twice(pg: Pg, mode: str) -> None:
    target = table(
        "t",
        mode=mode,
        mapping={"id": "{{ row.id }}", "n": "{{ chunk.index }}"},
        **({"key": "id"} if mode == "upsert" else {}),
    )
    rows = data(*({"id": n} for n in range(10)))
    with wire(pg.database.server.port) as way:
        given = {"auths": over(pg.database, way.port), "chunk": {"size": 2}}
        for passing in range(8):
            way.commits, way.dies, way.cuts = passing, True, 0
            pg.tell("DROP TABLE IF EXISTS t, noetl_transfers")
            pg.said.clear()
            output = await pg.output(rows, target, key=f"{mode}{passing}", **given)
            if way.cuts:
                assert output["error"]["retryable"], output["error"]
                way.dead = False
                known = pg.said[-1] if pg.said else None
                again = await pg.move(rows, target, progress=known, key=f"{mode}{passing}", **given)
                assert again["rows"] == 10
            assert pg.ask("SELECT id FROM t ORDER BY id") == [(n,) for n in range(10)], passing
            assert pg.left() == []


async def test_a_server_that_dies_in_the_middle_is_gone_on_with(tmp_path: Path) -> None:
    # Not below pytest's own folder, which other sessions of pytest close to the server's user.
    with (
        TemporaryDirectory(prefix="noetl-postgres-") as place,
        PostgresServer(Path(place) / "data", settings=QUICK) as server,
    ):
        pg = Pg(tmp_path, Database(server, "postgres"))
        pg.tell("CREATE TABLE s AS SELECT n AS id, repeat('x', 100) AS t FROM generate_series(1, 200000) n",
                "CREATE TABLE r (id int, t text)", "INSERT INTO r VALUES (0, 'as before')")  # fmt: skip
        source, targets = table("s", order_by="id"), (table("a"), table("r", mode="replace"))
        record, stopped = pg.progress, asyncio.Event()

        async def progress(call: Call, said: Mapping[str, Any]) -> None:
            await record(call, said)
            if len(pg.said) > 2:
                await stopped.wait()  # the transfer is in the middle until then

        pg.progress = progress  # type: ignore[method-assign]
        try:
            running = asyncio.ensure_future(pg.output(source, *targets, chunk={"size": 5000}))
            await until(lambda: len(pg.said) > 2 or running.done())
            server.stop(at_once=True)
            stopped.set()
            output = await running
            assert output["error"]["retryable"], output
            assert output["error"]["kind"] == "sql"
            server.start()
            assert pg.ask("SELECT id FROM r") == [(0,)]
            assert (await pg.output(source, *targets, chunk={"size": 5000}, progress=pg.said[-1],
                                    auths=auths(pg.database)))["error"] is None  # fmt: skip
            for name in ("a", "r"):
                assert pg.ask(f"SELECT count(*), count(DISTINCT id) FROM {name}") == [(200000, 200000)]
            assert pg.left() == []
        finally:
            await pg.close()


async def test_a_slow_source_does_not_hold_up_a_failure(pg: Pg) -> None:
    pg.tell("CREATE TABLE picky (id int CHECK (id < 5))")
    slowly = "pg_sleep(CASE n WHEN 2000 THEN 120 ELSE 0 END)::text || repeat('x', 200) AS t"
    source = query(f"SELECT n AS id, {slowly} FROM generate_series(0, 2000) n")
    started = time.monotonic()
    error = await pg.fail(source, table("picky", mapping={"id": "{{ row.id }}"}), chunk={"size": 3})
    assert error["row"] == 6
    assert time.monotonic() - started < 60
    await until(lambda: pg.ask(BUSY) == [(0,)])


async def test_a_full_disk_is_told_and_gone_on_after(pg: Pg) -> None:
    pg.tell(
        "CREATE TABLE t (id int)",
        "CREATE TABLE disk (is_full bool)",
        "INSERT INTO disk VALUES (true)",
        "CREATE FUNCTION full_at_7() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 7 AND (SELECT is_full FROM disk) "
        "THEN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END IF; "
        "RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION full_at_7()",
    )
    source = query("SELECT n AS id FROM generate_series(0, 9) n", order_by="id")
    mapping = {"id": "{{ row.id }}"}
    error = await pg.fail(source, table("t", mapping=mapping, on_error="fail"), {"kind": "file", "path": "{{ chunk.index }}.csv"},
                          chunk={"size": 2})  # fmt: skip
    assert error["retryable"]
    assert error["code"] == "53100"
    assert "the disk of the server is full" in error["message"]
    pg.tell("UPDATE disk SET is_full = false")
    await pg.move(source, table("t", mapping=mapping), {"kind": "file", "path": "{{ chunk.index }}.csv"}, chunk={"size": 2},
                  progress=pg.said[-1])  # fmt: skip
    assert pg.ask("SELECT id FROM t ORDER BY id") == [(n,) for n in range(10)]


async def test_a_target_that_only_warns_lets_the_others_go_on(pg: Pg) -> None:
    pg.tell("CREATE TABLE picky (id int CHECK (id <> 3))")
    source = query("SELECT n AS id FROM generate_series(0, 9) n", order_by="id")
    told = await pg.move(
        source,
        table("picky", on_error="warn"),
        table("all"),
        table("r", mode="replace", on_error="warn"),
        chunk={"size": 2},
    )
    assert pg.ask('SELECT id FROM "all" ORDER BY id') == [(n,) for n in range(10)]
    assert pg.ask("SELECT id FROM picky ORDER BY id") == [(n,) for n in range(10) if n not in (2, 3)]
    assert told["targets"][0]["failed"] == 1
    assert told["targets"][0]["error"]["row"] == 4
    assert "warning: chunk 1" in pg.logged("stderr", "s")


# --- cancelling ------------------------------------------------------------------------------------------------------------

BUSY = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'noetl' AND state = 'active'"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (query("SELECT n AS id, pg_sleep(0.01) FROM generate_series(1, 12000) n"), {"kind": "file", "path": "o.csv"}),
        (query("SELECT count(*) AS id FROM generate_series(1, 30) n, pg_sleep(120)"), table("t")),
        (data({"id": 1}), table("slow")),
    ],
    ids=["reading", "sorting", "writing"],
)
async def test_cancelling_reaches_the_server(pg: Pg, source: Any, target: Any) -> None:
    pg.tell(
        "CREATE TABLE slow (id int)",
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(120); RETURN NEW; END $$",
        "CREATE TRIGGER slow BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    running = asyncio.ensure_future(pg.output(source, target))
    await until(lambda: pg.ask(BUSY) == [(1,)])
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: pg.ask(BUSY) == [(0,)])
    assert pg.ask("SELECT count(*) FROM slow") == [(0,)]
