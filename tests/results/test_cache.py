"""The files of payloads that lie elsewhere."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from noetl.results.backends.file_cache import FileCache


def bring(size: int, times: list[int] | None = None) -> object:
    def write(path: Path) -> None:
        if times is not None:
            times.append(1)
            time.sleep(0.05)
        path.write_bytes(b"x" * size)

    return write


def age(folder: Path, seconds: float) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            os.utime(path, (stat.st_atime - seconds, stat.st_mtime))


def test_what_is_wanted_by_many_is_brought_once(tmp_path: Path) -> None:
    cache, times = FileCache(tmp_path / "c"), list[int]()
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: cache.get("a/b", bring(10, times)), range(20)))  # type: ignore[arg-type]
    assert len(times) == 1
    assert {path.read_bytes() for path in paths} == {b"x" * 10}
    assert (tmp_path / "c" / "a").stat().st_mode & 0o077 == 0


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", size=1_000)
    for number in range(10):
        cache.get(f"{number}", bring(100))  # type: ignore[arg-type]
        age(tmp_path / "c", 200)
    cache.get("0", bring(100))  # type: ignore[arg-type]
    cache.get("new", bring(300))  # type: ignore[arg-type]
    there = {path.name for path in (tmp_path / "c").iterdir()}
    assert there == {"0", "new", "4", "5", "6", "7", "8", "9"}


def test_what_is_in_use_stays_although_there_is_too_much(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c", size=10)
    for number in range(5):
        cache.get(f"{number}", bring(100))  # type: ignore[arg-type]
    assert len(list((tmp_path / "c").iterdir())) == 5


def test_what_could_not_be_brought_leaves_nothing(tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        path.write_bytes(b"half")
        raise ConnectionError

    cache = FileCache(tmp_path / "c")
    with pytest.raises(ConnectionError):
        cache.get("a", broken)
    assert list((tmp_path / "c").iterdir()) == []
    assert cache._coming == {}


def test_a_file_that_is_used_keeps_the_time_it_was_written(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "c")
    path = cache.get("a", bring(1))  # type: ignore[arg-type]
    before = path.stat().st_mtime_ns
    assert cache.get("a", bring(2)).stat().st_mtime_ns == before  # type: ignore[arg-type]
