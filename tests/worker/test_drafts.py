"""Drafts: what has no name cannot be left behind, and what has one goes when its process is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from noetl.worker.outgoing import DraftClaim, give_name, open_unnamed_file, sweep_drafts


def test_a_file_without_a_name_gets_one_when_it_is_done(tmp_path: Path) -> None:
    with open_unnamed_file(tmp_path) as file:
        file.write(b"rows")
        file.flush()
        assert list(tmp_path.iterdir()) == []
        give_name(file, tmp_path / "done")
    assert (tmp_path / "done").read_bytes() == b"rows"
    assert (tmp_path / "done").stat().st_mode & 0o077 == 0


def test_a_disk_that_knows_no_such_files_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "O_TMPFILE", 0)
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    with open_unnamed_file(tmp_path) as file:
        file.write(b"rows")
        file.flush()
        assert list(tmp_path.iterdir()) == []
        give_name(file, tmp_path / "done")
    assert (tmp_path / "done").read_bytes() == b"rows"


LEAVES = """
import os, sys, time
from pathlib import Path
from noetl.worker.outgoing import DraftClaim
folder = Path(sys.argv[1])
claim = DraftClaim(folder)
(folder / f"{os.getpid()}-1.parquet").write_text("secret")
(folder / f"{os.getpid()}-1.scratch" / "0").mkdir(parents=True)
(folder / f"{os.getpid()}-1.scratch" / "0" / "spill").write_text("secret")
print("ready", flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_has_left_is_removed_and_what_one_that_lives_has_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", LEAVES, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sweep_drafts(tmp_path)
        assert len(list(tmp_path.iterdir())) == 3
        process.kill()
        process.wait()
    sweep_drafts(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_whoever_is_done_leaves_no_claim(tmp_path: Path) -> None:
    DraftClaim(tmp_path).release()
    assert list(tmp_path.iterdir()) == []
    sweep_drafts(tmp_path / "nowhere")
