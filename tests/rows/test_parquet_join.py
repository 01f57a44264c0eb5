from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.rows import parquet_join
from noetl.rows.duck import duckdb
from noetl.rows.parquet_join import IncompatibleFiles, ThriftField, encode_struct, join

#: a column of every sort that has a form of its own in Parquet, with nulls in between
_ROW = (
    "SELECT n AS id, 'name ' || n % 100 AS name, CASE WHEN n % 3 = 0 THEN NULL ELSE n * 1.25::DOUBLE END AS amount, "
    "[n, n + 1] AS list, {{'a': n, 'b': [n::VARCHAR]}} AS struct, MAP {{'k': n}} AS map, n::DECIMAL(38, 3) AS exact, "
    "date '2024-01-01' + (n % 365)::INT AS day, now()::TIMESTAMP AS at, n % 2 = 0 AS flag, uuid() AS mark, to_json(n) AS json, "
    "encode(n::VARCHAR) AS bytes FROM range({first}, {last}) t(n)"
)


@pytest.fixture
def connection() -> Any:
    with duckdb().connect(":memory:") as made:
        yield made


def _part(connection: Any, path: Path, query: str) -> Path:
    connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    return path


def _rows(connection: Any, *paths: Path) -> Any:
    names = [str(path) for path in paths]
    return connection.execute(f"SELECT * FROM read_parquet({names}) ORDER BY id").fetchall()


def test_the_whole_has_the_rows_of_its_parts_in_their_order(tmp_path: Path, connection: Any) -> None:
    ranges = [(0, 5000), (5000, 5001), (5001, 5001), (5001, 12_000)]
    parts = [
        _part(connection, tmp_path / f"{at}", _ROW.format(first=first, last=last))
        for at, (first, last) in enumerate(ranges)
    ]
    whole = tmp_path / "whole.parquet"
    join(parts, whole)
    assert _rows(connection, whole) == _rows(connection, *parts)
    found = connection.execute(f"SELECT id FROM read_parquet('{whole}')").fetchall()
    assert [one[0] for one in found] == list(range(12_000))


def test_a_part_of_no_rows_may_come_first(tmp_path: Path, connection: Any) -> None:
    empty = _part(connection, tmp_path / "0", _ROW.format(first=0, last=0))
    full = _part(connection, tmp_path / "1", _ROW.format(first=0, last=3000))
    join([empty, full], tmp_path / "whole")
    assert _rows(connection, tmp_path / "whole") == _rows(connection, full)


def test_a_whole_can_be_a_part_again(tmp_path: Path, connection: Any) -> None:
    one = _part(connection, tmp_path / "1", _ROW.format(first=0, last=3000))
    two = _part(connection, tmp_path / "2", _ROW.format(first=3000, last=6000))
    join([one, two], tmp_path / "12")
    join([tmp_path / "12", two], tmp_path / "122")
    assert _rows(connection, tmp_path / "122") == _rows(connection, one, two, two)


def test_what_readers_skip_by_is_still_found_where_it_is_said_to_be(tmp_path: Path, connection: Any) -> None:
    query = "SELECT n AS id, 'name ' || (n % 10 + {at} * 10) AS name FROM range(4096) t(n)"
    parts = [_part(connection, tmp_path / f"{at}", query.format(at=at)) for at in range(3)]
    whole = tmp_path / "whole"
    join(parts, whole)
    probe = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{whole}', 'name', 'name 15')"
    assert [one[0] for one in connection.execute(probe).fetchall()] == [True, True, False, False, True, True]
    assert connection.execute(f"SELECT count(*) FROM read_parquet('{whole}') WHERE name = 'name 15'").fetchone() == (
        410,
    )


@pytest.mark.parametrize("other", ["SELECT 1 AS id, 2 AS b", "SELECT 1::INT AS id", "SELECT 1 AS other"])
def test_files_of_other_columns_are_not_put_together(tmp_path: Path, connection: Any, other: str) -> None:
    parts = [
        _part(connection, tmp_path / "1", "SELECT 1::BIGINT AS id"),
        _part(connection, tmp_path / "2", other),
    ]
    with pytest.raises(IncompatibleFiles, match="2 has other columns"):
        join(parts, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize("text", [b"", b"PAR1", b"not a Parquet file at all", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_what_is_no_parquet_file_is_not_put_together(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "1").write_bytes(text)
    with pytest.raises(IncompatibleFiles, match="no Parquet file"):
        join([tmp_path / "1"], tmp_path / "whole")


def test_files_of_very_many_groups_are_not_put_together(
    tmp_path: Path, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [_part(connection, tmp_path / f"{at}", "SELECT 1 AS id, 2 AS b") for at in range(4)]
    monkeypatch.setattr(parquet_join, "_MOST", 6)
    with pytest.raises(IncompatibleFiles, match="too many groups"):
        join(parts, tmp_path / "whole")
    join(parts[:3], tmp_path / "whole")


def test_a_description_that_lacks_something_is_not_put_together(tmp_path: Path) -> None:
    told = encode_struct({1: ThriftField(5, 1)})
    (tmp_path / "1").write_bytes(b"PAR1" + told + len(told).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(IncompatibleFiles):
        join([tmp_path / "1"], tmp_path / "whole")
