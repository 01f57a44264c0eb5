"""kind: duckdb, on a real DuckDB."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hostile import EVERYWHERE, HOSTILE, NAMED, NAMES, TEXTS, around
from hypothesis import HealthCheck, given, settings
from thorough import share
from tool_world import Workshop, alive, until

from noetl.model.output import Spilled
from noetl.results import codec

duckdb = pytest.importorskip("duckdb")

EVERY_TYPE = """
SELECT DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 03:04:05.6' AS moment,
       TIMESTAMPTZ '2024-02-29 03:04:05+02' AS zoned, TIME '01:02:03' AS clock,
       1.10::DECIMAL(10, 2) AS price, 123456789012345678.123::DECIMAL(30, 3) AS exact,
       170141183460469231731687303715884105727::HUGEINT AS huge, sum(range) AS total,
       '6b9d1e0e-0000-0000-0000-000000000000'::UUID AS id, 'ab\\x00'::BLOB AS bytes,
       [TIMESTAMP '2024-01-01'] AS moments, {'a': 1, 'b': TIMESTAMP '2024-01-01'} AS record, MAP {'k': 1} AS pairs,
       '{"a": [1]}'::JSON AS doc, NULL AS nothing, true AS flag, 2.5::DOUBLE AS number
FROM range(3)
"""


async def rows(world: Workshop, query: str, **task: Any) -> Any:
    output = await world.task(kind="duckdb", query=query, **task)
    assert output["error"] is None, output["error"]
    return output["data"]


async def error(world: Workshop, query: str, **task: Any) -> dict[str, Any]:
    output = await world.task(kind="duckdb", query=query, **task)
    assert output["status"] == "error", output
    return dict(output["error"])


async def test_an_error_shows_the_line_of_the_author_and_nothing_of_what_is_around_it(world: Workshop) -> None:
    for query in ("SELECT wrong FROM range(3)", "SELECT 1;\nSELECT 2,\n  wrong FROM range(3)"):
        told = (await error(world, query))["message"]
        assert "noetl_result" not in told
        assert f"LINE {query.split(';')[-1].strip().count(chr(10)) + 1}:" in told, told


async def test_values_of_every_type_become_json_by_the_rules_of_all_tools(world: Workshop) -> None:
    (row,) = await rows(world, EVERY_TYPE)
    zoned = row.pop("zoned")
    assert zoned.endswith(":00")
    assert "T" in zoned
    assert row == {
        "day": "2024-02-29",
        "moment": "2024-02-29T03:04:05.6",
        "clock": "01:02:03",
        "price": 1.1,
        "exact": "123456789012345678.123",
        "huge": 170141183460469231731687303715884105727,
        "total": 3,
        "id": "6b9d1e0e-0000-0000-0000-000000000000",
        "bytes": "YWIA",
        "moments": ["2024-01-01T00:00:00"],
        "record": {"a": 1, "b": "2024-01-01T00:00:00"},
        "pairs": {"k": 1},
        "doc": {"a": [1]},
        "nothing": None,
        "flag": True,
        "number": 2.5,
    }


async def test_a_number_that_json_has_no_form_for_is_named_with_its_column(world: Workshop) -> None:
    found = await error(world, "SELECT 'nan'::DOUBLE AS ratio")
    assert found["kind"] == "result-not-json"
    assert "ratio" in found["message"]


async def test_of_several_statements_the_last_ones_rows_are_the_output(world: Workshop) -> None:
    assert await rows(world, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2); SELECT n FROM t ORDER BY n") == [
        {"n": 1},
        {"n": 2},
    ]
    assert await rows(world, "CREATE TABLE t AS SELECT 1 AS n; INSERT INTO t VALUES (2)") == []
    assert await rows(world, "CREATE TABLE t (n INT); INSERT INTO t VALUES (7) RETURNING n, now() > '2020-01-01' AS new") == [
        {"n": 7, "new": True}
    ]  # fmt: skip
    assert [row["column_name"] for row in await rows(world, "CREATE TABLE t (n INT); DESCRIBE t")] == ["n"]
    assert await rows(world, "-- nothing but a remark") == []
    assert await rows(world, "SELECT 1 AS a; -- the end") == [{"a": 1}]


async def test_a_database_in_memory_belongs_to_one_task(world: Workshop) -> None:
    await rows(world, "CREATE TABLE t AS SELECT 1 AS n")
    assert (await error(world, "SELECT * FROM t"))["kind"] == "sql"


async def test_statements_that_belong_together_happen_together_or_not_at_all(world: Workshop) -> None:
    await rows(world, "CREATE TABLE t (n INT)", file="a.duckdb")
    found = await error(world, "INSERT INTO t VALUES (1); SELECT * FROM nowhere", file="a.duckdb")
    assert found["kind"] == "sql"
    assert "nowhere" in found["message"]
    assert await rows(world, "SELECT * FROM t", file="a.duckdb") == []


async def test_a_mistake_in_the_last_statement_keeps_the_first_from_running(world: Workshop) -> None:
    await error(world, "CREATE TABLE t (n INT); SELEC 1", file="a.duckdb")
    assert await rows(world, "SHOW TABLES", file="a.duckdb") == []


async def test_databases_attached_beside_can_be_written_to(world: Workshop) -> None:
    await rows(
        world, "ATTACH 'b.duckdb' AS b; CREATE TABLE b.t AS SELECT 5 AS n; CREATE TABLE u AS SELECT 1", file="a.duckdb"
    )
    assert await rows(world, "SELECT n FROM t", file="b.duckdb") == [{"n": 5}]


async def test_a_file_is_made_with_its_folder_and_is_free_again_after_the_task(world: Workshop) -> None:
    await rows(world, "CREATE TABLE t AS SELECT 1 AS n", file="made/here/a.duckdb")
    path = world.folder / "made" / "here" / "a.duckdb"
    code = f"import duckdb; print(duckdb.connect({str(path)!r}).execute('SELECT n FROM t').fetchall())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == "[(1,)]"


async def test_tasks_work_side_by_side_on_one_file(world: Workshop) -> None:
    await rows(world, "CREATE TABLE t (n INT)", file="a.duckdb")
    await asyncio.gather(*(rows(world, f"INSERT INTO t VALUES ({n})", file="a.duckdb") for n in range(12)))
    assert await rows(world, "SELECT count(*) AS n FROM t", file="a.duckdb") == [{"n": 12}]


async def test_a_file_that_another_process_uses_is_waited_for(world: Workshop) -> None:
    path = world.folder / "a.duckdb"
    code = f"import duckdb, time; c = duckdb.connect({str(path)!r}); print('open', flush=True); time.sleep(1)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        await asyncio.to_thread(other.stdout.readline)
        assert await rows(world, "SELECT 1 AS n", file="a.duckdb") == [{"n": 1}]


# --- limits ------------------------------------------------------------------------------------------------------------


async def test_a_query_that_is_cancelled_stops_and_the_host_goes_on(world: Workshop) -> None:
    await rows(world, "SELECT 1")
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range % 13"
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await world.task(kind="duckdb", query=endless)
    assert time.monotonic() - started < 60
    assert await rows(world, "SELECT 2 AS n") == [{"n": 2}]


async def test_memory_is_limited_and_no_statement_can_raise_the_limit(world: Workshop) -> None:
    limits = {"limits": {"memory_mb": 60}}
    found = await error(world, "SELECT list(range) FROM range(50000000)", spec=limits)
    assert found["kind"] == "limit"
    assert "memory" in found["message"]
    found = await error(world, "SET memory_limit = '10GB'", spec=limits)
    assert found["kind"] == "sql"


async def test_a_large_result_is_left_in_a_parquet_file(world: Workshop) -> None:
    output = await world.task(
        kind="duckdb", query="SELECT range AS n, 'text ' || range AS t, 2::HUGEINT AS h FROM range(200000)"
    )
    spilled = output["data"]
    assert isinstance(spilled, Spilled)
    assert spilled.rows == 200_000
    found = duckdb.connect().execute(
        "SELECT count(*), max(n), typeof(any_value(h)) FROM read_parquet($1)", [spilled.path]
    )
    assert found.fetchone() == (200_000, 199_999, "DECIMAL(38,0)")


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_host_that_dies_fails_the_task_and_the_next_one_gets_another(world: Workshop) -> None:
    from noetl.drivers.datahost.pool import DataHosts

    await rows(world, "SELECT 1", file="a.duckdb")
    hosts = await DataHosts.of(world)
    async with hosts.lease(shared=True, spec={}) as host:
        pid = host.child._process.pid
        idle = processor_time(pid)
        working = asyncio.ensure_future(
            world.task(kind="duckdb", query="SELECT count(*) FROM range(100000000000)", file="a.duckdb")
        )
        await until(lambda: processor_time(pid) > idle + 0.1)
        host.child.kill_group()
    output = await working
    assert output["error"]["kind"] == "tool-crashed"
    assert not alive(pid)
    assert await rows(world, "SELECT 1 AS n", file="a.duckdb") == [{"n": 1}]


# --- isolation -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM read_csv('{f}')", "COPY (SELECT 1) TO '{f}.out'", "ATTACH '{f}.db' AS x", "SELECT * FROM glob('/etc/*')",
     "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "RESET lock_configuration"],
)  # fmt: skip
async def test_with_strict_isolation_nothing_outside_can_be_reached(world: Workshop, query: str) -> None:
    file = world.folder / "secret.csv"
    file.write_text("a\n1\n")
    found = await error(world, query.replace("{f}", str(file)), spec={"isolation": "strict"}, file="a.duckdb")
    assert found["kind"] == "sql"
    assert sorted(path.name for path in world.folder.iterdir() if path.name[0] != ".") == ["a.duckdb", "secret.csv"]


async def test_without_a_network_files_are_read_and_no_extension_is_loaded(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("a\n1\n")
    off = {"network": "off"}
    assert await rows(world, "SELECT a FROM read_csv('in.csv')", spec=off) == [{"a": 1}]
    assert (await error(world, "LOAD httpfs", spec=off))["kind"] == "sql"
    assert (await error(world, "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')", spec=off))["kind"] == "sql"


async def test_extensions_are_not_fetched_by_themselves(world: Workshop) -> None:
    found = await error(world, "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')")
    assert found["kind"] == "sql"
    assert "download" not in found["message"].lower()


async def test_without_the_extra_the_error_names_it(world: Workshop) -> None:
    hidden = world.folder / "hidden"
    (hidden / "duckdb").mkdir(parents=True)
    (hidden / "duckdb" / "__init__.py").write_text("raise ImportError('not there')")
    world.environment = {**world.environment, "PYTHONPATH": str(hidden)}
    found = await error(world, "SELECT 1")
    assert "noetl[duckdb]" in found["message"]


# --- nothing is ever spliced -----------------------------------------------------------------------------------------------

#: where a value can stand in DuckDB alone
POSITIONS = EVERYWHERE | {
    "in a macro": "CREATE MACRO m() AS {{ workload.v }}; SELECT m() AS v",
}
CLEAN = "DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS d; DROP MACRO IF EXISTS m;"


async def through(world: Workshop, position: str, value: str) -> Any:
    guarded = f"{CLEAN} {POSITIONS[position]}"
    return await rows(world, guarded, file="guarded.duckdb", **around(guarded, value))


async def all_come_back(world: Workshop, position: str, values: list[str]) -> None:
    # Side by side they share a database that is opened once; but not those who make a thing of the same name.
    together = 1 if "CREATE" in POSITIONS[position] else 8
    for start in range(0, len(values), together):
        some = values[start : start + together]
        found = await asyncio.gather(*(through(world, position, value) for value in some))
        assert found == [[{"v": value}] for value in some], position


async def untouched(world: Workshop) -> bool:
    """Whether the tables are those that there should be."""
    tables = "SELECT table_name AS name FROM duckdb_tables() WHERE NOT temporary AND table_name <> 'd'"
    return bool(await rows(world, tables, file="guarded.duckdb") == [{"name": "canary"}])


@pytest.mark.parametrize("position", POSITIONS)
async def test_hostile_values_come_back_as_they_are(world: Workshop, position: str) -> None:
    await rows(world, "CREATE TABLE canary AS SELECT 1 AS n", file="guarded.duckdb")
    # JSON has it escaped, and DuckDB ends texts there when it takes them out.
    values = [value for value in HOSTILE if "as json" not in position or "\x00" not in value]
    values = share(values, list(POSITIONS).index(position))
    await all_come_back(world, position, values)
    assert await untouched(world)


@pytest.mark.parametrize(
    "position", ["bare", "in a literal", "in a dollar quote", "in a list", "in a view", "beside a comment"]
)
def test_any_text_comes_back_as_it_is(position: str, tmp_path: Path) -> None:
    async def all_of_them() -> None:
        world = Workshop(tmp_path)
        try:
            await rows(world, "CREATE TABLE canary AS SELECT 1 AS n", file="guarded.duckdb")
            await all_come_back(world, position, values)
            assert await untouched(world)
        finally:
            await world.close()

    values: list[str] = []

    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    @given(TEXTS)
    def gather(text: str) -> None:
        values.append(text)

    gather()
    asyncio.run(all_of_them())


@pytest.mark.parametrize("value", [5, -1, 2.5, True, None, 10**30, 10**45, [1, 2], ["a", None], [], {"a": {"b": [1]}}, {}, {"key": [1], "value": [2]}, [1, "a"], [{"a": 1}]])  # fmt: skip
async def test_values_that_are_not_text_are_bound_too(world: Workshop, value: Any) -> None:
    bound = (await rows(world, "SELECT {{ workload.v }} AS v", workload={"v": value}))[0]["v"]
    quoted = (
        await rows(world, "CREATE VIEW w AS SELECT {{ workload.v }} AS v; SELECT v FROM w", workload={"v": value})
    )[0]["v"]
    expected = value
    if isinstance(value, dict) or value in ([1, "a"], [{"a": 1}]):
        expected = json.dumps(value, separators=(",", ":"))
    assert bound == expected
    assert quoted == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("query", NAMED)
async def test_a_name_that_is_no_plain_identifier_is_refused(world: Workshop, query: str, name: str) -> None:
    found = await error(world, query, workload={"t": name})
    assert found["kind"] == "sql"


async def test_a_parameter_that_nobody_gives_is_named(world: Workshop) -> None:
    assert "`who`" in (await error(world, "SELECT :who"))["message"]


async def test_a_pattern_is_data_for_like(world: Workshop) -> None:
    query = "SELECT v FROM (VALUES ('a%b'), ('axb')) t(v) WHERE v LIKE {{ workload.p }} ESCAPE '\\'"
    assert await rows(world, query, workload={"p": "a\\%b"}) == [{"v": "a%b"}]


async def test_a_large_result_comes_back_from_a_process_within_bounds(world: Workshop) -> None:
    query = "SELECT i, md5(i::VARCHAR) AS t FROM range(100000) r(i)"
    found = await rows(world, query, spec={"network": "off"})
    assert isinstance(found, Spilled)
    assert found.rows == 100_000
    assert len(await rows(world, query, spec={"isolation": "strict"})) == 100_000
    too_much = await error(world, query, spec={"isolation": "strict", "limits": {"output_bytes": 2_000_000}})
    assert too_much["kind"] == "limit"


async def test_times_with_a_zone_are_given_in_utc_whatever_zone_the_session_is_in(world: Workshop) -> None:
    zoned = "SELECT TIMESTAMPTZ '2024-01-31 23:30:00.5-05' AS t, TIMETZ '12:00:00+09' AS c, [TIMESTAMPTZ '2024-01-31 23:30:00-05'] AS l, 'infinity'::TIMESTAMPTZ AS never"
    for before in ("", "SET TimeZone = 'Asia/Tokyo'; "):
        (row,) = await rows(world, before + zoned)
        assert row == {
            "t": "2024-02-01T04:30:00.5+00:00",
            "c": "03:00:00+00:00",
            "l": ["2024-02-01T04:30:00+00:00"],
            "never": "infinity",
        }


async def test_numbers_of_any_size_are_kept_exactly_also_in_a_large_result(world: Workshop) -> None:
    made = "SELECT {{ workload.n }} AS n, 170141183460469231731687303715884105727::HUGEINT AS h, 12345678901234567890123456789012345678::DECIMAL(38, 0) AS d"
    expected = {"n": 2**200, "h": 2**127 - 1, "d": 12345678901234567890123456789012345678}
    (row,) = await rows(world, made, workload={"n": 2**200})
    assert {key: row[key] for key in expected} == expected
    found = await rows(world, made + ", repeat('x', 100) AS x FROM range(20000)", workload={"n": 2**200})
    assert isinstance(found, Spilled)
    last = codec.load(found)[-1]
    assert {key: last[key] for key in expected} == expected


async def test_equal_expressions_are_one_parameter(world: Workshop) -> None:
    query = "SELECT n // {{ workload.n }} AS part, count(*) AS c FROM range(7) t(n) GROUP BY n // {{ workload.n }} ORDER BY part"
    assert await rows(world, query, workload={"n": 3}) == [
        {"part": 0, "c": 3},
        {"part": 1, "c": 3},
        {"part": 2, "c": 1},
    ]
