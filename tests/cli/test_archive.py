"""noetl archive: what is over moves out of the store and comes back as it was."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl

PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: parent}
workflow:
  - step: call
    tool: {kind: playbook, path: child}
    next: {arcs: [{step: say}]}
  - step: say
    tool: {kind: shell, cmd: echo said}
"""
CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: child}
workflow:
  - step: only
    tool: {kind: noop}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))


def ran(noetl: Noetl, folder: Path) -> str:
    (folder / "parent.yaml").write_text(PARENT)
    (folder / "child.yaml").write_text(CHILD)
    done = noetl("run", str(folder / "parent.yaml"), "--json")
    found: str = json.loads(done.out)["execution_id"]
    return found


def test_an_execution_moves_out_with_its_children_and_comes_back_as_it_was(noetl: Noetl, tmp_path: Path) -> None:
    name = ran(noetl, tmp_path)
    before = noetl("events", name, "--json").out
    logs = noetl("logs", name).out
    moved = noetl("archive", "--older", "0s", "--to", str(tmp_path / "kept"))
    assert "2 executions moved" in moved.out
    assert noetl("show", name).code == 2
    files = sorted((tmp_path / "kept").glob("*.jsonl.gz"))
    assert len(files) == 2
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    back = noetl("archive", "--restore", str(tmp_path / "kept"))
    assert back.code == 0
    assert noetl("events", name, "--json").out == before
    assert noetl("logs", name).out == logs
    assert noetl("fsck").code == 0


def test_a_restore_that_was_interrupted_can_be_repeated(noetl: Noetl, tmp_path: Path) -> None:
    name = ran(noetl, tmp_path)
    logs = noetl("logs", name).out
    noetl("archive", "--older", "0s", "--to", str(tmp_path / "kept"))
    file = tmp_path / "kept" / f"{name}.jsonl.gz"
    assert noetl("archive", "--restore", str(file)).out.endswith("1 execution restored\n")
    again = noetl("archive", "--restore", str(tmp_path / "kept"))
    assert (again.code, again.err) == (0, "")
    assert again.out.endswith("1 execution restored, 1 was there already\n")
    data = json.loads(noetl("archive", "--restore", str(tmp_path / "kept"), "--json").out)
    assert (data["restored"], len(data["skipped"]), data["problems"]) == ([], 2, [])
    assert noetl("logs", name).out == logs


def test_what_is_there_and_differs_is_named_and_the_others_are_restored(noetl: Noetl, tmp_path: Path) -> None:
    name = ran(noetl, tmp_path)
    noetl("archive", "--older", "0s", "--to", str(tmp_path / "kept"))
    file = tmp_path / "kept" / f"{name}.jsonl.gz"
    noetl("archive", "--restore", str(file))
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"timestamp":"2', b'"timestamp":"3')
    file.write_bytes(gzip.compress(b"".join(lines)))
    done = noetl("archive", "--restore", str(tmp_path / "kept"))
    assert done.code == 1
    assert f"{file} was not restored: the store has an execution {name} that differs from it, at event 3" in done.err
    assert done.out.endswith("1 execution restored, 1 file could not be restored\n")
    assert noetl("fsck").code == 0


def test_what_would_be_moved_can_be_told_first(noetl: Noetl, tmp_path: Path) -> None:
    name = ran(noetl, tmp_path)
    told = noetl("archive", "--older", "0s", "--to", str(tmp_path / "kept"), "--dry-run")
    assert name in told.out
    assert noetl("show", name).code == 0
    assert not (tmp_path / "kept").exists()


def test_nothing_young_is_moved(noetl: Noetl, tmp_path: Path) -> None:
    name = ran(noetl, tmp_path)
    assert "0 executions" in noetl("archive", "--older", "1d", "--to", str(tmp_path / "kept")).out
    assert noetl("show", name).code == 0


def test_mistakes_say_the_way_out(noetl: Noetl, tmp_path: Path) -> None:
    assert "--to" in noetl("archive", "--older", "1d").err
    assert "30d" in noetl("archive", "--to", str(tmp_path)).err
    assert "such as 30d" in noetl("archive", "--older", "soon", "--to", str(tmp_path)).err
    (tmp_path / "x.jsonl.gz").write_bytes(b"no archive")
    assert "cannot be read" in noetl("archive", "--restore", str(tmp_path / "x.jsonl.gz")).err
