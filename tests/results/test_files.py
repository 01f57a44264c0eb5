"""The result store on a disk: what it keeps, what it gives, what it refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import UsageError
from noetl.ports import Part, ResultDamaged, ResultGone, StoreFailed
from noetl.results.files import MANIFEST, FileResults


class Store(FileResults):
    """A store whose clock is turned by hand."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000_000.0
        super().__init__(folder / "results", clock=lambda: self.now)

    def put(self, value: Any, **more: Any) -> dict[str, Any]:
        return asyncio.run(self.keep("x", value, **more))

    def get(self, reference: dict[str, Any]) -> Any:
        return asyncio.run(self.read(reference))

    def some(self, reference: dict[str, Any], start: int, stop: int) -> list[Any]:
        return asyncio.run(self.rows(reference, start, stop))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


LISTS: dict[str, list[Any]] = {
    "rows": [{"id": n, "text": f"row {n}"} for n in range(12_345)],
    "numbers": list(range(12_345)),
    "mixed": [{"a": 1}, [2], None, "x"] * 3_000,
}


@pytest.mark.parametrize("name", LISTS)
def test_any_rows_are_given_in_any_order(store: Store, name: str) -> None:
    value = LISTS[name]
    reference = store.put(value)
    assert reference["meta"]["rows"] == len(value)
    for start, stop in (
        (0, 10),
        (10, 20),
        (20, 5_020),
        (5_020, 6_000),
        (3, 4),
        (12_000, 20_000),
        (12_345, 12_346),
        (0, 0),
        (7, 2),
    ):
        assert store.some(reference, start, stop) == value[start:stop]
    store.close()


def test_a_range_that_ends_before_it_begins_disturbs_no_later_one(store: Store) -> None:
    reference = store.put(LISTS["rows"])
    for start, stop in ((0, 5), (5, 2), (2, 6)):
        assert store.some(reference, start, stop) == LISTS["rows"][start:stop]
    store.close()


def test_a_loop_reads_a_list_once_from_end_to_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = store.put(LISTS["mixed"])
    opened = []
    elements = store.elements
    monkeypatch.setattr(store, "elements", lambda *some: opened.append(some) or elements(*some))
    found: list[Any] = []
    for start in range(0, 12_000, 1_000):
        found += store.some(reference, start, start + 1_000)
    assert found == LISTS["mixed"]
    # One that is made and not needed is never begun.
    assert sum(1 for _, start in opened if start == 0) == 1
    store.close()


def test_many_readers_at_once_do_not_disturb_each_other(store: Store) -> None:
    reference = store.put(LISTS["rows"])
    with ThreadPoolExecutor(8) as pool:
        starts = [n * 500 for n in range(20)] * 3
        for start, rows in zip(starts, pool.map(lambda n: store.some(reference, n, n + 500), starts), strict=True):
            assert rows == LISTS["rows"][start : start + 500]
    store.close()


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.one_of(st.lists(st.integers(), max_size=12), st.just("stored")), max_size=6), st.integers(0, 30), st.integers(0, 30)
)  # fmt: skip
def test_a_list_in_parts_is_one_list(
    tmp_path_factory: pytest.TempPathFactory, plan: list[Any], start: int, stop: int
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    parts, whole = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl.results.files._PART", 5)
        for number, one in enumerate(plan):
            if one == "stored":
                parts.append(Part(ref=store.put({"number": number})))
                whole.append({"number": number})
            else:
                parts.append(Part(items=one))
                whole += one
        reference = asyncio.run(store.keep_list("x", parts))
    assert reference["meta"]["content_type"] == MANIFEST
    assert reference["meta"]["rows"] == len(whole)
    assert store.get(reference) == whole
    assert store.some(reference, start, stop) == whole[start:stop]
    store.close()


def test_what_is_stored_twice_is_there_once(store: Store) -> None:
    assert store.put([1, 2]) == store.put([1, 2])
    assert len(list((store.folder / "x").iterdir())) == 1
    assert list((store.folder / "drafts").iterdir()) == []


def test_nobody_else_may_look_into_the_store(store: Store) -> None:
    store.put([1])
    for path in (store.folder, *store.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_no_draft_is_left_of_what_could_not_be_stored(store: Store) -> None:
    with pytest.raises(OverflowError):
        store.put([1, 2], ttl=float("inf"))
    with pytest.raises(StoreFailed):
        asyncio.run(store.keep("x" * 300, [1, 2]))
    assert list((store.folder / "drafts").iterdir()) == []


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_works_with_is_not(store: Store) -> None:
    drafts = store.draft("").parent
    scratch, part = drafts / f"{dead_pid()}-a.scratch", drafts / f"{dead_pid()}-b.part"
    (scratch / "0").mkdir(parents=True)
    (scratch / "0" / "spilled").write_bytes(b"x")
    part.write_bytes(b"x")
    living = store.draft(".scratch")
    living.mkdir()
    assert list(store.expired()) == []
    store.now = time.time() + 25 * 3600
    assert sorted(store.expired()) == sorted([scratch, part])
    for path in list(store.expired()):
        store.remove(path)
    assert list(drafts.iterdir()) == [living]


def test_the_folder_of_drafts_stays_when_the_last_one_is_removed(store: Store) -> None:
    draft = store.draft(".part")
    draft.write_bytes(b"x")
    store.remove(draft)
    assert draft.parent.is_dir()


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


def test_its_time_decides_whether_a_payload_is_there(store: Store) -> None:
    reference = store.put([1, 2], ttl=10.0)
    assert reference["meta"]["ttl"] == 10.0
    store.now += 9.9
    assert store.get(reference) == [1, 2]
    assert list(store.expired()) == []
    store.now += 0.2
    for read in (lambda: store.get(reference), lambda: store.some(reference, 0, 1)):
        with pytest.raises(ResultGone, match="time had run out"):
            read()
    assert [path.name for path in store.expired()] == [reference["locator"]["path"].split("/")[1]]


ESCAPES = [
    "../secret.json.zst", "x/../../secret", "/etc/passwd", "x/../x/{name}", "./x/{name}", "x//{name}", "x/{name}/..", "drafts/{name}",
    "x\0/{name}", "x/{name}\n", "..%2f{name}", "x\\..\\{name}", "", "x", "x/", "~/x", "x/" + "0" * 40 + ".parquet", "file:///etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_path_leads_out_of_the_store(store: Store, escape: str) -> None:
    reference = store.put({"a": "x" * 100})
    name = reference["locator"]["path"].split("/")[1]
    hostile = {**reference, "locator": {"path": escape.replace("{name}", name)}}
    with pytest.raises((UsageError, ResultGone)):
        store.get(hostile)
    with pytest.raises((UsageError, ResultGone)):
        store.some(hostile, 0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "relational"}, {"type": None}, {"locator": None}, {"locator": []}, {"locator": {"path": 7}}, {"meta": {"sha256": "0" * 64}},
        {"meta": {"sha256": "x"}},
    ],
)  # fmt: skip
def test_a_reference_that_was_tampered_with_is_refused(store: Store, change: dict[str, Any]) -> None:
    with pytest.raises((UsageError, ResultDamaged)):
        store.get({**store.put([1, 2]), **change})


@pytest.mark.parametrize("value", [{"a": "x" * 100}, [{"a": n} for n in range(100)]], ids=["document", "rows"])
def test_one_flipped_bit_anywhere_is_noticed(store: Store, value: Any) -> None:
    reference = store.put(value)
    path = store.folder / reference["locator"]["path"]
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(ResultDamaged, match="sha256 is another one"):
            FileResults(store.folder, clock=store.clock)._rows(reference, 0, 1)
    path.write_bytes(whole)
    assert store.get(reference) == value


def test_a_payload_that_changes_after_it_was_checked_is_checked_again(store: Store) -> None:
    reference = store.put({"a": "x" * 1000})
    assert store.get(reference)
    path = store.folder / reference["locator"]["path"]
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ResultDamaged):
        store.get(reference)


@pytest.mark.parametrize(
    ("value", "most", "is_small"),
    [
        ({"a": "x" * 100}, 1_000, True), ({"a": "x" * 2_000}, 1_000, False), (["x" * 10] * 10, 1_000, True), (["x" * 10] * 1_000, 1_000, False),
        ("x" * 998, 1_000, True), ("x" * 999, 1_000, False), ([{"a": n} for n in range(50_000)], 1_000, False),
    ],
)  # fmt: skip
def test_a_payload_is_shown_in_full_only_if_it_is_small(store: Store, value: Any, most: int, is_small: bool) -> None:
    found = asyncio.run(store.read_small(store.put(value), most))
    assert found == ((value,) if is_small else None)
