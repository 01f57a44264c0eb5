"""The log in a SQLite file keeps the contract, is private, and explains what it refuses."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from access_contract import AccessContract
from log_contract import EventLogContract, events, line

from noetl.ports import AccessStore, StoreFailed
from noetl.stores import sqlite_log
from noetl.stores.sqlite_file import VERSION
from noetl.stores.sqlite_log import SqliteLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "noetl.db"


@pytest.fixture(params=["process", "power"])
def durability(request: pytest.FixtureRequest) -> Any:
    """`process` writes at the end of the event loop's turn, `power` always in the thread."""
    return request.param


def opened(path: Path, durability: Any) -> Iterator[SqliteLog]:
    log = SqliteLog(path, durability=durability)
    yield log
    asyncio.run(log.close())


@pytest.fixture
def log(path: Path, durability: Any) -> Iterator[SqliteLog]:
    yield from opened(path, durability)


@pytest.fixture
def beside(path: Path, durability: Any, log: SqliteLog) -> Iterator[SqliteLog]:
    yield from opened(path, durability)


@pytest.fixture
def reopen(path: Path) -> Callable[[], SqliteLog]:
    return lambda: SqliteLog(path)


class TestSqliteLog(EventLogContract):
    """The fixtures are those of the module."""


@pytest.fixture
def access(log: SqliteLog) -> AccessStore:
    return log.access()


@pytest.fixture
def access_beside(beside: SqliteLog) -> AccessStore:
    return beside.access()


class TestSqliteAccess(AccessContract):
    """The fixtures are those of the module."""


def size(path: Path) -> int:
    return path.stat().st_size


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
async def test_only_its_user_can_look_into_it(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        log = SqliteLog(path)
        await log.append(events("x", 1, 3), status="running")
        await log.claim("x")
        assert {mode(folder) for folder in (path.parent, path.parent / "owners")} == {0o700}
        files = [file for file in path.parent.rglob("*") if file.is_file()]
        assert {"noetl.db", "noetl.db-wal", "noetl.db-shm", "noetl.db.lock"} < {file.name for file in files}
        assert {mode(file) for file in files} == {0o600}
        await log.close()
    finally:
        os.umask(before)


def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    asyncio.run(SqliteLog(tmp_path / "noetl.db").close())
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "noetl.db") == 0o600


async def test_a_later_schema_is_refused(path: Path) -> None:
    await SqliteLog(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreFailed, match="later version of NoETL"):
        SqliteLog(path)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (name)")
    connection.close()
    with pytest.raises(StoreFailed, match="another program"):
        SqliteLog(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    path.write_text("hello, " * 1000)
    with pytest.raises(StoreFailed, match="not a database"):
        SqliteLog(path)


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed, match="NOETL_HOME"):
        SqliteLog(tmp_path / "file" / "home" / "noetl.db")


async def test_a_closed_log_says_so(log: SqliteLog) -> None:
    await log.append(events("x", 1, 1), status="running")
    await log.close()
    await log.close()
    with pytest.raises(StoreFailed, match="closed"):
        log.read("x")
    with pytest.raises(StoreFailed, match="closed"):
        await log.append(events("x", 2, 2), status="running")


async def test_an_entry_that_is_too_big_fails_alone(log: SqliteLog) -> None:
    await log.append(events("x", 1, 1), status="running")
    await log._queue.submit(lambda connection: connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000) and None)
    big = log.append(events("big", 1, 2, text="x" * 200_000), status="running")
    small = [log.append(events(f"small{number}", 1, 2), status="running") for number in range(9)]
    outcomes = await asyncio.gather(*small[:4], big, *small[4:], return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 4 + [StoreFailed] + [type(None)] * 5
    assert log.summary("big") is None
    assert len(log.summaries()) == 10


async def test_each_thread_reads_over_a_connection_of_its_own(log: SqliteLog) -> None:
    await log.append(events("x", 1, 9), status="running")
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(log.read("x")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [9] * 8


async def test_an_append_survives_that_its_caller_is_cancelled(log: SqliteLog) -> None:
    writing = asyncio.ensure_future(log.append(events("x", 1, 2), status="running"))
    asyncio.get_running_loop().call_soon(writing.cancel)
    await asyncio.gather(writing, return_exceptions=True)
    await log.append(events("x", 3, 3), status="running")
    assert len(log.read("x")) == 3


async def test_the_wal_does_not_grow_without_end(log: SqliteLog, path: Path) -> None:
    text = "x" * 100_000
    for seq in range(1, 1001, 5):
        await log.append(events("x", seq, seq + 4, text=text), status="running")
    assert size(path.with_name("noetl.db-wal")) < 60 << 20
    assert size(path) > 50 << 20


async def test_the_power_choice_syncs_every_commit(path: Path) -> None:
    log = SqliteLog(path, durability="power")
    level = await log._queue.submit(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0])
    assert level == 2
    await log.close()


async def test_lock_files_of_the_dead_are_cleared_away(path: Path) -> None:
    folder = path.parent / "owners"
    folder.mkdir(parents=True)
    (folder / "999999-dead.lock").touch()
    log, beside = SqliteLog(path), SqliteLog(path)
    await log.claim("x")
    await beside.claim("y")
    assert not (folder / "999999-dead.lock").exists()
    assert len(list(folder.iterdir())) == 2
    await log.close()
    await beside.close()
    assert list(folder.iterdir()) == []


async def test_lines_are_written_even_if_nobody_waits(log: SqliteLog, beside: SqliteLog) -> None:
    log.write_lines("x", [line("one")])
    await log.append(events("x", 1, 1), status="running")
    assert len(beside.lines("x")) == 1


async def test_another_program_that_writes_is_waited_for_and_the_event_loop_goes_on(log: SqliteLog, path: Path) -> None:
    await log.append(events("x", 1, 1), status="running")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(log.append(events("x", 2, 2), status="running"))
    turns = 0
    while turns < 20:
        await asyncio.sleep(0.005)
        turns += 1
    assert not writing.done()
    other.execute("ROLLBACK")
    other.close()
    await asyncio.wait_for(writing, 60)
    assert len(log.read("x")) == 2


async def test_a_program_that_does_not_stop_writing_is_named_as_the_cause(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "_TIMEOUT_S", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="another program"):
        await log.append(events("x", 1, 1), status="running")
    other.close()
    await log.append(events("x", 1, 1), status="running")


async def test_order_is_kept_whoever_writes(log: SqliteLog) -> None:
    writing = []
    for seq in range(1, 60, 3):
        text = "x" * (100_000 if seq % 2 else 10)
        writing.append(asyncio.ensure_future(log.append(events("x", seq, seq + 2, text=text), status="running")))
        if seq % 4 == 0:
            log.post("x", b"request")
        if seq % 5 == 0:
            await asyncio.sleep(0)
        log.write_lines("x", [line(str(seq))])
    await asyncio.gather(*writing)
    assert len(log.read("x")) == 60
    assert [found.text for _, found in log.lines("x")] == [str(seq) for seq in range(1, 60, 3)]


def test_lines_can_be_written_outside_of_an_event_loop(log: SqliteLog) -> None:
    log.write_lines("x", [line("one")])
    assert [found.text for _, found in log.lines("x")] == ["one"]
