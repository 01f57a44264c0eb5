"""kind: transfer: rows from everywhere to everywhere, as they are."""

from __future__ import annotations

import asyncio
import csv
import gc
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from ends import failing, move
from tool_world import Workshop, serving

from noetl.drivers.datahost.pool import CallFailed, DataHosts
from noetl.model.output import failure
from noetl.tools.transfer.move import TransferAttempt

duckdb = pytest.importorskip("duckdb")

ROWS = [{"id": n, "name": f"name {n}", "half": n / 2, "odd": bool(n % 2), "none": None} for n in range(25)]
CSV_TEXT = "id,zip,note\n" + "".join(f'{n},{n:05},"said ""{n}"",\nand more"\n' for n in range(7))


def data(rows: Any = None) -> dict[str, Any]:
    return {"kind": "data", "data": ROWS if rows is None else rows}


def asked(world: Workshop, query: str, file: str = "o.duckdb") -> list[Any]:
    with duckdb.connect(str(world.folder / file), read_only=True) as connection:
        return list(connection.execute(query).fetchall())


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- every way --------------------------------------------------------------------------------------------------------------

FILES = ["o.csv", "o.json", "o.ndjson", "o.jsonl", "o.parquet"]


@pytest.mark.parametrize("first", FILES)
@pytest.mark.parametrize("second", [*FILES, "o.duckdb"])
async def test_rows_go_through_any_two_forms_unharmed(world: Workshop, first: str, second: str) -> None:
    chunk = {"size": 10}
    told = await move(world, data(), {"kind": "file", "path": f"1/{first}"}, chunk=chunk)
    assert (told["rows"], told["chunks"]) == (25, 3)
    source = {"kind": "file", "path": f"1/{first}"}
    target: dict[str, Any] = {"kind": "file", "path": f"2/{second}"}
    if second == "o.duckdb":
        target = {"kind": "duckdb", "file": f"2/{second}", "table": "t"}
    told = await move(world, source, target, chunk=chunk)
    assert (told["rows"], told["chunks"]) == (25, 3)
    back = {"kind": "duckdb", "file": f"2/{second}", "table": "t", "order_by": "id"} if second == "o.duckdb" else target
    back = {key: value for key, value in back.items() if key != "mode"}
    await move(world, back, {"kind": "file", "path": "3/o.ndjson"}, chunk=chunk)
    assert lines(world.folder / "3" / "o.ndjson") == ROWS


async def test_text_of_csv_stays_what_it_is(world: Workshop) -> None:
    (world.folder / "in.csv").write_text(CSV_TEXT)
    source = {"kind": "file", "path": "in.csv"}
    await move(
        world, source, {"kind": "file", "path": "o.csv"}, {"kind": "file", "path": "o.ndjson"}, chunk={"size": 2}
    )
    with (world.folder / "o.csv").open(newline="") as out, (world.folder / "in.csv").open(newline="") as given:
        assert list(csv.reader(out)) == list(csv.reader(given))
    assert lines(world.folder / "o.ndjson")[6] == {"id": 6, "zip": "00006", "note": 'said "6",\nand more'}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("text", ["a;b\n1;x\n2;y\n", "a,b\r\n1,x\r\n2,y\r\n", "a,b\n1,x\n2,y", "\ufeffa,b\n1,x\n\n2,y\n", "a|b\n1|'x'\n2|'y'\n", "a,b\n1,\"x\"\n2,y\n"])  # fmt: skip
async def test_dialects_of_csv_are_understood(world: Workshop, text: str, size: int) -> None:
    (world.folder / "in.csv").write_bytes(text.encode())
    told = await move(
        world, {"kind": "file", "path": "in.csv"}, {"kind": "file", "path": "o.json"}, chunk={"size": size}
    )
    assert told["rows"] == 2
    assert json.loads((world.folder / "o.json").read_text()) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


async def test_packed_files_are_unpacked(world: Workshop) -> None:
    (world.folder / "in.csv.gz").write_bytes(gzip.compress(CSV_TEXT.encode()))
    (world.folder / "in.ndjson.gz").write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert (await move(world, {"kind": "file", "path": "in.csv.gz"}, {"kind": "file", "path": "o.json"}))["rows"] == 7
    assert (await move(world, {"kind": "file", "path": "in.ndjson.gz"}, {"kind": "file", "path": "o.json"}))[
        "rows"
    ] == 2


async def test_a_pretty_json_array_is_read_object_by_object(world: Workshop) -> None:
    (world.folder / "in.json").write_text(
        json.dumps([{"a": {"b": [1, "x\ny"]}, "at": "2024-01-01T00:00:00Z"}] * 3, indent=4)
    )
    told = await move(
        world, {"kind": "file", "path": "in.json"}, {"kind": "file", "path": "o.ndjson"}, chunk={"size": 2}
    )
    assert (told["rows"], told["chunks"]) == (3, 2)
    assert lines(world.folder / "o.ndjson")[2] == {"a": {"b": [1, "x\ny"]}, "at": "2024-01-01T00:00:00Z"}


async def test_no_rows_leave_empty_files_and_empty_a_table(world: Workshop) -> None:
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace"}
    await move(world, data(), target)
    files = [{"kind": "file", "path": f"o{suffix}"} for suffix in (".json", ".ndjson", ".csv")]
    told = await move(world, data([]), *files, target)
    assert (told["rows"], told["chunks"]) == (0, 0)
    assert json.loads((world.folder / "o.json").read_text()) == []
    assert (world.folder / "o.ndjson").read_text() == ""
    assert asked(world, "SELECT count(*) FROM t") == [(0,)]


async def test_a_query_with_values_is_a_source(world: Workshop) -> None:
    await move(world, data(), {"kind": "duckdb", "file": "o.duckdb", "table": "t"})
    query = "SELECT id, name FROM t WHERE id >= {{ workload.least }} AND name LIKE :like"
    source = {"kind": "duckdb", "file": "o.duckdb", "query": query, "params": {"like": "name 2%"}, "order_by": "id"}
    await move(world, source, {"kind": "file", "path": "o.ndjson"}, workload={"least": 20})
    assert [row["id"] for row in lines(world.folder / "o.ndjson")] == [20, 21, 22, 23, 24]


# --- mapping ----------------------------------------------------------------------------------------------------------------


async def test_columns_are_renamed_made_up_and_computed(world: Workshop) -> None:
    (world.folder / "in.csv").write_text(CSV_TEXT)
    plain = {
        "key": "{{ row.id }}",
        "zip": "{{ row['zip'] }}",
        "part": "{{ chunk.index }}",
        "by": "{{ workload.who }}",
        "one": 1,
    }
    computed = {**plain, "long": "{{ row.note | length }}"}
    kinds = [
        {"kind": "file", "path": "{}.ndjson"},
        {"kind": "file", "path": "{}.csv"},
        {"kind": "duckdb", "file": "{}.duckdb", "table": "t"},
    ]
    for name, mapping in (("plain", plain), ("computed", computed)):
        targets = [
            {key: value.replace("{}", name) for key, value in kind.items()} | {"mapping": mapping} for kind in kinds
        ]
        await move(world, {"kind": "file", "path": "in.csv"}, *targets, chunk={"size": 3}, workload={"who": "O'Neil"})
        expected = {"key": 6, "zip": "00006", "part": 2, "by": "O'Neil", "one": 1} | (
            {"long": 18} if name == "computed" else {}
        )
        assert lines(world.folder / f"{name}.ndjson")[6] == expected
        with (world.folder / f"{name}.csv").open(newline="") as file:
            assert list(csv.DictReader(file))[6] == {key: str(value) for key, value in expected.items()}
        assert asked(world, "SELECT * FROM t WHERE key = 6", f"{name}.duckdb") == [tuple(expected.values())]


async def test_a_mapping_of_a_column_that_is_not_there_says_which_are(world: Workshop) -> None:
    (world.folder / "in.csv").write_text(CSV_TEXT)
    target = {"kind": "file", "path": "o.csv", "mapping": {"x": "{{ row.nothing }}"}}
    found = await failing(world, {"kind": "file", "path": "in.csv"}, target)
    assert found["kind"] == "template"
    assert "`id`, `zip`, `note`" in found["message"]
    found = await failing(world, data(), {**target, "mapping": {"x": "{{ row.nothing ~ '!' }}"}})
    assert found["kind"] == "template"
    assert "nothing" in found["message"]


# --- tables -----------------------------------------------------------------------------------------------------------------


async def test_a_table_that_is_not_there_is_made_from_the_rows(world: Workshop) -> None:
    rows = [{"n": 1, "f": 1, "t": "2024-01-01", "m": {"a": 1}, "b": True, "x": None}, {"n": 2, "f": 2.5}]
    told = await move(world, data(rows), {"kind": "duckdb", "file": "o.duckdb", "table": "lake.t"})
    described = asked(world, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 't'")
    assert dict(described) == {
        "n": "BIGINT",
        "f": "DOUBLE",
        "t": "VARCHAR",
        "m": "JSON",
        "b": "BOOLEAN",
        "x": "VARCHAR",
    }
    (target,) = told["targets"]
    assert target["ref"]["type"] == "relational"
    assert target["ref"]["locator"] == {"file": str(world.folder / "o.duckdb"), "table": "lake.t"}
    assert target["rows"] == target["ref"]["meta"]["rows"] == 2


async def test_upsert_updates_by_key_and_the_last_of_two_wins(world: Workshop) -> None:
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "upsert", "key": ["a", "b"]}
    rows = [{"a": 1, "b": 1, "v": "old"}, {"a": 1, "b": 2, "v": "old"}]
    await move(world, data(rows), target)
    more = [{"a": 1, "b": 2, "v": "new"}, {"a": 1, "b": 3, "v": "first"}, {"a": 1, "b": 3, "v": "last"}]
    await move(world, data(more), target, key="second")
    assert asked(world, "SELECT * FROM t ORDER BY b") == [(1, 1, "old"), (1, 2, "new"), (1, 3, "last")]
    found = await failing(world, data([{"a": 1, "b": None}]), target, key="third")
    assert "row 1" in found["message"]


async def test_replace_keeps_the_definition_of_a_table_that_has_one(world: Workshop) -> None:
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR DEFAULT 'x'); INSERT INTO t VALUES (1, 'old')")  # fmt: skip
    await move(world, data([{"id": 1}, {"id": 2}]), {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace", "mapping": {"id": "{{ row.id }}"}})  # fmt: skip
    assert asked(world, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert asked(world, "SELECT constraint_type FROM duckdb_constraints() WHERE table_name = 't'")[0] == (
        "PRIMARY KEY",
    )
    assert asked(world, "SELECT table_name FROM duckdb_tables()") == [("t",)]


async def test_nothing_is_left_beside_the_rows(world: Workshop) -> None:
    await move(world, data(), {"kind": "duckdb", "file": "o.duckdb", "table": "t"}, {"kind": "file", "path": "o.parquet"}, {"kind": "file", "path": "o.json"})  # fmt: skip
    assert asked(world, "SELECT table_name FROM duckdb_tables()") == [("t",)]
    assert {path.name for path in world.folder.iterdir()} == {"o.duckdb", "o.parquet", "o.json", ".drafts"}
    assert not list((world.folder / ".drafts").glob("*.notes"))


async def test_two_transfers_at_once_write_to_one_table(world: Workshop) -> None:
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    calls = [move(world, data(), target, key=f"k{n}", chunk={"size": 5}) for n in range(4)]
    await asyncio.gather(*calls)
    assert asked(world, "SELECT count(*) FROM t") == [(100,)]


# --- files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json", "ndjson", "parquet"])
async def test_append_adds_to_what_is_there(world: Workshop, suffix: str) -> None:
    target = {"kind": "file", "path": f"o.{suffix}", "mode": "append"}
    await move(world, data(ROWS[:3]), target, chunk={"size": 2})
    await move(world, data(ROWS[3:]), target, chunk={"size": 20}, key="second")
    await move(world, {"kind": "file", "path": f"o.{suffix}"}, {"kind": "file", "path": "back.ndjson"})
    assert lines(world.folder / "back.ndjson") == ROWS


async def test_the_reference_of_a_file_tells_what_is_in_it(world: Workshop) -> None:
    import hashlib

    told = await move(world, data(), {"kind": "file", "path": "o.csv"}, {"kind": "file", "path": "p{{ chunk.index }}.json"}, chunk={"size": 20})  # fmt: skip
    one, many = (target["ref"] for target in told["targets"])
    body = (world.folder / "o.csv").read_bytes()
    assert one["locator"] == {"file": str(world.folder / "o.csv")}
    assert one["meta"] == {
        "content_type": "text/csv",
        "stored_bytes": len(body),
        "rows": 25,
        "schema": {"id": "BIGINT", "name": "VARCHAR", "half": "DOUBLE", "odd": "BOOLEAN"},
        "stored_sha256": hashlib.sha256(body).hexdigest(),
    }
    assert many["locator"] == {"files": [str(world.folder / f"p{n}.json") for n in range(2)]}
    assert told["bytes"] == sum(target["bytes"] for target in told["targets"]) > len(body)


async def test_a_transfer_that_fails_leaves_what_was_to_be_replaced(world: Workshop) -> None:
    for suffix in ("csv", "json", "parquet"):
        await move(world, data(), {"kind": "file", "path": f"o.{suffix}"}, key=suffix)
    before = {path.name: path.read_bytes() for path in world.folder.glob("o.*")}
    for suffix in ("csv", "json", "parquet"):
        target = {"kind": "file", "path": f"o.{suffix}", "mapping": {"x": "{{ 10 // row.id }}"}}
        found = await failing(
            world, data([{"id": 1}, {"id": 2}, {"id": 0}]), target, chunk={"size": 1}, key=f"again {suffix}"
        )
        assert found["kind"] == "template"
    assert {path.name: path.read_bytes() for path in world.folder.iterdir() if path.name != ".drafts"} == before


# --- the web ----------------------------------------------------------------------------------------------------------------


async def test_an_api_is_read_page_by_page(world: Workshop) -> None:
    async def page(request: web.Request) -> web.Response:
        at = int(request.query.get("at", 0))
        following = f"/rows?at={at + 10}" if at < 20 else None
        return web.json_response({"data": {"items": ROWS[at : at + 10]}, "next": following})

    async with serving(web.get("/rows", page)) as url:
        source = {"kind": "http", "url": f"{url}/rows", "params": {"at": 0}, "path": "$.data.items", "next": "$.next"}
        told = await move(world, source, {"kind": "file", "path": "o.ndjson"}, chunk={"size": 7})
    assert (told["rows"], told["chunks"]) == (25, 4)
    assert lines(world.folder / "o.ndjson") == ROWS


async def test_chunks_are_posted_with_a_key_each_and_rows_of_a_stream_one_by_one(world: Workshop) -> None:
    seen: list[tuple[str, str | None, Any]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers.get("Idempotency-Key"), await request.json()))
        return web.json_response({})

    async with serving(web.post("/{tail:.*}", take)) as url:
        target = {"kind": "http", "url": url + "/{{ chunk.index }}", "mapping": {"n": "{{ row.id }}"}}
        await move(world, data(ROWS[:3]), target, chunk={"size": 2})
        assert [(path, body) for path, _, body in seen] == [("/0", [{"n": 0}, {"n": 1}]), ("/1", [{"n": 2}])]
        assert len({key for _, key, _ in seen}) == 2
        seen.clear()
        target = {"kind": "http", "url": url + "/{{ row.n }}", "mapping": {"n": "{{ row.id }}"}}
        await move(world, data(ROWS[:3]), target, chunk={"size": 2, "mode": "stream"})
        assert [(path, body) for path, _, body in seen] == [("/0", {"n": 0}), ("/1", {"n": 1}), ("/2", {"n": 2})]
        assert len({key for _, key, _ in seen}) == 3
        seen.clear()
        body = {
            "part": "{{ chunk.index }}",
            "ids": "{{ chunk.data | map(attribute='id') | list }}",
            "who": "{{ workload.who }}",
        }
        await move(
            world,
            data(ROWS[:3]),
            {"kind": "http", "url": f"{url}/x", "body": body},
            chunk={"size": 2},
            workload={"who": "me"},
        )
        assert seen[1][2] == {"part": 1, "ids": [2], "who": "me"}


async def test_a_target_that_may_fail_is_told_of_and_goes_on(world: Workshop) -> None:
    async def fickle(request: web.Request) -> web.Response:
        rows = await request.json()
        return web.json_response({}, status=500 if rows[0]["id"] == 1 else 200)

    async with serving(web.post("/in", fickle)) as url:
        targets = [{"kind": "http", "url": f"{url}/in", "on_error": "warn"}, {"kind": "file", "path": "o.ndjson"}]
        told = await move(world, data(ROWS[:3]), *targets, chunk={"size": 1})
        assert told["targets"][0]["failed"] == 1
        assert told["targets"][0]["error"]["kind"] == "http-status"
        assert "warning" in world.logged("stderr", task="s")
        assert len(lines(world.folder / "o.ndjson")) == 3
        found = await failing(world, data(ROWS[:3]), {"kind": "http", "url": f"{url}/in"}, chunk={"size": 1})
        assert (found["kind"], found["target"]) == ("http-status", 1)


# --- what does not fit --------------------------------------------------------------------------------------------------------

BAD_CSV = "id,amount\n1,2.5\n2,3\n3,four\n"


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_a_value_that_does_not_fit_is_named_with_its_column_and_row(world: Workshop, size: int) -> None:
    (world.folder / "in.csv").write_text(BAD_CSV)
    (world.folder / "in.ndjson").write_text(
        '{"id": 1, "amount": 2}\n{"id": 2, "amount": 3}\n{"id": 3, "amount": "four"}\n'
    )
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t (id INT, amount DOUBLE)")
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    for number, path in enumerate(("in.csv", "in.ndjson")):
        found = await failing(world, {"kind": "file", "path": path}, target, chunk={"size": size}, key=f"k{number}")
        assert (found["kind"], found["column"], found["row"], found["value"]) == ("type", "amount", 3, "four"), found
    found = await failing(
        world, data([{"id": 1, "amount": 1}, {"id": 2, "amount": "x"}]), target, chunk={"size": size}, key="d"
    )
    assert (found["column"], found["row"], found["value"]) == ("amount", 2, "x")


@pytest.mark.parametrize(
    ("source", "target", "kind", "said"),
    [
        ({"kind": "file", "path": "nowhere.csv"}, {"kind": "file", "path": "o.csv"}, "fail", "nowhere.csv` is not there"),
        ({"kind": "file", "path": "ragged.csv"}, {"kind": "file", "path": "o.csv"}, "type", "row 3 has 3 columns, the others have 2"),
        ({"kind": "file", "path": "broken.ndjson"}, {"kind": "file", "path": "o.csv"}, "type", "line 2 is not JSON"),
        ({"kind": "file", "path": "what"}, {"kind": "file", "path": "o.csv"}, "type", "give `format`"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "file", "path": "what"}, "fail", "give `format`"),
        ({"kind": "duckdb", "file": "o.duckdb", "table": "nothing"}, {"kind": "file", "path": "o.csv"}, "sql", "nothing"),
        ({"kind": "duckdb", "query": "SELECT 1; SELECT 2"}, {"kind": "file", "path": "o.csv"}, "type", "one statement"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "{{ 'up' ~ 'sert' }}"}, "type", "needs `key`"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "duckdb", "file": "", "table": "t"}, "type", "needs `file`"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "file", "path": "o.csv", "mode": "{{ 'up' ~ 'sert' }}"}, "type", "cannot be updated"),
        ({"kind": "data", "data": "text"}, {"kind": "file", "path": "o.csv"}, "type", "no rows"),
        ({"kind": "data", "data": [1, 2]}, {"kind": "file", "path": "o.csv"}, "type", "row 1 is no map"),
        ({"kind": "data", "data": [{"a": 1}, {"b": 2}]}, {"kind": "file", "path": "o.csv"}, "type", "column `b`"),
        ({"kind": "data", "data": [{"a": 1}]}, {"kind": "file", "path": "good.csv/o.csv"}, "fail", "good.csv"),
        ({"kind": "data", "data": [{"a": 1}]}, {"kind": "postgres", "table": "t"}, "type", "needs `auth`"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "duckdb", "file": "typed.duckdb", "table": "t"}, "sql", "no column `a`; it has `id`"),
        ({"kind": "file", "path": "good.csv"}, {"kind": "duckdb", "file": "good.csv", "table": "t"}, "sql", "good.csv"),
    ],
)  # fmt: skip
async def test_what_cannot_be_moved_says_why(world: Workshop, source: Any, target: Any, kind: str, said: str) -> None:
    (world.folder / "good.csv").write_text("a,b\n1,2\n")
    (world.folder / "ragged.csv").write_text("a,b\n1,2\n3,4\n5,6,7\n" + "8,9\n" * 5)
    (world.folder / "broken.ndjson").write_text('{"a": 1}\n{"a": \n')
    (world.folder / "what").write_text("x")
    await world.task(kind="duckdb", file="typed.duckdb", command="CREATE TABLE t (id INT)")
    found = await failing(world, source, target, chunk={"size": 1 if "data" in source else 100})
    assert (found["kind"], said in found["message"]) == (kind, True), found


TO_COLUMNS = [
    {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace"},
    {"kind": "file", "path": "o.parquet"},
    {"kind": "file", "path": "o.csv"},
]


@pytest.mark.parametrize("target", TO_COLUMNS, ids=["table", "parquet", "csv"])
@pytest.mark.parametrize("name", ["in.ndjson", "in.json"])
async def test_a_key_that_comes_late_is_an_error_and_not_left_out(
    world: Workshop, name: str, target: dict[str, Any]
) -> None:
    rows = [{"id": n} for n in range(20_500)] + [{"id": 20_500, "late": "x"}]
    text = "\n\n".join(map(json.dumps, rows)) if name == "in.ndjson" else json.dumps(rows)
    (world.folder / name).write_text(text)
    error = await failing(world, {"kind": "file", "path": name}, target)
    assert (error["kind"], error["row"], error["column"]) == ("type", 20_501, "late")
    assert "row 20,501 has a key `late`" in error["message"]
    assert "`mapping`" in error["message"]


@pytest.mark.parametrize("target", TO_COLUMNS, ids=["table", "parquet", "csv"])
async def test_a_key_that_comes_late_may_be_left_out_by_a_mapping(world: Workshop, target: dict[str, Any]) -> None:
    rows = [{"id": n} for n in range(20_500)] + [{"id": 20_500, "late": "x"}]
    (world.folder / "in.ndjson").write_text("\n".join(map(json.dumps, rows)))
    moved = await move(world, {"kind": "file", "path": "in.ndjson"}, {**target, "mapping": {"n": "{{ row.id }}"}})
    assert moved["rows"] == len(rows)


async def test_a_key_of_a_later_page_or_chunk_is_an_error_too(world: Workshop) -> None:
    rows = [{"id": n} for n in range(24)] + [{"id": 24, "late": 1}]

    async def page(request: web.Request) -> web.Response:
        at = int(request.query.get("at", 0))
        return web.json_response({"items": rows[at : at + 10], "next": f"/rows?at={at + 10}" if at < 20 else None})

    async with serving(web.get("/rows", page)) as url:
        source = {"kind": "http", "url": f"{url}/rows", "path": "$.items", "next": "$.next"}
        for kind in (source, data(rows)):
            error = await failing(world, kind, TO_COLUMNS[0], chunk={"size": 7})
            assert (error["row"], error["column"]) == (25, "late")


async def test_a_full_disk_is_called_that(world: Workshop) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    (world.folder / "o.ndjson").symlink_to(full)
    found = await failing(world, data(), {"kind": "file", "path": "o.ndjson", "mode": "append"})
    assert "disk is full" in found["message"]
    assert found["retryable"]


async def test_without_duckdb_values_still_go_to_text_files_and_apis(world: Workshop) -> None:
    hidden = world.folder / "hidden"
    (hidden / "duckdb").mkdir(parents=True)
    (hidden / "duckdb" / "__init__.py").write_text("raise ImportError('not there')")
    world.environment = {**world.environment, "PYTHONPATH": str(hidden)}
    files = [{"kind": "file", "path": f"o.{suffix}"} for suffix in ("csv", "json", "ndjson")]
    assert (await move(world, data(), *files))["rows"] == 25
    found = await failing(world, data(), {"kind": "file", "path": "o.parquet"})
    assert "noetl[duckdb]" in found["message"]


async def test_long_rows_get_the_memory_they_need(world: Workshop) -> None:
    rows = [{"id": n, "text": "x" * 300_000} for n in range(120)]
    (world.folder / "in.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    targets = [{"kind": "duckdb", "file": "o.duckdb", "table": "t"}, {"kind": "file", "path": "o.parquet"}]
    assert (await move(world, {"kind": "file", "path": "in.ndjson"}, *targets))["rows"] == 120
    assert asked(world, "SELECT sum(length(text)) FROM t") == [(36_000_000,)]


async def test_restrictions_are_for_what_the_author_wrote(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("a\n1\n")
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    for spec in ({"isolation": "strict"}, {"network": "off"}, {"limits": {"memory_mb": 300}}):
        key = str(spec)
        await move(world, {"kind": "file", "path": "in.csv"}, {**target, "mode": "replace"}, spec=spec, key=key)
        source = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
        assert (await move(world, source, {"kind": "file", "path": "o.parquet"}, spec=spec, key=key))["rows"] == 1
    source = {"kind": "duckdb", "query": "SELECT * FROM read_csv('in.csv')"}
    assert (await move(world, source, {"kind": "file", "path": "o.json"}, spec={"network": "off"}))["rows"] == 1
    found = await failing(world, source, {"kind": "file", "path": "o.json"}, spec={"isolation": "strict"})
    assert found["kind"] == "sql"
    assert "disabled by configuration" in found["message"]


async def test_many_at_once_have_memory_enough(world: Workshop) -> None:
    (world.folder / "in.ndjson").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    tables = [{"kind": "duckdb", "file": "o.duckdb", "table": f"t{n}"} for n in range(3)]
    files = [{"kind": "file", "path": f"{n}.parquet"} for n in range(4)]
    source = {"kind": "file", "path": "in.ndjson"}
    calls = [move(world, source, *tables, *files[:n], key=f"k{n}", chunk={"size": 10}) for n in range(4)]
    assert [told["rows"] for told in await asyncio.gather(*calls)] == [25] * 4
    assert asked(world, "SELECT count(*) FROM t2") == [(100,)]
    assert len((await DataHosts.of(world))._all) == 1  # the file has one process, however many came for it at once


# --- paths that lead to rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"items": [], "next": None}, "$.itemz", "`$.itemz` matches nothing; the data has `items`, `next`"),
        ({"data": {"items": []}}, "$.data.itemz[*]", "`$.data.itemz` matches nothing; `$.data` has `items`"),
        ([], "$[0]", "`$[0]` matches nothing; the data is a list of 0"),
        ("<html>", "$.items", "the data is text, no JSON: '<html>'"),
        ("<html>", "$[*]", "the data is text, no JSON: '<html>'"),
        (None, "$.items", "matches nothing; the data is empty"),
        ({"items": 3}, "$.items[*]", "`$.items` is 3"),
        ({"items": []}, "$..itemz", "`$..itemz` matches nothing; the data has `items`"),
        ({"a": 1}, "{{ '$.items[' }}", "`source.path` is '$.items[': `jsonpath` does not understand its path"),
    ],
)
async def test_a_path_that_leads_nowhere_is_no_end_of_rows(world: Workshop, data: Any, path: str, said: str) -> None:
    source = {"kind": "data", "data": data, "path": path}
    found = await failing(world, source, {"kind": "file", "path": "o.json"})
    assert found["kind"] in ("type", "template")
    assert said in found["message"]
    assert not (world.folder / "o.json").exists()


@pytest.mark.parametrize(
    ("data", "path"),
    [({"items": []}, "$.items"), ({"items": []}, "$.items[*]"), ({"items": None}, "$.items"), ([], "$[*]"), ({"items": [{"a": 1}]}, "$.items[?@.a > 1]")],
)  # fmt: skip
async def test_a_list_without_rows_is_fine(world: Workshop, data: Any, path: str) -> None:
    told = await move(world, {"kind": "data", "data": data, "path": path}, {"kind": "file", "path": "o.json"})
    assert told["rows"] == 0


async def test_a_page_that_is_not_json_does_not_empty_a_table(world: Workshop) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>be right back</html>", content_type="text/html")

    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace"}
    await move(world, data(ROWS), target)
    async with serving(web.get("/items", page)) as url:
        found = await failing(world, {"kind": "http", "url": f"{url}/items", "path": "$.items"}, target)
    assert "is not JSON" in found["message"]
    assert asked(world, "SELECT count(*) FROM t") == [(25,)]


# --- targets that may fail ----------------------------------------------------------------------------------------------------


async def test_a_target_that_took_nothing_has_no_rows_and_is_a_warning(world: Workshop) -> None:
    async def broken(request: web.Request) -> web.Response:
        return web.json_response({}, status=500)

    async with serving(web.post("/in", broken)) as url:
        target = {"kind": "http", "url": f"{url}/in", "on_error": "warn"}
        output = await world.task(kind="transfer", source=data(ROWS[:3]), targets=[target], chunk={"size": 2})
    told = output["data"]["targets"][0]
    assert (told["rows"], told["bytes"], told["failed"]) == (0, 0, 2)
    warning = output["meta"]["warnings"][0]
    assert warning.startswith("target 1 (http): POST ")
    assert warning.endswith("(2 of 2 chunks failed)")


async def test_a_failure_of_an_earlier_attempt_is_not_forgotten(world: Workshop) -> None:
    task = {
        "kind": "transfer",
        "source": data([{"id": 1}, {"id": "x"}, {"id": 3}]),
        "targets": [
            {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace", "on_error": "warn"},
            {
                "kind": "duckdb",
                "file": "p.duckdb",
                "table": "p",
                "mode": "upsert",
                "key": "id",
                "mapping": {"id": "{{ chunk.index }}"},
            },
        ],
        "chunk": {"size": 1},
    }
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t AS SELECT 7::BIGINT AS id")
    output = await world.task(**task)
    assert output["data"]["targets"][0]["failed"] == 1
    # The same again, from where a crash behind the failing chunk would have left it.
    before = len(world.said)
    stopped = await world.task(**{**task, "source": data([{"id": 1}, {"id": "x"}])})
    said = next(one for one in world.said[before:] if one["chunks"] == 2)
    assert stopped["error"] is None
    output = await world.task({**said, "final": False}, **task)
    assert output["error"] is None, output["error"]
    told = output["data"]["targets"][0]
    assert (told["failed"], told["ref"]) == (1, None)
    assert asked(world, "SELECT id FROM t") == [(7,)]


# --- a rerun --------------------------------------------------------------------------------------------------------------------


async def test_a_rerun_knows_that_the_progress_it_is_told_of_is_anothers(world: Workshop) -> None:
    rows = [{"id": n} for n in range(10)]
    task = {"kind": "transfer", "source": data(rows), "chunk": {"size": 2}}
    replacing = {**task, "targets": [{"kind": "file", "path": "o.ndjson"}]}
    await world.task(**replacing, key="first")
    under_way = next(one for one in world.said if one["targets"][0]["chunks"])
    (world.folder / "o.ndjson").unlink()
    output = await world.task({**under_way, "final": False}, **replacing, key="second")
    assert output["error"] is None, output["error"]
    assert lines(world.folder / "o.ndjson") == rows
    appending = {**task, "targets": [{"kind": "file", "path": "o.ndjson", "mode": "append"}]}
    output = await world.task({**under_way, "final": False}, **appending, key="third")
    assert output["error"]["kind"] == "not-resumable"
    assert "in the run that this is a rerun of" in output["error"]["message"]
    assert lines(world.folder / "o.ndjson") == rows


async def test_a_table_with_other_columns_says_how_it_gets_them(world: Workshop) -> None:
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace"}
    await move(world, data([{"a": 1}]), target)
    found = await failing(world, data([{"b": 1}]), target)
    assert "has no column `b`; it has `a`; drop the table first if it is to have other columns" in found["message"]


async def test_a_transfer_that_is_cancelled_twice_leaves_no_error_that_nobody_hears_of(
    world: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for, closing, unheard = asyncio.Event(), asyncio.Event(), []

    async def hanging(request: web.Request) -> web.Response:
        asked_for.set()
        await asyncio.sleep(60)
        return web.json_response({})

    do = TransferAttempt._do

    async def dying(self: TransferAttempt, verb: str, **given: Any) -> Any:
        if verb != "close":
            return await do(self, verb, **given)
        closing.set()
        await asyncio.sleep(0.05)
        raise CallFailed(failure("tool-crashed", "the process of the task has ended"))

    monkeypatch.setattr(TransferAttempt, "_do", dying)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    async with serving(web.post("/in", hanging), handler_cancellation=True) as url:
        target = {"kind": "http", "url": f"{url}/in"}
        running = asyncio.ensure_future(world.task(kind="transfer", source=data(ROWS), targets=[target]))
        await asked_for.wait()
        running.cancel()
        await closing.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0.1)
    gc.collect()
    assert unheard == []


async def test_a_row_for_which_the_mapping_has_no_value_is_told(world: Workshop) -> None:
    rows = [{"name": "a b"}, {"name": None}]
    mapping = {"first": "{{ row.name.split(' ')[0] }}"}
    output = await world.task(kind="transfer", source=data(rows), targets=[{"kind": "file", "path": "o.csv", "mapping": mapping}])  # fmt: skip
    assert output["error"]["kind"] == "template"
    assert "row 2: " in output["error"]["message"]
