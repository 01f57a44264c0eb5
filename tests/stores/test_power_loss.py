"""What is left of a log when the power fails: of each file, what it held when it was last synced, and no more."""

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from processes import start

from noetl.stores import sqlite_mark
from noetl.stores.sqlite_log import SqliteLog
from noetl.stores.verify import verify_store

#: keeps a copy of each file beside it, made when the file was synced
KEEPS_SYNCED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
static int sync_with(const char *name, int file) {
    int done = ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
    char link[64], path[PATH_MAX], copy[PATH_MAX + 16], part[PATH_MAX + 16], buffer[65536];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1), count;
    if (done != 0 || length < 0) return done;
    path[length] = 0;
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(copy, sizeof copy, "%s.synced", path);
    int from = open(path, O_RDONLY), to = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while (from >= 0 && to >= 0 && (count = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, count) != count) _exit(99);
    close(from); close(to); rename(part, copy);
    return done;
}
int fsync(int file) { return sync_with("fsync", file); }
int fdatasync(int file) { return sync_with("fdatasync", file); }
"""
#: small, so that the WAL is moved into the database several times on the way, but not after the last append
APPEND_AND_DIE = """
import os, signal
from noetl.stores import sqlite_log
sqlite_log._CHECKPOINT = 100_000
last = 10 * int(arguments[0]) - 9
for seq in range(1, last + 1, 10):
    if seq == last:
        sqlite_log._CHECKPOINT = 1 << 40
    await log.append(events("x", seq, seq + 9, text="x" * 50), status="running")
    print(seq + 9, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that looks at what is left is not in the boot in which it was written."""
    monkeypatch.setattr(sqlite_mark, "boot_id", lambda: b"the next boot...")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path / "synced.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(made), "-ldl"]
    subprocess.run(command, input=KEEPS_SYNCED, text=True, check=True)
    return made


def after_power_loss(path: Path, durability: str, library: Path, appends: int) -> tuple[int, int]:
    """How many events were confirmed, and how many are there when the machine is up again."""
    child = start(APPEND_AND_DIE, path, str(appends), durability=durability, LD_PRELOAD=str(library))
    confirmed = int(child.communicate(timeout=300)[0].split()[-1])
    assert child.returncode == -signal.SIGKILL
    restored = path.parent / "restored"
    restored.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        copy = path.with_name(f"{name}.synced")
        if copy.exists():
            shutil.copy(copy, restored / name)
    # The mark may have come to the disk although what it names did not.
    shutil.copy(path.with_name(f"{path.name}.mark"), restored / f"{path.name}.mark")
    log = SqliteLog(restored / path.name)
    assert list(verify_store(log)) == []
    there = len(log.read("x"))
    asyncio.run(log.close())
    return confirmed, there


@pytest.mark.parametrize("appends", [1, 7, 60, 300])
def test_with_durability_power_what_was_confirmed_is_there_after_a_power_cut(
    tmp_path: Path, library: Path, appends: int
) -> None:
    confirmed, there = after_power_loss(tmp_path / "noetl.db", "power", library, appends)
    assert there == confirmed == 10 * appends


def test_with_durability_process_a_power_cut_leaves_a_whole_beginning(tmp_path: Path, library: Path) -> None:
    confirmed, there = after_power_loss(tmp_path / "noetl.db", "process", library, 300)
    assert 0 < there < confirmed  # and that some is lost shows that the power was really cut
    assert there % 10 == 0
