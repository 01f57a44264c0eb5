"""Size and hash of a payload are of its compact JSON, whatever file it lies in; those of the file stand beside them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies

from noetl.model.output import JSON, NDJSON, Spilled
from noetl.ports import Part, ResultDamaged
from noetl.results import PayloadStore
from noetl.results.backends.folder import FolderBackend
from noetl.rows.json_stream import compact

VALUES: list[Any] = [
    {"a": "é", "n": [1, 2]},
    [],
    [1, "two\n", None],
    [{"id": n, "text": "a\nb"} for n in range(12_000)],
    [{"id": 2**70, "x": {"y": [1.5, 1e300]}}],
    "text",
    None,
]


def store_in(folder: Path) -> PayloadStore:
    return PayloadStore([FolderBackend(folder, sync=False)], folder, clock=lambda: 1_000.0)


def check(store: PayloadStore, ref: dict[str, Any], value: Any) -> None:
    text = msgspec.json.encode(value)
    meta = ref["meta"]
    assert (meta["bytes"], meta["sha256"]) == (len(text), hashlib.sha256(text).hexdigest())
    file = store.find(ref).path.read_bytes()
    assert (meta["stored_bytes"], meta["stored_sha256"]) == (len(file), hashlib.sha256(file).hexdigest())


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("parquet", [True, False])
def test_of_a_value(tmp_path: Path, value: Any, parquet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.results.codec.has_parquet", lambda: parquet)
    store = store_in(tmp_path)
    ref = asyncio.run(store.keep("x", value))
    check(store, ref, value)
    assert asyncio.run(store.read(ref)) == value


@pytest.mark.parametrize(
    ("content_type", "text", "more"),
    [
        (JSON, json.dumps(VALUES[3], indent=2), {"rows": 12_000, "columns": {"id": "BIGINT", "text": "VARCHAR"}}),
        (JSON, json.dumps({"a": [VALUES[0]], 'b \\" c': " x "}, indent=1, ensure_ascii=False), {}),
        (JSON, msgspec.json.encode(VALUES[3]).decode(), {"rows": 12_000, "compact": True}),
        (NDJSON, msgspec.json.Encoder().encode_lines(VALUES[3]).decode(), {"rows": 12_000}),
        (NDJSON, msgspec.json.Encoder().encode_lines([{"text": "x" * 3_000_000}, {"text": "y"}]).decode(), {"rows": 2}),
    ],
    ids=range(5),
)
def test_of_what_a_tool_left_in_a_file(tmp_path: Path, content_type: str, text: str, more: Any) -> None:
    store = store_in(tmp_path)
    draft = store.draft(".json")
    draft.write_text(text, encoding="utf-8")
    ref = asyncio.run(store.keep("x", Spilled(str(draft), content_type, **more)))
    value = json.loads(text) if content_type == JSON else [json.loads(line) for line in text.splitlines()]
    check(store, ref, value)
    assert asyncio.run(store.read(ref)) == value


def test_the_size_of_a_list_in_parts_is_that_of_the_whole_list(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    one = asyncio.run(store.keep("x", {"large": True}))
    ref = asyncio.run(store.keep_list("x", [Part(items=[1, 2]), Part(ref=one), Part(items=[3])], schema="s"))
    whole = [1, 2, {"large": True}, 3]
    assert asyncio.run(store.read(ref)) == whole
    meta = ref["meta"]
    assert (meta["bytes"], meta["rows"], meta["schema"]) == (len(msgspec.json.encode(whole)), 4, "s")
    assert meta["sha256"] is None


def test_the_size_of_a_list_is_unknown_where_that_of_a_part_is(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    one = asyncio.run(store.keep("x", {"large": True}))
    earlier = {key: value for key, value in one["meta"].items() if not key.startswith("stored_")}
    inner = asyncio.run(store.keep_list("x", [Part(ref={**one, "meta": earlier})]))
    outer = asyncio.run(store.keep_list("x", [Part(ref=inner)]))
    assert (inner["meta"]["bytes"], outer["meta"]["bytes"]) == (None, None)


def test_a_file_that_was_changed_is_found_by_the_hash_of_the_file(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    ref = asyncio.run(store.keep("x", VALUES[0]))
    path = store.find(ref).path
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ResultDamaged):
        asyncio.run(store.read(ref))


def test_a_reference_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    ref = asyncio.run(store.keep("x", VALUES[0]))
    meta = dict(ref["meta"])
    stored = {"bytes": meta.pop("stored_bytes"), "sha256": meta.pop("stored_sha256")}
    assert asyncio.run(store.read({**ref, "meta": {**meta, **stored}})) == VALUES[0]
    with pytest.raises(ResultDamaged):
        asyncio.run(store_in(tmp_path).read({**ref, "meta": {**meta, **stored, "sha256": "0" * 64}}))


json_values = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.text(strategies.characters(codec="utf-8")),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
)


@given(json_values, strategies.integers(1, 40), strategies.sampled_from([None, 1]))
def test_white_space_goes_wherever_blocks_end(value: Any, size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    blocks = [text[start : start + size] for start in range(0, len(text), size)]
    assert b"".join(compact(blocks)) == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "replace"
    )
