"""The result store, wherever payloads lie: what it keeps, what it gives, what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from result_stores import KINDS, Store, made

from noetl.errors import UsageError
from noetl.ports import Part, ResultDamaged, ResultGone
from noetl.results.backends.backend import MANIFEST


@pytest.fixture(params=KINDS, ids=KINDS.values())
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = made(request.param, tmp_path, request)
    yield opened
    opened.close()


def name_in(reference: dict[str, Any]) -> str:
    """The place of a payload within its store."""
    locator = reference["locator"]
    return str(locator.get("path") or locator.get("object") or locator["key"].removeprefix("some/place/"))


def with_name(reference: dict[str, Any], name: str) -> dict[str, Any]:
    locator = reference["locator"]
    if "path" in locator:
        return {**reference, "locator": {"path": name}}
    if "object" in locator:
        return {**reference, "locator": {**locator, "object": name}}
    key = f"some/place/{name}" if "bucket" in locator else name
    return {**reference, "locator": {**locator, "key": key}}


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


def test_a_loop_reads_a_list_once_from_end_to_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = store.put(LISTS["mixed"])
    opened = []
    elements = store.store.elements
    monkeypatch.setattr(store.store, "elements", lambda *some: opened.append(some) or elements(*some))
    found: list[Any] = []
    for start in range(0, 12_000, 1_000):
        found += store.some(reference, start, start + 1_000)
    assert found == LISTS["mixed"]
    # One that is made and not needed is never begun.
    assert sum(1 for _, start, *_ in opened if start == 0) == 1
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
    store = Store(tmp_path_factory.mktemp("home"))
    parts, whole = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl.results.store._PART", 5)
        for number, one in enumerate(plan):
            if one == "stored":
                parts.append(Part(ref=store.put({"number": number})))
                whole.append({"number": number})
            else:
                parts.append(Part(items=one))
                whole += one
        reference = asyncio.run(store.store.keep_list("x", parts))
    assert reference["meta"]["content_type"] == MANIFEST
    assert reference["meta"]["rows"] == len(whole)
    assert store.get(reference) == whole
    assert store.some(reference, start, stop) == whole[start:stop]
    store.close()


def test_what_is_stored_twice_is_there_once(store: Store) -> None:
    assert store.put([1, 2]) == store.put([1, 2])
    assert store.count() == 1
    assert list((store.folder / "results" / "drafts").iterdir()) == []


def test_a_reference_says_where_and_by_which_credential(store: Store, request: pytest.FixtureRequest) -> None:
    reference = store.put([1, 2])
    assert reference["type"] in store.store.kinds
    assert reference["type"] == request.node.callspec.params["store"]
    assert reference["auth_reference"] == (None if reference["type"] == "blob" else "keychain/results")
    assert set(reference["locator"]) == {"blob": {"path"}, "object_store": {"bucket", "key"}, "relational": {"table", "key"}, "nats": {"bucket", "object"}}[reference["type"]]  # fmt: skip


def test_its_time_decides_whether_a_payload_is_there(store: Store) -> None:
    reference = store.put([1, 2], ttl=10.0)
    assert reference["meta"]["ttl"] == 10.0
    store.now += 9.9
    assert store.get(reference) == [1, 2]
    assert list(store.store.find_expired()) == []
    store.now += 0.2
    for read in (lambda: store.get(reference), lambda: store.some(reference, 0, 1)):
        with pytest.raises(ResultGone, match="time had run out"):
            read()
    kept = store.put([1, 2, 3])
    expired = list(store.store.find_expired())
    assert len(expired) == 1
    assert expired[0].display_name.endswith(name_in(reference))
    assert expired[0].bytes == reference["meta"]["stored_bytes"]
    expired[0].remove()
    expired[0].remove()  # another process may have done it
    assert list(store.raw()) == [name_in(kept)]
    assert list(store.store.find_expired()) == []


ESCAPES = [
    "../secret.json.zst", "x/../../secret", "/etc/passwd", "x/../x/{name}", "./x/{name}", "x//{name}", "x/{name}/..", "drafts/{name}",
    "x\0/{name}", "x/{name}\n", "..%2f{name}", "x\\..\\{name}", "", "x", "x/", "~/x", "x/" + "0" * 40 + ".parquet", "file:///etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_path_leads_out_of_the_store(store: Store, escape: str) -> None:
    reference = store.put({"a": "x" * 100})
    name = name_in(reference).split("/")[1]
    hostile = with_name(reference, escape.replace("{name}", name))
    with pytest.raises((UsageError, ResultGone)):
        store.get(hostile)
    with pytest.raises((UsageError, ResultGone)):
        store.some(hostile, 0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "tape"}, {"type": None}, {"locator": None}, {"locator": []}, {"locator": {"path": 7}}, {"locator": {"bucket": 7, "key": 7}}, {"locator": {"bucket": "another", "key": "x"}}, {"meta": {"sha256": "0" * 64}},
        {"meta": {"sha256": "x"}},
    ],
)  # fmt: skip
def test_a_reference_that_was_tampered_with_is_refused(store: Store, change: dict[str, Any]) -> None:
    with pytest.raises((UsageError, ResultDamaged)):
        store.get({**store.put([1, 2]), **change})


@pytest.mark.parametrize("value", [{"a": "x" * 100}, [{"a": n} for n in range(100)]], ids=["document", "rows"])
def test_one_flipped_bit_anywhere_is_noticed(store: Store, value: Any) -> None:
    reference = store.put(value)
    whole = store.raw()[name_in(reference)]
    for place in range(0, len(whole), max(1, len(whole) // 20)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        store.damage(reference, bytes(damaged))
        with pytest.raises(ResultDamaged, match="sha256 is another one"):
            store.again()._rows(reference, 0, 1)
    store.damage(reference, whole)
    assert store.get(reference) == value


@pytest.mark.parametrize(
    ("value", "most", "is_small"),
    [
        ({"a": "x" * 100}, 1_000, True), ({"a": "x" * 2_000}, 1_000, False), (["x" * 10] * 10, 1_000, True), (["x" * 10] * 1_000, 1_000, False),
        ("x" * 998, 1_000, True), ("x" * 999, 1_000, False), ([{"a": n} for n in range(50_000)], 1_000, False),
    ],
)  # fmt: skip
def test_a_payload_is_shown_in_full_only_if_it_is_small(store: Store, value: Any, most: int, is_small: bool) -> None:
    found = asyncio.run(store.store.read_small(store.put(value), most))
    assert found == ((value,) if is_small else None)


def test_a_payload_that_is_gone_is_called_that(store: Store) -> None:
    reference = store.put([1, 2])
    gone = with_name(reference, "x/" + "0" * 32 + ".json.zst")
    with pytest.raises(ResultGone, match="no longer there"):
        store.get({**gone, "meta": {}})


def test_what_was_removed_is_gone_although_it_was_read_before(store: Store) -> None:
    reference = store.put([1, 2], ttl=1.0)
    assert store.some(reference, 0, 2) == [1, 2]
    store.now += 2
    for one in list(store.store.find_expired()):
        one.remove()
    with pytest.raises(ResultGone):
        store.some(reference, 0, 2)


def test_many_writers_and_readers_share_a_store(store: Store) -> None:
    values = [{"n": n % 7, "text": "x" * 5_000} for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        references = list(pool.map(store.put, values))
        found = list(pool.map(lambda one: asyncio.run(store.store.read(one)), references))
    assert found == values
    assert store.count() == 7
