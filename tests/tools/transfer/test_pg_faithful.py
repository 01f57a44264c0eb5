"""Values that a table of PostgreSQL would change: whoever made it, they end the transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pgworld import Pg, data, query, table
from servers import Database

duckdb = pytest.importorskip("duckdb")

from noetl.tools.transfer.chunks import CsvChunk  # noqa: E402
from noetl.tools.transfer.mapping import Column, MappedChunk  # noqa: E402
from noetl.tools.transfer.targets.postgres_tables import PgTableColumn, find_doubtful  # noqa: E402


@pytest.fixture
def pg(tmp_path: Path, database: Database) -> Pg:
    return Pg(tmp_path, database)


def csv(pg: Pg, text: str, **more: Any) -> dict[str, Any]:
    (pg.folder / "in.csv").write_text(text)
    return {"kind": "file", "path": "in.csv", **more}


def place(error: dict[str, Any]) -> tuple[Any, ...]:
    return error["kind"], error["column"], error["row"], error["value"]


_DAYS = "id,day\n" + "".join(f"{n},2024-01-02\n" for n in range(21_000))


@pytest.mark.parametrize("late", ["2024-01-03 17:45:00", "2024-01-03T17:45", "20240103T174500", "2024-01-03 174500"])
@pytest.mark.parametrize("mode", ["append", "replace"])
async def test_a_time_in_a_late_row_is_not_cut_off_for_a_table_that_is_made(pg: Pg, late: str, mode: str) -> None:
    error = await pg.fail(csv(pg, f"{_DAYS}21000,{late}\n"), table("made", mode=mode))
    assert place(error) == ("type", "day", 21_001, late)
    assert "source.columns" in error["message"]
    assert "is not of type date" in error["message"]


async def test_decimals_of_a_given_type_are_not_rounded_for_a_table_that_is_made(pg: Pg) -> None:
    source = csv(pg, "id,amount\n1,1.25\n2,1.256\n", columns={"amount": "DECIMAL(18, 2)"})
    assert place(await pg.fail(source, table("made"))) == ("type", "amount", 2, "1.256")


@pytest.mark.parametrize("mode", ["append", "replace", "upsert"])
async def test_values_are_not_changed_for_a_table_that_is_there(pg: Pg, mode: str) -> None:
    pg.tell("CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,2), day date)")
    key = {"key": "id"} if mode == "upsert" else {}
    late = csv(pg, "id,amount,day\n1,1.25,2024-01-02\n2,1.5,2024-01-03 17:45\n")
    assert place(await pg.fail(late, table("t", mode=mode, **key)))[1:3] == ("day", 2)
    fine = csv(pg, "id,amount,day\n1,1.25,2024-01-02\n2,1.256,2024-01-03\n")
    assert place(await pg.fail(fine, table("t", mode=mode, **key), key="2"))[1:3] == ("amount", 2)
    assert pg.ask("SELECT count(*) FROM t") == [(0,)]


_SENT = "SELECT 1 AS id, 1.25::{0} AS amount, '2024-01-02'::{1} AS day UNION ALL SELECT 2, {2}::{0}, '{3}'::{1}"


@pytest.mark.parametrize(
    ("amount", "day", "where"),
    [
        ("1.256", "2024-01-03", ("amount", 2)),
        ("1.5", "2024-01-03 17:45:00", ("day", 2)),
        ("1.5", "2024-01-03 00:00:00", None),
    ],
)
@pytest.mark.parametrize("form", ["data", "parquet", "postgres", "duckdb"])
async def test_it_is_the_same_wherever_the_rows_come_from(
    pg: Pg, form: str, amount: str, day: str, where: tuple[str, int] | None
) -> None:
    pg.tell("CREATE TABLE t (id int, amount numeric(10,2), day date)")
    sql = _SENT.format("numeric" if form == "postgres" else "DOUBLE", "timestamp", amount, day)
    source = data({"id": 1, "amount": 1.25, "day": "2024-01-02"}, {"id": 2, "amount": float(amount), "day": day})
    if form == "parquet":
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({sql}) TO '{pg.folder / 'in.parquet'}'")
        source = {"kind": "file", "path": "in.parquet"}
    elif form != "data":
        source = query(sql) if form == "postgres" else {"kind": "duckdb", "query": sql}
    if where is None:
        await pg.move(source, table("t"))
        assert pg.ask("SELECT id, amount::text, day::text FROM t ORDER BY id")[1] == (2, "1.50", "2024-01-03")
    else:
        assert place(await pg.fail(source, table("t")))[1:3] == where
        assert pg.ask("SELECT count(*) FROM t") == [(0,)]


async def test_a_value_of_the_mapping_is_not_changed_either(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (id int, rate numeric(4,2))")
    mapping = {"id": "{{ row.id }}", "rate": 1.256}
    error = await pg.fail(csv(pg, "id\n1\n2\n"), table("t", mapping=mapping))
    assert place(error) == ("type", "rate", 1, "1.256")


async def test_a_domain_changes_nothing_either(pg: Pg) -> None:
    pg.tell("CREATE DOMAIN price AS numeric(10,2)", "CREATE TABLE t (amount price)")
    assert place(await pg.fail(data({"amount": 1.256}), table("t")))[1:3] == ("amount", 1)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("numeric(10,2)", ["1.250", "12e-1", "1200e-4", "NaN", "-0.10", "1.2300E1", " 7 "]),
        ("numeric(50,40)", ["0.1234567890123456789012345678901234567890"]),
        ("numeric", ["1.23456789"]),
        ("numeric(5,-2)", ["1250"]),
        ("date", ["2024-01-03 00:00:00", "January 3, 2024", "infinity", " 2024-01-03 ", "2024-01-03 BC"]),
        ("timestamp", ["2024-01-03 17:45:00"]),
        ("double precision", ["1.23456789e-5"]),
    ],
)
async def test_what_says_the_same_in_a_column_is_taken(pg: Pg, kind: str, texts: list[str]) -> None:
    pg.tell(f"CREATE TABLE t (v {kind}, n text)")
    rows = "".join(f'"{text}",a 2024 e5 17:45 T1234\n' for text in texts)
    await pg.move(csv(pg, f"v,n\n{rows}", columns={"v": "VARCHAR"}), table("t"))
    assert pg.ask("SELECT v::text FROM t") == pg.ask(f"SELECT v::{kind}::text FROM unnest(ARRAY{texts}) v")


async def test_a_date_that_only_postgres_reads_keeps_its_time_from_being_cut_off(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (day date, n int)")
    error = await pg.fail(csv(pg, "day,n\nJan 3 2024,1\nJan 3 2024 17:45,2\n"), table("t"))
    assert place(error) == ("type", "day", 2, "Jan 3 2024 17:45")


async def test_a_row_behind_lines_in_quotes_is_counted_as_a_row(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (note text, day date)")
    source = csv(pg, 'note,day\n"a\nb",2024-01-02\n"c\n\nd",2024-01-03\ne,2024-01-04 10:00\n', columns={"day": "DATE"})
    assert place(await pg.fail(source, table("t")))[1:3] == ("day", 3)


async def test_who_wants_values_rounded_and_cut_says_so(pg: Pg) -> None:
    pg.tell("CREATE TABLE t (amount numeric(10,2), day date)")
    mapping = {"amount": "{{ row.amount | round(2) }}", "day": "{{ row.day[:10] }}"}
    source = csv(pg, "amount,day\n1.256,2024-01-03 17:45:00\n")
    await pg.move(source, table("t", mapping=mapping))
    assert pg.ask("SELECT amount::text, day::text FROM t") == [("1.26", "2024-01-03")]


@pytest.mark.parametrize(
    ("body", "into", "looked_at"),
    [
        (b"2024-01-03 17:45:00", PgTableColumn("v", "timestamp without time zone", "timestamp"), False),
        (b"1.23456789", PgTableColumn("v", "double precision", "float8"), False),
        (b"1.23456789", PgTableColumn("v", "numeric", "numeric"), False),
        (b"17:45 and 1.23456", PgTableColumn("v", "text", "text"), False),
        (b"2024-01-03", PgTableColumn("v", "date", "date"), False),
        (b"2024-01-03 17:45:00", PgTableColumn("v", "date", "date"), True),
        (b"1.25", PgTableColumn("v", "numeric(10,2)", "numeric", scale=2), False),
        (b"1.250", PgTableColumn("v", "numeric(10,2)", "numeric", scale=2), True),
        (b"12e-1", PgTableColumn("v", "numeric(10,2)", "numeric", scale=2), True),
    ],
)
def test_text_of_csv_is_read_only_where_something_in_it_may_be_changed(
    tmp_path: Path, body: bytes, into: PgTableColumn, looked_at: bool
) -> None:
    chunk = CsvChunk(body + b"\n", tmp_path / "c", 1, 0, types={"v": "VARCHAR"}, options="")
    assert bool(find_doubtful(MappedChunk(chunk, [Column("v", "v")]), [into])) is looked_at
