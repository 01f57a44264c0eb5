"""A WAL that was damaged, cut or removed is noticed: what was committed last is named outside of the database."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from log_contract import events
from processes import start

from noetl.stores import sqlite_mark
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import verify_store

APPEND_AND_DIE = """
import os, signal
for seq in range(1, 400, 10):
    await log.append(events("x", seq, seq + 9, text="x" * 50), status="running")
await log.append(events("y", 1, 2), status="completed")
log._mark.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, durability: str = "process") -> Path:
    """A database whose process was killed, with all it wrote in its WAL."""
    child = start(APPEND_AND_DIE, path, durability=durability)
    assert child.wait(300) == -signal.SIGKILL
    child.communicate()
    assert wal_of(path).stat().st_size > 100_000
    return path


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def flip_a_bit(wal: Path) -> None:
    data = bytearray(wal.read_bytes())
    data[len(data) // 3] ^= 4
    wal.write_bytes(data)


def problems(path: Path, durability: str = "process") -> list[str]:
    log = SqliteLog(path, durability=durability)  # type: ignore[arg-type]
    found = [problem.message for problem in verify_store(log)]
    asyncio.run(log.close())
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return killed(tmp_path / "noetl.db")


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, lambda wal: wal.write_bytes(b""), lambda wal: wal.write_bytes(wal.read_bytes()[:40]), Path.unlink],
    ids=["a bit is flipped", "empty", "40 bytes", "removed"],
)
def test_a_damaged_wal_is_a_problem_that_names_what_is_gone(path: Path, damage: Callable[[Path], object]) -> None:
    damage(wal_of(path))
    (said,) = problems(path)
    assert said.startswith("event 2 of y was written at ")
    assert "is gone" in said


def test_what_a_killed_process_wrote_is_whole(path: Path) -> None:
    assert problems(path) == []
    assert problems(path) == [], "and when the WAL is in the database"


def test_what_was_lost_is_not_forgotten_when_more_is_written(path: Path) -> None:
    flip_a_bit(wal_of(path))
    log = SqliteLog(path)
    asyncio.run(log.append(events("z", 1, 2), status="running"))
    asyncio.run(log.close())
    (said,) = problems(path)
    assert "event 2 of y" in said
    path.with_name("noetl.db.mark").unlink()
    assert problems(path) == []


def test_what_a_power_cut_may_have_taken_is_no_problem(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal_of(path).unlink()
    monkeypatch.setattr(sqlite_mark, "boot_id", lambda: b"another boot....")
    assert problems(path) == []


def test_what_was_synced_no_power_cut_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = killed(tmp_path / "noetl.db", "power")
    wal_of(path).unlink()
    monkeypatch.setattr(sqlite_mark, "boot_id", lambda: b"another boot....")
    (said,) = problems(path, "power")
    assert "event 2 of y" in said


async def test_an_older_copy_of_what_was_synced_is_a_problem_after_a_power_cut_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "noetl.db", tmp_path / "copy"
    log = SqliteLog(path)
    await log.append(events("x", 1, 2), status="running")
    await log.close()
    shutil.copy(path, copy)
    log = SqliteLog(path)
    await log.append(events("x", 3, 4), status="running")
    log._queue._checkpoint()  # type: ignore[attr-defined]
    await log.append(events("x", 5, 6), status="running")
    await log.close()
    shutil.copy(copy, path)
    monkeypatch.setattr(sqlite_mark, "boot_id", lambda: b"another boot....")
    log = SqliteLog(path)
    assert "event 4 of x" in str(log.find_loss())
    await log.close()


async def test_what_was_removed_is_not_lost(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "noetl.db")
    await log.append(events("x", 1, 2), status="completed")
    await log.append(events("y", 1, 2), status="completed")
    await log.forget("y")
    assert log.find_loss() is None
    await log.close()
    log = SqliteLog(tmp_path / "noetl.db")
    assert list(verify_store(log)) == []
    await log.close()


async def test_processes_that_write_in_turns_keep_one_mark(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    one, two = SqliteLog(path), SqliteLog(path)
    for seq in range(1, 9, 2):
        await one.append(events("x", seq, seq), status="running")
        await two.append(events("x", seq + 1, seq + 1), status="running")
        for log in (one, two):
            log._mark.flush()
            assert log.find_loss() is None
    await one.close()
    await two.close()
    data = path.read_bytes()
    found = SqliteLog(path)
    last = found._mark._read_last()
    assert last is not None
    assert (last.execution_id, last.seq) == ("x", 8)
    await found.close()
    assert path.read_bytes() == data
