"""Values that DuckDB would change on their way into a type."""

from __future__ import annotations

from typing import Any

import pytest
from tool_world import Workshop

duckdb = pytest.importorskip("duckdb")

from noetl.tools.transfer.column_types import cast_text, cast_value  # noqa: E402

_LATE = "id,amount\n" + "".join(f"{n},{n}\n" for n in range(30_000))
_TARGETS: list[dict[str, Any]] = [
    {"kind": "file", "path": "o.parquet"},
    {"kind": "file", "path": "o.ndjson"},
    {"kind": "duckdb", "file": "o.duckdb", "table": "t"},
]


def _cast(sql: str) -> Any:
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {sql}").fetchone()[0]


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("2", "BIGINT", 2),
        ("2.0", "BIGINT", 2),
        ("1e3", "INTEGER", 1000),
        ("1.20", "DECIMAL(10, 1)", "1.2"),
        ("0x1E", "INTEGER", 30),
        ("1.5e1", "INTEGER", 15),
        ("1200e-2", "INTEGER", 12),
        ("0.000e-9", "INTEGER", 0),
        ("9.9467417717e8", "DECIMAL(38, 10)", "994674177.1700000000"),
        ("1.2500e0", "DECIMAL(10, 2)", "1.25"),
        ("2024-01-31", "DATE", "2024-01-31"),
        ("2024-01-31 00:00:00", "DATE", "2024-01-31"),
        (" 2024-01-31 ", "DATE", "2024-01-31"),
    ],
)
def test_a_text_that_says_the_same_in_a_type_is_taken(text: str, wanted: str, value: Any) -> None:
    assert str(_cast(str(cast_text(f"'{text}'", wanted)))) == str(value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2.5", "BIGINT"),
        ("5e-05", "INTEGER"),
        ("25E-1", "TINYINT"),
        ("1.239", "DECIMAL(10, 2)"),
        ("99999999999999999.9", "BIGINT"),
        ("15e-1", "DECIMAL(18, 0)"),
        ("1E-5", "DECIMAL(18, 3)"),
        ("1.256e0", "DECIMAL(10, 2)"),
        ("1e-99999999999999999999", "INTEGER"),
        ("100.0000000000000000001", "INTEGER"),
        ("2024-01-31 13:45:00", "DATE"),
    ],
)
def test_a_text_that_would_be_rounded_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(duckdb.ConversionException):
        _cast(str(cast_text(f"'{text}'", wanted)))


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("2.5::DOUBLE", "DOUBLE", "INTEGER"),
        ("1.239::DOUBLE", "DOUBLE", "DECIMAL(10, 2)"),
        ("1e-5::FLOAT", "FLOAT", "DECIMAL(10, 2)"),
        ("'inf'::DOUBLE", "DOUBLE", "DECIMAL(10, 2)"),
        ("1.239::DECIMAL(10, 3)", "DECIMAL(10, 3)", "DECIMAL(10, 2)"),
        ("TIMESTAMP '2024-01-01 13:45:00'", "TIMESTAMP", "DATE"),
        ("'2.5'", "VARCHAR", "BIGINT"),
        ("TIMESTAMPTZ '2024-01-01 13:45:00+00'", "TIMESTAMPTZ", "DATE"),
    ],
)
def test_a_value_that_would_be_another_is_refused(value: str, kind: str, wanted: str) -> None:
    with pytest.raises(duckdb.ConversionException):
        _cast(cast_value(value, kind, wanted))


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("2::DOUBLE", "DOUBLE", "INTEGER"),
        ("1.24::DOUBLE", "DOUBLE", "DECIMAL(10, 2)"),
        ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP", "DATE"),
        ("NULL::DOUBLE", "DOUBLE", "INTEGER"),
        ("NULL::DOUBLE", "DOUBLE", "DECIMAL(10, 2)"),
        ("1152921504606846976::DOUBLE", "DOUBLE", "BIGINT"),
        ("16777216::FLOAT", "FLOAT", "DECIMAL(20, 2)"),
    ],
)
def test_a_value_that_stays_the_same_is_taken(value: str, kind: str, wanted: str) -> None:
    assert _cast(f"({cast_value(value, kind, wanted)}) IS NOT DISTINCT FROM CAST({value} AS {wanted})")


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "kept"),
    [
        ("36985451.95", "DOUBLE", "DECIMAL(20, 8)", "36985451.95000000"),
        ("0.1", "FLOAT", "DECIMAL(38, 18)", "0.100000000000000000"),
        ("994674177.17", "DOUBLE", "DECIMAL(38, 10)", "994674177.1700000000"),
        ("1234567890123456784", "DOUBLE", "DECIMAL(38, 2)", "1234567890123456768.00"),
    ],
)
def test_a_number_that_only_the_way_back_would_change_is_taken_as_it_is_written(
    value: str, kind: str, wanted: str, kept: str
) -> None:
    assert str(_cast(cast_value(f"{value}::{kind}", kind, wanted))) == kept


@pytest.mark.parametrize("wanted", ["DECIMAL(18, 6)", "DECIMAL(20, 8)", "DECIMAL(38, 12)", "DECIMAL(38, 18)"])
def test_every_price_fits_into_a_decimal_that_has_room_for_it(wanted: str) -> None:
    prices = "SELECT (hash(range) % 100000000) / 100 AS v FROM range(20000)"
    cast = cast_value("v", "DOUBLE", wanted)
    assert _cast(f"count(*) FILTER (WHERE CAST({cast} AS VARCHAR)::DOUBLE = v) FROM ({prices})") == 20_000


@pytest.mark.parametrize(("value", "row"), [(36985451.95, None), (1.123456789, 2)])
async def test_doubles_go_into_a_table_of_decimals_if_they_fit_and_are_told_if_not(
    world: Workshop, value: float, row: int | None
) -> None:
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t (n DECIMAL(20, 8))")
    with duckdb.connect() as connection:
        rows = f"SELECT unnest([1.5, {value}])::DOUBLE AS n"
        connection.execute(f"COPY ({rows}) TO '{world.folder / 'in.parquet'}'")
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    output = await world.task(kind="transfer", source={"kind": "file", "path": "in.parquet"}, targets=[target])
    error = output["error"]
    assert error is None if row is None else (error["column"], error["row"]) == ("n", row)


@pytest.mark.parametrize("target", _TARGETS)
async def test_a_fraction_in_a_late_row_of_csv_is_not_rounded(world: Workshop, target: dict[str, Any]) -> None:
    (world.folder / "in.csv").write_text(_LATE + "30000,2.5\n")
    output = await world.task(kind="transfer", source={"kind": "file", "path": "in.csv"}, targets=[target])
    error = output["error"]
    assert (error["column"], error["row"], error["value"]) == ("amount", 30_001, "2.5")
    assert "source.columns" in error["message"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
async def test_a_fraction_is_not_rounded_into_a_table_of_whole_numbers(world: Workshop, form: str) -> None:
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t (id INT, n INT)")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS id, 2.5::DOUBLE AS n) TO '{world.folder / 'in'}.{form}'")
    source = {"kind": "file", "path": f"in.{form}"}
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    output = await world.task(kind="transfer", source=source, targets=[target])
    assert output["error"]["column"] == "n"
    assert "2.5" in output["error"]["message"]


@pytest.mark.parametrize("kind", ["int", "INT8", "decimal(18, 0)"])
@pytest.mark.parametrize("text", ["a\n1.5\n2.5\n", "Title\n\na,b\n1.5,x\n2.5,y\n"])
async def test_a_type_is_known_by_whatever_name(world: Workshop, kind: str, text: str) -> None:
    (world.folder / "in.csv").write_text(text)
    source = {"kind": "file", "path": "in.csv", "columns": {"a": kind}}
    output = await world.task(kind="transfer", source=source, targets=[{"kind": "file", "path": "o.ndjson"}])
    assert "1.5" in output["error"]["message"]


async def test_a_time_is_not_cut_off_a_date(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("a,b\n1,2024-01-01 10:00:00\n")
    source = {"kind": "file", "path": "in.csv", "columns": {"b": "DATE"}}
    output = await world.task(kind="transfer", source=source, targets=[{"kind": "file", "path": "o.ndjson"}])
    assert "10:00:00" in output["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("DECIMAL(10, 2)", '{"n": 1.25}\n{"n": 1.256}\n'),
        ("DECIMAL(10, 3)", '{"n": 1.25}\n{"n": 12345e-4}\n'),
    ],
)
async def test_numbers_of_json_are_not_rounded_into_a_table(world: Workshop, kind: str, lines: str) -> None:
    await world.task(kind="duckdb", file="o.duckdb", command=f"CREATE TABLE t (n {kind})")
    (world.folder / "in.ndjson").write_text(lines)
    target = {"kind": "duckdb", "file": "o.duckdb", "table": "t"}
    output = await world.task(kind="transfer", source={"kind": "file", "path": "in.ndjson"}, targets=[target])
    assert output["error"]["row"] == 2
