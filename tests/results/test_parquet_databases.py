"""Databases that read and write Parquet are used again, and nobody notices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from noetl.ports import ResultDamaged
from noetl.results import parquet

duckdb = pytest.importorskip("duckdb")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The databases that were made since."""
    made: list[Any] = []
    connect = duckdb.connect

    def counted(*arguments: Any, **more: Any) -> Any:
        made.append(more)
        return connect(*arguments, **more)

    parquet._close_databases()
    monkeypatch.setattr(duckdb, "connect", counted)
    yield made
    parquet._close_databases()


def written(path: Path, *numbers: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    assert parquet.write_parquet([b'{"n": %d}\n' % n for n in numbers], {"n": "BIGINT"}, len(numbers), path)
    return path


def read(path: Path) -> list[int]:
    return [row["n"] for run in parquet.read_parquet_batches(path, 0, 100) for row in run]


def test_one_is_made_to_write_and_one_to_read(tmp_path: Path, made: list[Any]) -> None:
    for number in range(5):
        assert read(written(tmp_path / f"folder{number}" / "a.parquet", number)) == [number]
    assert [config["config"]["memory_limit"] for config in made] == ["64MB", "512MB"]


def test_a_file_that_is_another_by_now_is_read_as_it_is(tmp_path: Path, made: list[Any]) -> None:
    for number in range(3):
        path = written(tmp_path / "a.parquet", number)
        os.utime(path, (1, 1))
        assert read(path) == [number]


def test_who_has_read_enough_leaves_nothing_to_the_next(tmp_path: Path, made: list[Any]) -> None:
    path = written(tmp_path / "a.parquet", *range(5000))
    for _ in range(3):
        some = parquet.read_parquet_batches(path, 10, 2)
        assert next(some) == [{"n": 10}, {"n": 11}]
        some.close()  # type: ignore[attr-defined]
    assert read(path) == list(range(5000))
    assert len(made) == 2


def test_one_that_failed_is_not_used_again(tmp_path: Path, made: list[Any]) -> None:
    good, bad = written(tmp_path / "good.parquet", 1), tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 and no more")
    for _ in range(2):
        with pytest.raises(ResultDamaged):
            read(bad)
        assert read(good) == [1]
    assert len(made) == 4


def test_those_who_read_at_once_have_one_each(tmp_path: Path, made: list[Any]) -> None:
    paths = [written(tmp_path / f"{number}.parquet", *range(number, number + 3000)) for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(read, paths))
    assert found == [list(range(number, number + 3000)) for number in range(12)]
    assert all(len(idle) <= parquet._MOST_IDLE for idle in parquet._idle.values())
