"""CSV files whose rows have not all as many columns: nothing of them is lost without a word."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tool_world import Workshop

duckdb = pytest.importorskip("duckdb")

from noetl.tools.transfer.file_sources import find_uneven_row, sniff  # noqa: E402

_GOOD = "id,name,city\n" + "".join(f"{n},n{n},c{n}\n" for n in range(1, 101))


async def _moved(world: Workshop, text: str, **more: Any) -> dict[str, Any]:
    (world.folder / "in.csv").write_text(text, newline="")
    source = {"kind": "file", "path": "in.csv", **more}
    return dict(await world.task(kind="transfer", source=source, targets=[{"kind": "file", "path": "o.parquet"}]))


@pytest.mark.parametrize("more", [{}, {"delimiter": ","}])
@pytest.mark.parametrize(
    ("text", "row"),
    [
        (_GOOD + "101,x,y,z\n", 101),
        (_GOOD + "101,x,y,z\n102,x,y,z\n", 101),
        (_GOOD * 30 + "101,x,y,z\n", 3030),
        ("id,name\n1,a\n2,b\n3,c,extra\n", 3),
        ("id,name,x\n1,a,b\n2,c\n3,d,e,f\n", 2),
        (_GOOD + "".join(f"{n},a,b,c\n" for n in range(100)), 101),
    ],
)
async def test_a_row_with_other_columns_is_told(world: Workshop, text: str, row: int, more: dict[str, Any]) -> None:
    output = await _moved(world, text, **more)
    assert output["error"]["row"] == row
    assert f"row {row:,} has " in output["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "Report of 2024\n\nid,name\n1,a\n2,b\n",
        "\n\nid,name\n1,a\n2,b\n",
        "# made today\nid,name\n1,a\n2,b\n",
        "Report of 2024\r\n\r\nid,name\r\n1,a\r\n2,b\r\n",
        "Report of 2024\r\rid,name\r1,a\r2,b\r",
        "id,name\r1,a\r2,b\r",
    ],
)
async def test_a_title_above_the_columns_is_passed_over(world: Workshop, text: str) -> None:
    output = await _moved(world, text)
    assert output["error"] is None
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT id, name FROM '{world.folder / 'o.parquet'}'").fetchall()
    assert found == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("id\n1\n2\n3,4\n", 3),
        ("address\nBerlin\nParis\nLondon, UK\nRome, Italy\n", 4),
        ("message\n" + "Berlin\n" * 50 + "foo, bar\n", 51),
        ("message\nfoo; bar\nfoo; baz\n", 2),
    ],
)
async def test_a_delimiter_in_the_only_column_is_text(world: Workshop, text: str, rows: int) -> None:
    output = await _moved(world, text)
    assert output["data"]["rows"] == rows
    with duckdb.connect() as connection:
        found = connection.execute(f"FROM '{world.folder / 'o.parquet'}'").description
    assert len(found) == 1


async def test_a_title_is_passed_over_where_the_delimiter_is_given(world: Workshop) -> None:
    output = await _moved(world, "Report, 2024\n\na;b;c\n1;2;3\n", delimiter=";")
    assert output["data"]["rows"] == 1


async def test_a_field_that_is_longer_than_can_be_looked_at_does_not_hide_what_is_wrong(world: Workshop) -> None:
    output = await _moved(world, f"a,b\n1,{'x' * 200_000}\n" + "2,3,4\n")
    assert output["error"]["kind"] == "type"


def _python_mb(look: Callable[[], Any]) -> float:
    """How much memory Python takes for it; DuckDB's own does not count."""
    tracemalloc.start()
    try:
        look()
        return tracemalloc.get_traced_memory()[1] / (1 << 20)
    finally:
        tracemalloc.stop()


_MB = 48


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_a_file_whose_lines_end_without_a_newline_is_not_read_whole_to_look_for_a_title(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    body = b"a,b,c\r" + b"1,2,3\r" * (_MB * (1 << 20) // 6)
    path.write_bytes(body if path.suffix == ".csv" else gzip.compress(body, 1))
    with duckdb.connect() as connection:
        assert _python_mb(lambda: sniff(connection, path, None)) < 2
        assert [column["name"] for column in sniff(connection, path, None)[7]] == ["a", "b", "c"]


@pytest.mark.parametrize("begin", [b"", b"a,b\n1,2\n", b"a,b\n1,"])
def test_a_line_without_an_end_is_not_read_whole_to_look_for_rows_of_other_columns(
    tmp_path: Path, begin: bytes
) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(begin + b"1,2,3" * (_MB * (1 << 20) // 5))
    assert _python_mb(lambda: find_uneven_row(path, ",")) < _MB / 2


def test_a_title_above_a_line_that_is_longer_than_is_looked_at_is_found(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    names = ",".join(f"column_{n}" for n in range(10_000))
    path.write_text(f"Report of 2024\n\n{names}\n" + ",".join("1" * 10_000) + "\n")
    with duckdb.connect() as connection:
        assert len(sniff(connection, path, None)[7]) == 10_000
