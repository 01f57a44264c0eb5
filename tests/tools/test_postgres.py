"""kind: postgres, on a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Database
from workshop import Workshop

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


@pytest.fixture
def db(world: Workshop, database: Database) -> Db:
    return Db(world, database)


class Db:
    """A database, and tasks that use it."""

    def __init__(self, world: Workshop, database: Database) -> None:
        self.world = world
        self.database = database
        self.credential = {"kind": "postgres_credential", **database.credential}

    async def task(self, query: str, **task: Any) -> Any:
        return await self.world.task(kind="postgres", query=query, **{"credential": self.credential, **task})

    async def rows(self, query: str, **task: Any) -> Any:
        output = await self.task(query, **task)
        assert output["error"] is None, output["error"]
        return output["data"]

    async def error(self, query: str, **task: Any) -> dict[str, Any]:
        output = await self.task(query, **task)
        assert output["status"] == "error", output
        return dict(output["error"])


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
        "huge": "12345678901234567890",
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
        ("numeric", 10**30, 1e30),
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
