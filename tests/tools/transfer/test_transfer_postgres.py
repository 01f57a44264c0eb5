"""kind: transfer with PostgreSQL as its source and its target: modes, types, names, mappings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pgworld import Pg, data, query, table
from servers import Database

from noetl.drivers.datahost.pool import DataHosts

duckdb = pytest.importorskip("duckdb")

EVERYTHING = """
SELECT * FROM (VALUES
  (1, true, 32767::int2, 9223372036854775807::int8, 1.5::float4, 0.1::float8, 12345678901234567890.1234::numeric(30,4),
   123456789012345678901234567890.123456789::numeric, 'it''s "text",
with a line'::text, ''::varchar(9), 'abc'::char(5), '2024-02-29'::date, '23:59:59.5'::time, '2024-02-29 12:00:00.123456'::timestamp,
   '2024-02-29 12:00:00.123456+02'::timestamptz, '1 year 2 mons -3 days 04:05:06'::interval, '6c1d5b6e-8c1c-4f9e-9c9e-0a0b0c0d0e0f'::uuid,
   '{"a": [1, null, "x"]}'::jsonb, '\\x00ff10'::bytea, '{1,NULL,3}'::int[], '{"a b","c\\"d","e\\\\f","",NULL,"NULL"}'::text[],
   ARRAY[ARRAY[1.5,2],ARRAY[3,4]]::numeric[], '[2024-01-01,2024-02-01)'::daterange, '10.0.0.1/8'::inet, B'0101'::varbit),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL),
  (3, false, -1, -9223372036854775808, 'NaN', '-Infinity', 0, 'NaN', '\\N', '\\.', '', 'infinity', '24:00:00', '1999-12-31 23:59:59',
   '-infinity', '00:00:00', '00000000-0000-0000-0000-000000000000', 'null', '', '{}', '{}', '{}', 'empty', '::1', '')
) AS t (id, b, i2, i8, f4, f8, n, free, t, v, c, d, ti, ts, tz, iv, u, j, by, ia, ta, na, r, ip, bits)
"""


@pytest.fixture
def pg(tmp_path: Path, database: Database) -> Pg:
    return Pg(tmp_path, database)


def same(pg: Pg, one: str, other: str) -> None:
    """Two tables have the same rows, and columns of the same types."""
    assert pg.ask(f"SELECT r::text FROM {one} r ORDER BY 1") == pg.ask(f"SELECT r::text FROM {other} r ORDER BY 1")
    types = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 0 AND attrelid = '{}'::regclass"
    assert pg.ask(types.format(one)) == pg.ask(types.format(other))


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- types ----------------------------------------------------------------------------------------------------------------


async def test_every_type_goes_from_postgres_to_postgres_as_it_is(pg: Pg) -> None:
    pg.tell(f"CREATE TABLE s AS {EVERYTHING}")
    told = await pg.move(table("s"), table("made"), table("replaced", mode="replace"), chunk={"size": 2})
    assert (told["rows"], told["chunks"]) == (3, 2)
    for one in ("made", "replaced"):
        same(pg, "s", one)
    assert pg.left() == []


async def test_every_type_comes_back_from_duckdb_and_files_into_a_table_of_the_same_types(pg: Pg) -> None:
    pg.tell(f"CREATE TABLE s AS {EVERYTHING}")
    forms: list[dict[str, Any]] = [{"kind": "duckdb", "file": "o.duckdb", "table": "t"}]
    forms += [{"kind": "file", "path": f"o.{end}"} for end in ("parquet", "csv")]
    await pg.move(table("s", order_by="id"), *forms)
    for number, form in enumerate(forms):
        pg.tell(f"CREATE TABLE t{number} (LIKE s)")
        source = {key: value for key, value in form.items() if key != "mode"}
        await pg.move(source, table(f"t{number}"), chunk={"size": 2})
        found = pg.ask(f"SELECT r::text FROM t{number} r ORDER BY id")
        wanted = pg.ask("SELECT r::text FROM s r ORDER BY id")
        if form.get("path") == "o.csv":  # an empty field is null there, quoted or not
            wanted = pg.ask(
                "SELECT r::text FROM (SELECT id,b,i2,i8,f4,f8,n,free,t,NULLIF(v,'')::varchar(9) v,NULLIF(c,'') c,d,ti,ts,tz,iv,u,j,"
                "NULLIF(by,'') by,ia,ta,na,r,ip,NULLIF(bits,'') bits FROM s) r ORDER BY id"
            )
        assert found == wanted, form


async def test_rows_become_json_by_the_rules_that_hold_everywhere(pg: Pg) -> None:
    await pg.move(query(f"SELECT * FROM ({EVERYTHING}) t WHERE id = 1"), {"kind": "file", "path": "o.ndjson"})
    assert lines(pg.folder / "o.ndjson") == [{
        "id": 1, "b": True, "i2": 32767, "i8": 9223372036854775807, "f4": 1.5, "f8": 0.1, "n": "12345678901234567890.1234",
        "free": "123456789012345678901234567890.123456789", "t": 'it\'s "text",\nwith a line', "v": "", "c": "abc  ",
        "d": "2024-02-29", "ti": "23:59:59.5", "ts": "2024-02-29T12:00:00.123456", "tz": "2024-02-29T10:00:00.123456+00:00",
        "iv": "1 year 2 mons -3 days +04:05:06", "u": "6c1d5b6e-8c1c-4f9e-9c9e-0a0b0c0d0e0f", "j": {"a": [1, None, "x"]},
        "by": "AP8Q", "ia": [1, None, 3], "ta": ["a b", 'c"d', "e\\f", "", None, "NULL"], "na": [[1.5, 2], [3, 4]],
        "r": "[2024-01-01,2024-02-01)", "ip": "10.0.0.1/8", "bits": "0101",
    }]  # fmt: skip


async def test_sums_are_numbers_in_json_where_no_digit_is_lost(pg: Pg) -> None:
    await pg.move(query("SELECT sum(n) AS s, avg(n) AS a, 10::numeric ^ 30 AS big FROM generate_series(1, 4) n"),
                  {"kind": "file", "path": "o.json"})  # fmt: skip
    (row,) = json.loads((pg.folder / "o.json").read_text())
    assert row["s"] == 10
    assert row["a"] == "2.5000000000000000"
    assert row["big"].startswith("1" + "0" * 30)


async def test_json_data_makes_a_table_with_fitting_types(pg: Pg) -> None:
    rows = [
        {"id": 1, "ok": True, "half": 0.5, "name": "Ada", "more": {"a": [1]}, "tags": ["x", None], "big": 2**62},
        {"id": 2, "ok": None, "half": 2, "name": "", "more": None, "tags": [], "big": 1},
    ]
    await pg.move(data(*rows), table("t"))
    assert pg.ask("SELECT * FROM t ORDER BY id") == [
        (1, True, 0.5, "Ada", {"a": [1]}, ["x", None], 2**62),
        (2, None, 2.0, "", None, [], 1),
    ]
    types = pg.ask("SELECT data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position")
    assert [one[0] for one in types] == ["bigint", "boolean", "double precision", "text", "jsonb", "jsonb", "bigint"]


async def test_json_data_fits_itself_to_the_types_of_a_table(pg: Pg) -> None:
    pg.tell(
        "CREATE TABLE t (id int, at timestamptz, day date, price numeric(8,2), tags text[], grid int[], raw bytea, j json, u uuid)"
    )
    row = {"id": "7", "at": "2024-01-01T00:00:00Z", "day": "2024-02-29", "price": "12.340", "tags": ["a,b", 'c"\\', None, "null"],
           "grid": [[1, 2], [3, None]], "raw": "AP8=", "j": "text", "u": "6c1d5b6e-8c1c-4f9e-9c9e-0a0b0c0d0e0f"}  # fmt: skip
    await pg.move(data(row), table("t"))
    (found,) = pg.ask(
        "SELECT id, at AT TIME ZONE 'UTC', day::text, price::text, tags, grid, raw, j::text, u::text FROM t"
    )
    assert found[0] == 7
    assert found[2:4] == ("2024-02-29", "12.34")
    assert found[4:] == (row["tags"], row["grid"], b"\x00\xff", '"text"', row["u"])


async def test_types_of_another_database_are_text_where_they_are_not_known(pg: Pg) -> None:
    pg.tell("CREATE TYPE mood AS ENUM ('fine', 'bad')", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    source = query("SELECT 'fine'::mood AS m, 3::positive AS p, ARRAY['bad']::mood[] AS ms")
    await pg.move(source, table("kept"), {"kind": "file", "path": "o.ndjson"})
    assert pg.ask("SELECT m::mood::text, p, ms::text FROM kept") == [("fine", 3, "{bad}")]
    assert lines(pg.folder / "o.ndjson") == [{"m": "fine", "p": 3, "ms": ["bad"]}]


async def test_null_and_empty_text_of_a_single_column_are_not_the_same(pg: Pg) -> None:
    values = query("VALUES (NULL), (''), ('\\.'), ('a')")
    await pg.move(values, table("t"), {"kind": "duckdb", "file": "o.duckdb", "table": "t"})
    await pg.move({"kind": "duckdb", "file": "o.duckdb", "table": "t"}, table("u"))
    for one in ("t", "u"):
        assert pg.ask(f"SELECT column1 FROM {one} ORDER BY 1 NULLS FIRST") == [(None,), ("",), ("\\.",), ("a",)]


# --- modes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unique", [True, False])
async def test_an_upsert_updates_inserts_and_lets_the_last_of_equal_keys_win(pg: Pg, unique: bool) -> None:
    pg.tell(f"CREATE TABLE t (id int {'PRIMARY KEY' if unique else ''}, name text, kept text DEFAULT 'as it was')",
            "INSERT INTO t VALUES (1, 'old', 'mine'), (9, 'other', 'mine')")  # fmt: skip
    rows = [{"id": 1, "name": "new"}, {"id": 2, "name": "first"}, {"id": 2, "name": "second"}, {"id": 3, "name": None}]
    for _ in range(2):
        await pg.move(data(*rows), table("t", mode="upsert", key="id"))
    assert pg.ask("SELECT * FROM t ORDER BY id") == [
        (1, "new", "mine"), (2, "second", "as it was"), (3, None, "as it was"), (9, "other", "mine"),
    ]  # fmt: skip
    assert pg.left() == []


async def test_an_upsert_into_a_missing_table_makes_its_key(pg: Pg) -> None:
    source = query("SELECT n % 3 AS a, n % 2 AS b, n FROM generate_series(1, 20) n", order_by="n")
    await pg.move(source, table("t", mode="upsert", key=["a", "b"]), chunk={"size": 7})
    assert pg.ask("SELECT a, b, n FROM t ORDER BY n") == [(n % 3, n % 2, n) for n in range(15, 21)]
    assert pg.ask("SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisprimary") == [(1,)]


async def test_an_upsert_of_nothing_but_keys_adds_those_that_are_new(pg: Pg) -> None:
    for unique in ("PRIMARY KEY", ""):
        pg.tell("DROP TABLE IF EXISTS t", f"CREATE TABLE t (id int {unique})", "INSERT INTO t VALUES (1)")
        await pg.move(data({"id": 1}, {"id": 2}), table("t", mode="upsert", key="id"))
        assert pg.ask("SELECT id FROM t ORDER BY 1") == [(1,), (2,)]


async def test_replace_keeps_everything_that_was_said_of_a_table(pg: Pg) -> None:
    pg.tell(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now())",
        "CREATE INDEX by_name ON t (name)",
        "CREATE VIEW seen AS SELECT name FROM t",
        "GRANT SELECT ON t TO PUBLIC",
        "INSERT INTO t (name) VALUES ('old')",
    )
    await pg.move(
        data({"id": 5, "name": "new"}, {"id": 6, "name": "newer"}), table("t", mode="replace"), chunk={"size": 1}
    )
    assert pg.ask("SELECT id, name, at IS NOT NULL FROM t ORDER BY id") == [(5, "new", True), (6, "newer", True)]
    assert pg.ask("SELECT * FROM seen ORDER BY 1") == [("new",), ("newer",)]
    assert pg.ask("SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass") == [(2,)]
    assert "=r/" in str(pg.ask("SELECT relacl::text FROM pg_class WHERE relname = 't'"))
    assert pg.left() == []


async def test_replace_with_no_rows_empties_the_table(pg: Pg) -> None:
    pg.tell("CREATE TABLE t AS SELECT 1 AS id")
    assert (await pg.move(query("SELECT 1 AS id WHERE false"), table("t", mode="replace")))["rows"] == 0
    assert pg.ask("SELECT * FROM t") == []


async def test_a_query_without_rows_makes_a_missing_table(pg: Pg) -> None:
    source = query("SELECT 1 AS id, now() AS at WHERE false")
    targets = [
        table("a"),
        table("u", mode="upsert", key="id"),
        table("r", mode="replace"),
        {"kind": "file", "path": "o.csv"},
    ]
    assert (await pg.move(source, *targets))["rows"] == 0
    for one in ("a", "u", "r"):
        assert pg.ask(f"SELECT id, at FROM {one}") == []
    assert (pg.folder / "o.csv").read_text() == "id,at\n"
    assert pg.left() == []


async def test_replace_shows_nothing_when_it_fails(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (id int UNIQUE)", "INSERT INTO t VALUES (7)")
    error = await pg.fail(data({"id": 1}, {"id": 2}, {"id": "x"}), table("t", mode="replace"), chunk={"size": 1})
    assert (error["kind"], error["column"], error["row"], error["value"]) == ("type", "id", 3, "x")
    error = await pg.fail(data({"id": 1}, {"id": 1}), table("t", mode="replace"), key="twice")
    assert error["code"] == "23505"
    assert pg.ask("SELECT id FROM t") == [(7,)]
    pg.tell("ALTER TABLE t DROP CONSTRAINT t_id_key")
    again = await pg.move(data({"id": 1}, {"id": 1}), table("t", mode="replace"), key="twice", progress=pg.said[-1])
    assert again["rows"] == 2
    assert pg.ask("SELECT id FROM t") == [(1,), (1,)]
    assert pg.ask("SELECT relname FROM pg_class WHERE relname LIKE 'noetl_stage%'") == []


async def test_a_table_in_another_schema_is_made_with_it(pg: Pg) -> None:
    told = await pg.move(data({"id": 1}), table("lake.people"))
    assert pg.ask("SELECT id FROM lake.people") == [(1,)]
    ref = told["targets"][0]["ref"]
    assert (ref["type"], ref["locator"]["table"], ref["auth_reference"]) == ("relational", "lake.people", "keychain/pg")


# --- names, values, mappings --------------------------------------------------------------------------------------------


async def test_hostile_names_are_names(pg: Pg) -> None:
    name = "x\"; DROP TABLE t; --%s $1 'ü"
    pg.tell("CREATE TABLE t (id int)")
    row = data({name: 1, "select": 2, "Größe %": 3})
    await pg.move(row, table(name))
    await pg.move(row, table(name, mode="upsert", key=name), key="again")
    await pg.move(table(name), table("copy", mode="replace"))
    assert pg.ask('SELECT "select", "Größe %" FROM copy') == [(2, 3)]
    assert pg.ask("SELECT to_regclass('t')::text") == [("t",)]


HOSTILE = ["'; DROP TABLE t; --", "\\'; x", "%s %(a)s %", "$1", "ü", "a\nb\r\nc", '"', "\\.", "\\N", "", "E'\\\\x'"]


async def test_hostile_values_in_a_query_are_values(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (id int)")
    for value in HOSTILE:
        source = query(
            "SELECT {{ workload.v }} AS a, 'x{{ workload.v }}' AS b, :p AS c, 7 % 4 AS d",
            params={"p": "{{ workload.v }}"},
        )
        await pg.move(source, table("got", mode="replace"), workload={"v": value}, key=value)
        assert pg.ask("SELECT a, b, c, d FROM got") == [(value, f"x{value}", value, 3)], value
    assert pg.ask("SELECT to_regclass('t')::text") == [("t",)]


async def test_hostile_values_in_rows_are_values(pg: Pg) -> None:
    rows = [{"id": number, "v": value} for number, value in enumerate(HOSTILE)]
    mapping = {"id": "{{ row.id }}", "v": "{{ row.v }}", "w": "{{ row.v ~ '!' }}", "k": "{{ workload.k }}"}
    for value in HOSTILE:
        await pg.move(data(*rows), table("t", mode="replace", mapping=mapping), workload={"k": value}, key=value)
        assert pg.ask("SELECT v, w, k FROM t ORDER BY id") == [(one, f"{one}!", value) for one in HOSTILE]
    await pg.move(table("t"), table("u"))
    assert pg.ask("SELECT v FROM u ORDER BY id") == [(one,) for one in HOSTILE]


async def test_values_of_every_kind_are_bound_into_the_query(pg: Pg) -> None:
    source = query(
        "SELECT {{ workload.n }} + 1 AS n, {{ workload.f }} AS f, {{ workload.no }}::text AS no, {{ workload.yes }} AS yes, "
        "{{ workload.m }}::jsonb AS m, 5 = ANY ({{ workload.l }}) AS l"
    )
    workload = {"n": -3, "f": 1.5, "no": None, "yes": True, "m": {"a": [1, {"b": None}]}, "l": [4, 5]}
    await pg.move(source, table("t"), workload=workload)
    assert pg.ask("SELECT n, f::text, no, yes, m, l FROM t") == [(-2, "1.5", None, True, workload["m"], True)]


async def test_a_mapping_renames_adds_and_evaluates(pg: Pg) -> None:
    source = query(
        "SELECT n AS id, 'name ' || n AS full_name, ARRAY[n, n] AS pair FROM generate_series(1, 5) n", order_by="id"
    )
    renamed = {"key": "{{ row.id }}", "name": "{{ row.full_name }}", "pair": "{{ row.pair }}"}
    added = {"key": "{{ row.id }}", "pair": "{{ row.pair }}", "chunk": "{{ chunk.index }}", "run": "{{ workload.run }}"}
    made = {"key": "{{ row.id * 10 }}", "initial": "{{ row.full_name[0] | upper }}"}
    pg.tell("CREATE TABLE added (key int, pair int[], chunk int, run jsonb)")
    await pg.move(source, table("renamed", mapping=renamed), table("added", mapping=added), table("made", mapping=made),
                  chunk={"size": 2}, workload={"run": {"id": "r"}})  # fmt: skip
    assert pg.ask("SELECT * FROM renamed ORDER BY key")[4] == (5, "name 5", [5, 5])
    assert pg.ask("SELECT * FROM added ORDER BY key") == [(n, [n, n], (n - 1) // 2, {"id": "r"}) for n in range(1, 6)]
    assert pg.ask("SELECT * FROM made ORDER BY key") == [(n * 10, "N") for n in range(1, 6)]


async def test_a_csv_file_goes_into_a_table_whatever_its_dialect(pg: Pg) -> None:
    wanted = [(1, "a;b", "2024-02-01"), (2, 'say "x"', None), (3, "two\nlines", "2024-02-03")]
    texts = {
        "comma.csv": 'id,t,d\n1,a;b,2024-02-01\n2,"say ""x""",\n3,"two\nlines",2024-02-03\n',
        "semicolon.csv": 'id;t;d\n1;"a;b";2024-02-01\n2;"say ""x""";\n3;"two\nlines";2024-02-03\n',
        "windows.csv": 'id,t,d\r\n1,a;b,2024-02-01\r\n2,"say ""x""",\r\n3,"two\nlines",2024-02-03\r\n',
        "german.csv": 'id;t;d\n1;"a;b";01.02.2024\n2;"say ""x""";\n3;"two\nlines";03.02.2024\n',
        "stray.csv": 'id,t,d\n1,a;b,2024-02-01\n2,say "x",\n3,"two\nlines",2024-02-03\n',
        "gaps.csv": 'id,t,d\n1,a;b,2024-02-01\n\n2,"say ""x""",\n3,"two\nlines",2024-02-03\n\n',
    }
    pg.tell("CREATE TABLE t (id int, t text, d date)")
    for name, text in texts.items():
        (pg.folder / name).write_bytes(text.encode())
        for size in (1, 100):
            await pg.move(
                {"kind": "file", "path": name}, table("t", mode="replace"), chunk={"size": size}, key=f"{name}{size}"
            )
            assert pg.ask("SELECT id, t, d::text FROM t ORDER BY id") == wanted, name


async def test_columns_are_found_by_their_name_whatever_the_case(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (id int, name text)")
    await pg.move(data({"ID": 1, "Name": "a"}), table("t"))
    assert pg.ask("SELECT id, name FROM t") == [(1, "a")]
    error = await pg.fail(data({"id": 1, "nome": "a"}), table("t"), key="2")
    assert "has no column `nome`; it has `id`, `name`" in error["message"]


async def test_chunks_are_told_of_in_templates(pg: Pg) -> None:
    source = query("SELECT n AS id FROM generate_series(1, 5) n", order_by="id")
    await pg.move(
        source,
        {"kind": "file", "path": "{{ chunk.index }}-{{ chunk.size }}-{{ chunk.last }}.ndjson"},
        chunk={"size": 2},
    )
    names = sorted(path.name for path in pg.folder.glob("*.ndjson"))
    assert names == ["0-2-false.ndjson", "1-2-false.ndjson", "2-1-true.ndjson"]


# --- much ----------------------------------------------------------------------------------------------------------------


async def peak(world: Pg) -> int:
    """The most memory that a data host has had, in bytes."""
    processes = [host.child._process.pid for host in (await DataHosts.of(world))._all if host.usable]
    told = [Path(f"/proc/{process}/status").read_text() for process in processes]
    return max(int(status.partition("VmHWM:")[2].split()[0]) * 1024 for status in told)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="how much memory a process had is told by Linux")
@pytest.mark.parametrize("kind", ["postgres", "parquet", "csv"])
async def test_memory_does_not_grow_with_the_rows(pg: Pg, kind: str) -> None:
    peaks = []
    for rows in (100_000, 600_000):
        made = "n AS id, md5(n::text) AS a, md5((n + 1)::text) AS b, n * 1.5 AS c, now() AS d"
        source = query(f"SELECT {made} FROM generate_series(1, {rows}) n")
        target = {"kind": "file", "path": f"o.{kind}"}
        if kind == "postgres":
            target = table("t", mode="replace")
        if kind == "csv":
            await pg.move(source, target, key=f"csv {rows}")
            await pg.close()
            source, target = target, table("t", mode="replace")
        told = await pg.move(source, target, key=str(rows))
        assert told["rows"] == rows
        peaks.append(await peak(pg))
        await pg.close()  # so that the next one has a host of its own
    assert 0 < max(peaks) < 300_000_000
    assert peaks[1] < peaks[0] * 1.4 + 20_000_000, peaks
