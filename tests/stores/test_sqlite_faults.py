"""What happens to a log when processes compete, die, or find no space left."""

import asyncio
import fcntl
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_contract import events
from processes import start

from noetl.ports import StoreFailed
from noetl.stores.sqlite_file import WriteLock
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import verify_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "noetl.db"


COMPETE = """
name, won = arguments[0], 0
async def alone():
    for seq in range(1, 201, 4):
        await log.append(events(name, seq, seq + 3), status="running")
async def together():
    nonlocal won
    while (seq := len(log.read("shared")) + 1) <= 60:
        try:
            await log.append(events("shared", seq, seq, by=name), status="running")
            won += 1
        except Conflict:
            pass
await asyncio.gather(alone(), together())
print(won)
"""


def test_processes_that_write_at_once_do_not_lose_anything(path: Path) -> None:
    children = [start(COMPETE, path, name) for name in ("a", "b", "c")]
    won = [int(child.communicate(timeout=300)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    log = SqliteLog(path)
    assert sum(won) == len(log.read("shared")) == 60
    assert [len(log.read(name)) for name in "abc"] == [200, 200, 200]
    assert list(verify_store(log)) == []
    asyncio.run(log.close())


KILLED_WHILE_IT_STARTS_A_PROGRAM = """
import os, time
await log.claim("x")
if os.fork() == 0:
    time.sleep(0.5)  # as on a machine that has too much to do
    os.execv("/bin/sh", ["sh", "-c", "true"])
print("forked", flush=True)
time.sleep(30)
"""


async def test_what_the_dead_owned_is_free_although_a_process_that_they_forked_still_has_the_lock(path: Path) -> None:
    child = start(KILLED_WHILE_IT_STARTS_A_PROGRAM, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "forked\n"
    log = SqliteLog(path)
    assert not await log.claim("x")
    child.kill()
    child.wait(60)
    assert await log.claim("x")
    child.communicate()
    await log.close()


APPEND_FOR_EVER = """
await log.claim("x0")
async def one(name):
    seq = 1
    while True:
        await log.append(events(name, seq, seq + 4), status="running", snapshot=b"%d" % (seq + 4))
        print(name, seq + 4, flush=True)
        seq += 5
await asyncio.gather(*[one(f"x{number}") for number in range(4)])
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_process_killed_while_it_writes_leaves_whole_appends(path: Path, durability: str) -> None:
    chance = random.Random(7)
    for round_ in range(4):
        target = path.with_name(f"{round_}.db")
        child = start(APPEND_FOR_EVER, target, durability=durability)
        assert child.stdout is not None
        reported = [child.stdout.readline() for _ in range(chance.randint(4, 200))]
        child.kill()
        reported += child.communicate()[0].splitlines()
        confirmed: dict[str, int] = {}
        for words in map(str.split, reported):
            if len(words) == 2:  # the last line may be torn
                confirmed[words[0]] = int(words[1])
        log = SqliteLog(target)
        for name, seq in confirmed.items():
            there = log.read(name)
            assert len(there) >= seq
            assert len(there) % 5 == 0
            assert log.snapshot(name) == (len(there), b"%d" % len(there))
        assert list(verify_store(log)) == []
        asyncio.run(log.close())


def test_what_a_killed_process_owned_is_free_at_once(path: Path) -> None:
    child = start('print(await log.claim("x"), flush=True); await asyncio.sleep(60)', path)
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    log = SqliteLog(path)
    assert asyncio.run(log.claim("x")) is False
    child.kill()
    child.communicate()
    assert asyncio.run(log.claim("x")) is True
    asyncio.run(log.close())


def test_a_request_reaches_another_process(path: Path) -> None:
    body = 'await log.claim("x"); print("ready", flush=True)\nwhile not (found := log.collect()): await asyncio.sleep(0.01)\nprint(found)'
    child = start(body, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    log = SqliteLog(path)
    log.post("x", b"cancel")
    assert child.communicate(timeout=300)[0] == "[(1, 'x', b'cancel')]\n"
    asyncio.run(log.close())


def test_who_waits_too_long_for_the_lock_gives_up_and_says_what_to_do(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path / "lock", patience=0.05)
    holder = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(StoreFailed, match="another process"), lock:
        pass
    os.close(holder)
    with lock:
        pass
    lock.close()


# --- no space --------------------------------------------------------------------------------------------------------


async def fill(log: SqliteLog, name: str) -> int:
    """Append until there is no space; how many events are there then."""
    for seq in range(1, 100_000, 5):
        try:
            await log.append(events(name, seq, seq + 4, text="x" * 2000), status="running")
        except StoreFailed as error:
            said = str(error)
            break
    else:
        pytest.fail("there is more space than there should be")
    assert "free some" in said
    return seq - 1


async def test_a_full_database_keeps_what_it_has_and_goes_on_by_itself(path: Path) -> None:
    log = SqliteLog(path)

    async def limit(pages: int) -> None:
        await log._queue.submit(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchall())

    await limit(200)
    written = await fill(log, "x")
    assert len(log.read("x")) == written > 0
    together = [log.append(events(f"y{n}", 1, 5, text="x" * 20000), status="running") for n in range(9)]
    outcomes = await asyncio.gather(*together, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreFailed}
    await limit(100_000)
    await log.append(events("x", written + 1, written + 5), status="running")
    assert list(verify_store(log)) == []
    await log.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_keeps_what_it_has_and_goes_on_by_itself(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    log = SqliteLog(small_disk / "noetl.db")
    written = await fill(log, "x")
    assert len(log.read("x")) == written > 0
    with pytest.raises(StoreFailed):
        await log.append(events("x", written + 1, written + 50, text="x" * 2000), status="running")
    ballast.unlink()
    await log.append(events("x", written + 1, written + 5), status="running")
    assert list(verify_store(log)) == []
    await log.close()


# --- a disk that does not confirm --------------------------------------------------------------------------------------

FAILING_SYNC = """
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
static int fail(void) { if (access(SWITCH, F_OK) != 0) return 0; errno = EIO; return -1; }
int fsync(int file) { (void)file; return fail(); }
int fdatasync(int file) { (void)file; return fail(); }
"""
#: the first append meets it, or what moves its events from the WAL into the database does
MEET_FAILURE = """
switch, size = Path(arguments[0]), int(arguments[1])
await log.append(events("x", 1, 2), status="running")
switch.touch()
for seq in (3, 4, 5):
    try:
        await log.append(events("x", seq, seq, text="x" * size), status="running")
        await asyncio.sleep(0.3)
    except StoreFailed as error:
        print(error)
        switch.unlink(missing_ok=True)
print(len(log.read("x")))
"""


@pytest.mark.parametrize(("durability", "size", "kept"), [("power", 1, 2), ("process", 20_000_000, 3)])
def test_after_an_fsync_that_failed_nothing_more_is_written(
    path: Path, tmp_path: Path, durability: str, size: int, kept: int
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library, switch = tmp_path / "failing.so", tmp_path / "switch"
    command = [compiler, "-shared", "-fPIC", f'-DSWITCH="{switch}"', "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=FAILING_SYNC, text=True, check=True)
    child = start(MEET_FAILURE, path, str(switch), str(size), durability=durability, LD_PRELOAD=str(library))
    *said, count = child.communicate(timeout=300)[0].splitlines()
    assert len(said) == 5 - kept
    assert all("did not confirm" in text for text in said)
    assert int(count) == kept
