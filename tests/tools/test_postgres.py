"""kind: postgres, on a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from databases import Db

EVERY_TYPE = """
SELECT DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 03:04:05.6' AS moment,
       TIMESTAMPTZ '2024-02-29 03:04:05+00' AT TIME ZONE 'UTC' AS utc, TIME '01:02:03' AS clock,
       INTERVAL '1 day 2 hours' AS span, 1.10::numeric AS price, 123456789012345678.123::numeric AS exact,
       9223372036854775807::int8 AS big, 12345678901234567890::numeric AS huge, 7::int2 AS small,
       '6b9d1e0e-0000-0000-0000-000000000000'::uuid AS id, '\\x616200'::bytea AS bytes,
       ARRAY[TIMESTAMP '2024-01-01', NULL] AS moments, ARRAY[[1,2],[3,4]] AS grid, ARRAY[1.5::numeric] AS prices,
       '{"a": [1, null, {"b": "c"}]}'::jsonb AS doc, '[1]'::json AS list, NULL AS nothing, true AS flag, 2.5::float8 AS number,
       int4range(1, 10) AS span_of_numbers, 'glad'::mood AS mood, ARRAY['sad'::mood] AS moods, ROW(1, 'x')::pair AS pair,
       '10.0.0.1/8'::inet AS address, DATE 'infinity' AS never, DATE '0044-03-15 BC' AS ides
"""


async def test_values_of_every_type_become_json_by_the_rules_of_all_tools(db: Db) -> None:
    await db.rows("CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TYPE pair AS (a int, b text)")
    (row,) = await db.rows(EVERY_TYPE)
    assert row == {
        "day": "2024-02-29",
        "moment": "2024-02-29T03:04:05.6",
        "utc": "2024-02-29T03:04:05",
        "clock": "01:02:03",
        "span": "1 day 02:00:00",
        "price": 1.1,
        "exact": "123456789012345678.123",
        "big": 9223372036854775807,
        "huge": 12345678901234567890,
        "small": 7,
        "id": "6b9d1e0e-0000-0000-0000-000000000000",
        "bytes": "YWIA",
        "moments": ["2024-01-01T00:00:00", None],
        "grid": [[1, 2], [3, 4]],
        "prices": [1.5],
        "doc": {"a": [1, None, {"b": "c"}]},
        "list": [1],
        "nothing": None,
        "flag": True,
        "number": 2.5,
        "span_of_numbers": "[1,10)",
        "mood": "glad",
        "moods": ["sad"],
        "pair": "(1,x)",
        "address": "10.0.0.1/8",
        "never": "infinity",
        "ides": "0044-03-15 BC",
    }


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("date", "2024-02-29", "2024-02-29"),
        ("timestamptz", "2024-02-29T03:04:05Z", "2024-02-29T03:04:05+00:00"),
        ("int", "42", 42),
        ("int", 42, 42),
        ("int8", 2**40, 2**40),
        ("numeric", "123456789012345678.123", "123456789012345678.123"),
        ("numeric", 0.12345678901234568, 0.12345678901234568),
        ("numeric", 10**30, 10**30),
        ("float8", 2.5, 2.5),
        ("float8", 1e300, 1e300),
        ("text", 5, "5"),
        ("text", [1, "a"], '[1,"a"]'),
        ("bool", True, True),
        ("jsonb", {"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
        ("json", {"a": 1}, {"a": 1}),
        ("jsonb", [1, {"a": 'quo"te'}], [1, {"a": 'quo"te'}]),
        ("jsonb", [], []),
        ("int[]", [1, 2, None], [1, 2, None]),
        ("int[]", [], []),
        ("int[]", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("text[]", ['a"b\\', "NULL", "", "{x,y}", None], ['a"b\\', "NULL", "", "{x,y}", None]),
        ("date[]", ["2024-01-01"], ["2024-01-01"]),
        ("jsonb[]", [{"a": 1}, [1], "x"], [{"a": 1}, [1], "x"]),
        ("uuid", "6b9d1e0e-0000-0000-0000-000000000000", "6b9d1e0e-0000-0000-0000-000000000000"),
        ("interval", "1 day", "1 day"),
        ("int4range", "[1,5)", "[1,5)"),
        ("text", None, None),
        ("jsonb", None, None),
    ],
)  # fmt: skip
async def test_values_of_playbooks_fit_columns_of_every_type(db: Db, column: str, value: Any, stored: Any) -> None:
    query = f"SET TimeZone = 'UTC'; CREATE TABLE t (v {column}); INSERT INTO t VALUES ({{{{ workload.v }}}}); SELECT v FROM t"
    assert await db.rows(query, workload={"v": value}) == [{"v": stored}]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT n FROM generate_series(1, 4) n WHERE n = ANY({{ workload.list }})", [1, 3]),
        ("SELECT n FROM generate_series(1, 4) n WHERE n IN {{ workload.list }}", [1, 3]),
        ("SELECT n FROM generate_series(1, 4) n WHERE n IN ({{ workload.list }}) AND true", [1, 3]),
        ("SELECT n FROM generate_series(1, 4) n WHERE n NOT IN ({{ workload.list }})", [2, 4]),
        ("SELECT n FROM generate_series(1, 2) n WHERE n IN {{ workload.none }}", []),
        ("SELECT n FROM generate_series(1, 2) n WHERE n NOT IN {{ workload.none }}", [1, 2]),
        ("SELECT n FROM generate_series(1, 4) n WHERE n IN ({{ workload.one }}, 4)", [1, 4]),
        ("SELECT unnest({{ workload.list }}) AS n", [1, 3]),
        ("SELECT unnest({{ workload.list }}::int[]) AS n", [1, 3]),
        ("SELECT jsonb_array_elements({{ workload.list }}) AS n", [1, 3]),
        ("SELECT array_length({{ workload.list }}, 1) AS n", [2]),
        ("SELECT jsonb_build_object('k', {{ workload.text }}, 'l', {{ workload.nothing }}) AS n", [{"k": "x", "l": None}]),
        ("SELECT concat({{ workload.text }}, {{ workload.one }}) AS n", ["x1"]),
        ("SELECT {{ workload.large }} + {{ workload.large }} AS n", [60000]),
        ("SELECT round({{ workload.half }} / 3, 2) AS n", [0.83]),
        ("SELECT {{ workload.text }} || 'y' AS n", ["xy"]),
        ("SELECT {{ workload.map }} ->> 'a' AS n", ["b"]),
    ],
)  # fmt: skip
async def test_values_stand_wherever_values_may(db: Db, query: str, found: list[Any]) -> None:
    workload = {
        "list": [1, 3],
        "none": [],
        "one": 1,
        "text": "x",
        "nothing": None,
        "large": 30000,
        "half": 2.5,
        "map": {"a": "b"},
    }
    for _ in range(2):  # what was found out the first time is known the second time
        assert [row["n"] for row in await db.rows(query, workload=workload)] == found


async def test_numbers_that_json_has_no_form_for_are_named_with_their_column(db: Db) -> None:
    for value in ("'NaN'::float8", "'Infinity'::float4", "'NaN'::numeric", "ARRAY['-Infinity'::float8]"):
        found = await db.error(f"SELECT 1 AS fine, {value} AS ratio")
        assert found["kind"] == "result-not-json"
        assert "`ratio`" in found["message"]
    assert await db.rows("SELECT 1 AS n") == [{"n": 1}]


async def test_columns_of_one_name_are_all_there(db: Db) -> None:
    assert await db.rows("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a") == [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]


# --- statements --------------------------------------------------------------------------------------------------------


async def test_of_several_statements_the_last_ones_rows_are_the_output(db: Db) -> None:
    query = "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2); SELECT n FROM t ORDER BY n; -- the end"
    output = await db.task(query)
    assert output["data"] == [{"n": 1}, {"n": 2}]
    assert output["pg"] == {"code": "00000", "sqlstate": "00000", "message": None, "rowcount": 2}
    output = await db.task("INSERT INTO t SELECT generate_series(3, 10)")
    assert (output["data"], output["pg"]["rowcount"]) == ([], 8)
    assert await db.rows("INSERT INTO t VALUES (11) RETURNING n, n + 1 AS next") == [{"n": 11, "next": 12}]
    assert await db.rows("WITH gone AS (DELETE FROM t WHERE n > 2 RETURNING n) SELECT count(*) AS n FROM gone") == [
        {"n": 9}
    ]
    assert await db.rows("SELECT 1 AS n; DELETE FROM t WHERE n = 1") == []
    assert await db.rows("-- nothing but a remark") == []
    assert await db.rows("SELECT n FROM t WHERE false") == []
    assert (await db.rows("EXPLAIN SELECT {{ workload.x }}", workload={"x": "it's"}))[0]["QUERY PLAN"]


async def test_statements_happen_together_or_not_at_all(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int)")
    found = await db.error("INSERT INTO t VALUES (1); SELECT * FROM nowhere")
    assert (found["kind"], found["code"]) == ("sql", "42P01")
    assert await db.rows("SELECT * FROM t") == []
    found = await db.error("INSERT INTO t VALUES (1) RETURNING 'NaN'::float8 AS n")
    assert found["kind"] == "result-not-json"
    assert await db.rows("SELECT * FROM t") == []


async def test_a_transaction_around_the_statements_is_the_one_they_have(db: Db) -> None:
    query = "BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE t (n int); SHOW transaction_isolation; COMMIT;"
    assert await db.rows(query) == [{"transaction_isolation": "serializable"}]
    assert await db.rows("SELECT * FROM t") == []


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK", "END", "BEGIN", "ABORT"])
async def test_a_transaction_cannot_be_ended_amid_the_statements(db: Db, word: str) -> None:
    found = await db.error(f"CREATE TABLE t (n int); {word}; INSERT INTO t VALUES (1)")
    assert "one transaction" in found["message"]
    assert db.ask("SELECT to_regclass('t')") == [(None,)]


async def test_savepoints_are_the_authors_own_affair(db: Db) -> None:
    query = (
        "CREATE TABLE t (n int); SAVEPOINT a; INSERT INTO t VALUES (1); ROLLBACK TO SAVEPOINT a; "
        "INSERT INTO t VALUES (2); SELECT n FROM t"
    )
    assert await db.rows(query) == [{"n": 2}]


async def test_what_cannot_run_in_a_transaction_runs_without_one(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int)")
    await db.rows("VACUUM t; -- done")
    await db.rows("CREATE INDEX CONCURRENTLY i ON t (n); REINDEX INDEX CONCURRENTLY i; SELECT 1")
    assert db.ask("SELECT indexname FROM pg_indexes WHERE tablename = 't'") == [("i",)]


async def test_a_procedure_may_have_transactions_of_its_own(db: Db) -> None:
    await db.rows(
        "CREATE TABLE t (n int); CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ "
        "BEGIN INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); ROLLBACK; END $$"
    )
    await db.rows("CALL p()")
    assert db.ask("SELECT n FROM t") == [(1,)]


async def test_the_body_of_a_function_is_one_statement(db: Db) -> None:
    query = (
        "CREATE TABLE t (n int); CREATE FUNCTION f() RETURNS bigint LANGUAGE sql "
        "BEGIN ATOMIC INSERT INTO t VALUES (5); SELECT count(*) FROM t; END; SELECT f() AS n"
    )
    assert await db.rows(query) == [{"n": 1}]


@pytest.mark.parametrize("query", ["COPY (SELECT 1) TO STDOUT", "CREATE TABLE t (n int); COPY t FROM STDIN"])
async def test_a_copy_to_or_from_a_client_is_refused_with_a_way_out(db: Db, query: str) -> None:
    found = await db.error(query)
    assert "transfer" in found["message"]
    assert await db.rows("SELECT 1 AS n") == [{"n": 1}]


# --- errors ------------------------------------------------------------------------------------------------------------


async def test_a_mistake_is_shown_where_it_stands_in_the_query(db: Db) -> None:
    found = await db.error("SELECT 1;\n\nSELECT n,\n       {{ workload.v }} FROMM t", workload={"v": 1})
    assert (found["code"], found["statement"], found["line"]) == ("42601", 2, 4)
    assert "syntax error" in found["message"]
    assert "line 4 of the query" in found["message"]
    found = await db.error("\nSELECT\n  nothing")
    assert (found["code"], found["line"]) == ("42703", 3)
    assert "`nothing`" in found["message"]
    found = await db.error("SELECT 1; SELECT (2")
    assert "at the end of statement 2" in found["message"]


async def test_an_error_has_its_code_and_what_the_server_says_of_it(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int PRIMARY KEY, m int NOT NULL DEFAULT 0); INSERT INTO t VALUES (1)")
    output = await db.task("INSERT INTO t VALUES (1)")
    assert output["error"]["kind"] == "sql"
    assert (output["error"]["constraint"], output["error"]["table"], output["error"]["retryable"]) == (
        "t_pkey",
        "t",
        False,
    )
    assert "(n)=(1)" in output["error"]["detail"]
    assert (output["pg"]["code"], output["pg"]["sqlstate"], output["pg"]["rowcount"]) == ("23505", "23505", None)
    assert "duplicate key" in output["pg"]["message"]
    assert "(Key (n)=(1) already exists.)" in output["error"]["message"]
    assert (await db.error("INSERT INTO t VALUES (2, NULL)"))["column"] == "m"


async def test_a_task_without_a_credential_says_what_it_needs(db: Db) -> None:
    found = await db.error("SELECT 1", credential=None)
    assert found["kind"] == "credential"
    assert "`auth`" in found["message"]
    found = await db.error("SELECT 1", credential={"kind": "bearer", "token": "hush"})
    assert "`db` is a `bearer`" in found["message"]
    assert "hush" not in found["message"]


@pytest.mark.parametrize(
    ("wrong", "kind", "code", "said"),
    [
        ({"password": "hush-wrong"}, "credential", "28P01", "password authentication failed"),
        ({"user": "nobody"}, "credential", "28P01", "nobody"),
        ({"database": "nowhere"}, "credential", "3D000", '"nowhere" does not exist'),
        ({"port": 1}, "sql", "08001", "refused"),
        ({"host": "nowhere.invalid"}, "sql", "08001", "nowhere.invalid"),
        ({"dsn": "hush-wrong = = "}, "credential", None, "`dsn`"),
        ({"dsn": "postgresql://u:hush-wrong@[::1/x"}, "credential", None, "`dsn`"),
        ({"host": None, "dsn": "postgresql://u:a@hush-wrong@127.0.0.1/x"}, "credential", None, "`dsn`"),
        ({"kind": "generic", "host": None, "dsn": "postgresql://u:pa@hush@db/x"}, "credential", None, "`dsn`"),
        ({"kind": "secret_manager", "host": None, "dsn": "postgresql://u:pa@hush/b@db/x"}, "credential", None, "`dsn`"),
        ({"sslmode": "maybe"}, "sql", "08001", "sslmode"),
    ],
)
async def test_a_wrong_credential_is_named_with_what_is_wrong_and_not_shown(
    db: Db, wrong: dict[str, Any], kind: str, code: str | None, said: str
) -> None:
    output = await db.task("SELECT 1", credential={**db.credential, **wrong})
    assert (output["error"]["kind"], output["pg"]["code"]) == (kind, code)
    assert "`db`" in output["error"]["message"]
    assert said in output["error"]["message"]
    assert "hush" not in str(output)
    assert db.database.server.password not in str(output)


@pytest.mark.parametrize("form", ["{url}", "host=127.0.0.1 port={port} user=postgres dbname={name}"])
async def test_a_credential_may_be_an_address(db: Db, form: str) -> None:
    at = db.database.server
    dsn = form.format(url=db.database.url, port=at.port, name=db.database.name)
    credential = {"kind": "postgres_credential", "dsn": dsn, "password": at.password}
    assert await db.rows("SELECT current_database() AS n", credential=credential) == [{"n": db.database.name}]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"network": "off"}, False),
        ({"allow_hosts": ["elsewhere"]}, False),
        ({"allow_hosts": []}, False),
        ({"allow_hosts": ["127.0.0.1"]}, True),
        ({"allow_hosts": ["*"]}, True),
        ({"network": "on"}, True),
    ],
)
async def test_only_hosts_that_are_allowed_are_connected_to(db: Db, spec: dict[str, Any], allowed: bool) -> None:
    output = await db.task("SELECT 1 AS n", spec=spec)
    assert (output["status"] == "ok") is allowed
    if not allowed:
        assert output["error"]["kind"] == "isolation"


async def test_without_the_extra_the_error_names_it(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    parts = ("psycopg", "noetl.drivers.postgres", "noetl.tools.postgres.")
    for name in [name for name in sys.modules if name.startswith(parts) and not name.endswith(".kind")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "noetl[postgres]" in (await db.error("SELECT 1"))["message"]


async def test_times_with_a_zone_are_given_in_utc_whatever_zone_the_session_is_in(db: Db) -> None:
    zoned = "TIMESTAMPTZ '2024-01-31 23:30:00.5-05' AS t, TIMETZ '12:00:00+09' AS c, ARRAY[TIMESTAMPTZ '2024-01-31 23:30:00-05'] AS l"
    for before in ("", "SET LOCAL TIME ZONE 'Asia/Tokyo'; "):
        (row,) = await db.rows(f"{before}SELECT {zoned}")
        assert row == {
            "t": "2024-02-01T04:30:00.500000+00:00" if before else "2024-02-01T04:30:00.5+00:00",
            "c": "03:00:00+00:00",
            "l": ["2024-02-01T04:30:00+00:00"],
        }


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**30, 2**200])
async def test_a_whole_number_of_any_size_comes_back_as_it_was_bound(db: Db, number: int) -> None:
    (row,) = await db.rows(
        "SELECT {{ workload.n }} AS n, {{ workload.l }}::numeric[] AS l", workload={"n": number, "l": [number]}
    )
    assert row == {"n": number, "l": [number]}


async def test_equal_expressions_are_one_expression_to_the_server(db: Db) -> None:
    grouped = "SELECT n / {{ workload.n }} AS part, count(*) AS c FROM generate_series(0, 6) n GROUP BY n / {{ workload.n }} ORDER BY 1"
    assert await db.rows(grouped, workload={"n": 3}) == [{"part": 0, "c": 3}, {"part": 1, "c": 3}, {"part": 2, "c": 1}]
    by_text = "SELECT date_trunc({{ workload.u }}, t) AS day, count(*) AS c FROM (VALUES (TIMESTAMP '2024-01-31 10:00')) x(t) GROUP BY date_trunc({{ workload.u }}, t)"
    for _ in range(2):  # the second time it is known
        assert await db.rows(by_text, workload={"u": "day"}) == [{"day": "2024-01-31T00:00:00", "c": 1}]


async def test_a_text_at_two_places_has_the_type_that_each_of_them_wants(db: Db) -> None:
    await db.rows("CREATE TABLE two (id int, code text)")
    await db.rows("INSERT INTO two VALUES ({{ workload.v }}, {{ workload.v }})", workload={"v": "007"})
    assert await db.rows(
        "SELECT * FROM two WHERE id = {{ workload.v }} AND code = {{ workload.v }}", workload={"v": "007"}
    ) == [{"id": 7, "code": "007"}]
