"""Payloads as files in a folder."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest
from shelves import Store

from noetl.ports import ResultDamaged, StoreFailed


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_nobody_else_may_look_into_the_store(store: Store) -> None:
    store.put([1])
    assert (store.folder / "results" / "x").stat().st_mode & 0o077 == 0


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


def test_a_folder_that_cannot_be_written_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="cannot be written"):
        Store(tmp_path / "home", str(tmp_path / "file" / "folder")).put([1])


def test_drafts_that_nobody_will_finish_are_removed_folders_too(store: Store) -> None:
    store.now = time.time()
    store.put([1])
    drafts = store.folder / "results" / "drafts"
    for name in ("old", "new"):
        (drafts / name).mkdir()
        (drafts / name / "part").write_bytes(b"12345")
    (drafts / "lonely").write_bytes(b"123")
    for name in ("old", "lonely"):
        os.utime(drafts / name, (0, 0))
    found = {one.shown: one for one in store.store.expired()}
    assert {shown: one.bytes for shown, one in found.items()} == {"drafts/lonely": 3, "drafts/old": 5}
    for one in found.values():
        one.remove()
    assert [path.name for path in drafts.iterdir()] == ["new"]
