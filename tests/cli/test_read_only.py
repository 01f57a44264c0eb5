"""What was recorded can be looked at where nothing can be written: on a read-only disk, in a copy without permissions."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from noetl.stores import sqlite_read_only
from noetl.stores.sqlite_log import SqliteLog

if TYPE_CHECKING:
    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("playbooks")


@pytest.fixture
def read_only(home: Path) -> Iterator[Path]:
    """A home that the test may make read-only, see `freeze`."""
    yield home
    subprocess.run(["umount", "--lazy", "--quiet", str(home)], check=False)


def freeze(home: Path) -> None:
    """Make a home read-only, as a disk with errors is, or one that was mounted to be looked at."""
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    for words in (["--bind", str(home), str(home)], ["-o", "remount,ro,bind", str(home), str(home)]):
        mounted = mounted and subprocess.run(["mount", *words], check=False).returncode == 0
    if not mounted:
        pytest.skip("nothing can be mounted here")


def kill_after_writing(home: Path, name: str) -> None:
    """Append to the log of a home, and die with it open: what was written is in the WAL."""
    code = f"""
import asyncio, os, signal
from pathlib import Path
from noetl.stores.sqlite_log import SqliteLog
log = SqliteLog(Path({str(home / "noetl.db")!r}))
async def main():
    async with asyncio.timeout(60):
        await log.keep_source(__import__("noetl.ports").ports.PlaybookSource({name!r}, "text", "file"))
asyncio.run(main())
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def has_source(home: Path) -> bool:
    """Whether the log of a home has what was appended."""
    log = SqliteLog(home / "noetl.db")
    try:
        return log.source("killed") is not None
    finally:
        asyncio.run(log.close())


READING = [
    ("ps",),
    ("show", "last"),
    ("events", "last"),
    ("why", "last"),
    ("state", "last"),
    ("logs", "last"),
    ("fsck",),
]


@pytest.mark.parametrize("left", ["closed in good order", "killed", "killed, and copied without its shared memory"])
def test_all_that_reads_works_on_a_read_only_disk(noetl: Noetl, read_only: Path, left: str) -> None:
    noetl("run", "choice.yaml", "--json")
    said = {words: noetl(*words, "--json").out for words in READING}
    if left != "closed in good order":
        kill_after_writing(read_only, "killed")
        assert (read_only / "noetl.db-wal").stat().st_size > 0
    if left.endswith("memory"):
        (read_only / "noetl.db-shm").unlink()
    freeze(read_only)
    for words in READING:
        done = noetl(*words, "--json")
        assert (words, done.code, done.err) == (words, 0, "")
        assert done.out == said[words]
    refused = noetl("run", "choice.yaml")
    assert refused.code == 1
    assert "can only be read: the file system is read-only" in refused.err
    assert has_source(read_only) is (left != "closed in good order")


def test_a_copy_that_must_not_be_written_is_looked_at_and_stays_as_it_is(
    noetl: Noetl, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noetl("run", "choice.yaml", "--json")
    kill_after_writing(home, "killed")
    copy = tmp_path / "evidence"
    copy.mkdir()
    for name in ("noetl.db", "noetl.db-wal"):
        shutil.copy(home / name, copy / name)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    # Tests may run as root, whom no permission holds back.
    monkeypatch.setattr(sqlite_read_only.os, "access", lambda *_args: False)
    monkeypatch.setenv("NOETL_HOME", str(copy))
    assert noetl("ps").out
    assert noetl("fsck").out.endswith(": all well\n")
    assert {name: (copy / name).read_bytes() for name in before} == before
    assert has_source(copy)


def test_a_database_of_an_earlier_version_is_upgraded_in_a_copy(noetl: Noetl, read_only: Path) -> None:
    noetl("run", "choice.yaml", "--json")
    database = sqlite3.connect(read_only / "noetl.db")
    database.executescript(
        "DROP TABLE token; DROP TABLE audit; DROP TABLE audit_ends; DROP INDEX execution_key; ALTER TABLE execution DROP COLUMN caller; ALTER TABLE execution DROP COLUMN start_key;"
        "PRAGMA user_version = 2"
    )
    database.close()
    freeze(read_only)
    done = noetl("ps")
    assert (done.code, done.err) == (0, "")
    assert "choice" in done.out


def test_a_result_that_lies_in_a_file_is_shown(noetl: Noetl, read_only: Path, folder: Path) -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: large}\nworkflow:\n"
        "- {step: end, tool: {kind: noop, output: \"{{ 'x' * 300000 }}\"}}\n"
    )
    (folder / "large.yaml").write_text(text)
    noetl("run", "large.yaml", "--json")
    shown = noetl("result", "last")
    assert shown.code == 0
    freeze(read_only)
    assert noetl("result", "last") == shown
