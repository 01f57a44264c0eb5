"""Payloads as files in a folder."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest
from result_stores import Store

from noetl.model.output import JSON
from noetl.ports import Part, ResultDamaged, StoreFailed
from noetl.results.backends.backend import PayloadPlace
from noetl.results.backends.folder import FolderBackend


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_nobody_else_may_look_into_the_store(store: Store) -> None:
    store.put([1])
    for path in (store.folder / "results").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_no_draft_is_left_of_what_could_not_be_stored(store: Store) -> None:
    with pytest.raises(OverflowError):
        store.put([1, 2], ttl=float("inf"))
    with pytest.raises(StoreFailed):
        asyncio.run(store.store.keep("x" * 300, [1, 2]))
    assert list(store.store.drafts.iterdir()) == []


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_works_with_is_not(store: Store) -> None:
    drafts = store.store.draft("").parent
    scratch, part = drafts / f"{dead_pid()}-a.scratch", drafts / f"{dead_pid()}-b.part"
    (scratch / "0").mkdir(parents=True)
    (scratch / "0" / "spilled").write_bytes(b"xyz")
    part.write_bytes(b"x")
    living = store.store.draft(".scratch")
    living.mkdir()
    assert list(store.store.find_expired()) == []
    store.now = time.time() + 25 * 3600
    found = {one.name: one for one in store.store.find_expired()}
    assert {name: one.bytes for name, one in found.items()} == {scratch.name: 3, part.name: 1}
    for one in found.values():
        one.remove()
    assert list(drafts.iterdir()) == [living]


def test_the_folder_of_drafts_stays_when_the_last_one_is_removed(store: Store) -> None:
    draft = store.store.drafts / f"{dead_pid()}-a.part"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"x")
    store.now = time.time() + 25 * 3600
    for one in list(store.store.find_expired()):
        one.remove()
    assert list(draft.parent.iterdir()) == []


def test_an_execution_may_store_while_somebody_removes_what_it_had(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, removed = Path.replace, []

    def slow(path: Path, target: Path) -> Path:
        if not removed:  # just then somebody takes the empty folder away
            removed.append(target)
            target.parent.rmdir()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", slow)
    reference = store.put([1, 2])
    assert removed
    assert store.get(reference) == [1, 2]


def test_a_payload_that_changes_after_it_was_checked_is_checked_again(store: Store) -> None:
    reference = store.put({"a": "x" * 1000})
    assert asyncio.run(store.store.read(reference))
    path = store.folder / "results" / reference["locator"]["path"]
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ResultDamaged):
        asyncio.run(store.store.read(reference))


def test_another_folder_may_be_named_and_what_lies_in_the_home_is_still_read(tmp_path: Path) -> None:
    before = Store(tmp_path / "home").put([1, 2])
    store = Store(tmp_path / "home", f"file://{tmp_path}/else%20where")
    reference = store.put([3, 4])
    assert (tmp_path / "else where" / reference["locator"]["path"]).is_file()
    assert store.get(reference) == [3, 4]
    assert before["type"] == "blob"


def test_a_draft_on_another_disk_is_copied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def across(self: Path, target: Path) -> Path:
        if self.parent != Path(target).parent:
            raise OSError(errno.EXDEV, "another disk")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", across)
    assert store.get(store.put({"a": 1})) == {"a": 1}
    assert list((store.folder / "results" / "drafts").iterdir()) == []
    [kept] = (store.folder / "results" / "x").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


def test_nothing_is_left_of_a_copy_from_another_disk_that_was_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def across(_self: Path, _target: Path) -> Path:
        raise OSError(errno.EXDEV, "another disk")

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", across)
    monkeypatch.setattr("shutil.copyfile", cut_off)
    with pytest.raises(KeyboardInterrupt):
        FolderBackend(store.folder / "results").put(_written(store), PayloadPlace("x", "0" * 32, JSON))
    assert list((store.folder / "results" / "x").iterdir()) == []


def _written(store: Store) -> Path:
    draft = store.store.draft(".part")
    draft.write_bytes(b"1")
    return draft


def test_of_a_damaged_list_of_parts_nobody_says_what_it_leads_to(store: Store) -> None:
    reference = asyncio.run(store.store.keep_list("x", [Part(items=[1, 2])]))
    path = reference["locator"]["path"]
    assert len(store.store.parts_of(path)) == 1
    (store.folder / "results" / path).write_bytes(b"[]")
    with pytest.raises(ResultDamaged):
        store.again().parts_of(path)


def test_a_folder_that_cannot_be_written_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="cannot be written"):
        Store(tmp_path / "home", str(tmp_path / "file" / "folder")).put([1])
