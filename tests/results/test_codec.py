"""What is stored comes back as it was, types and all, in whichever form it lay."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from noetl.model.output import JSON, NDJSON, PARQUET, Spilled
from noetl.ports import ResultDamaged
from noetl.results import codec
from noetl.rows.columns import row_shape
from noetl.rows.json_stream import NotJsonText, batches, examine
from noetl.tools.python.task_result import json_pieces

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**25]),
    st.floats(allow_nan=False, allow_infinity=False),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)), max_leaves=20
)  # fmt: skip
COLUMN_NAMES = st.one_of(TEXT, st.sampled_from(["a", "A", "ß", "SS", "file_row_number", "", "a.b", "x'y", 'x"y', "İ"]))
COLUMNS = st.sampled_from([st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT, NUMBERS, VALUES])  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Maps with the same keys, each column with values of its own kind, and nothing here and there."""
    names = draw(st.lists(COLUMN_NAMES, unique=True, max_size=4))
    columns = {name: st.one_of(st.none(), draw(COLUMNS)) if draw(st.booleans()) else draw(COLUMNS) for name in names}
    return draw(st.lists(st.fixed_dictionaries(columns), max_size=6))


def typed(value: Any) -> Any:
    """A value in which 1, 1.0 and true are three things, and so are 0.0 and -0.0."""
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [typed(one) for one in value]
    return type(value).__name__, repr(value)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def there_and_back(value: Any, folder: Path) -> tuple[Any, codec.PayloadInfo]:
    path = folder / "payload.zst"
    written = codec.write(value, path, sync=False)
    assert written.stored_sha256 == codec.sha256_of(path)
    assert written.stored_bytes == path.stat().st_size
    text = msgspec.json.encode(value)
    assert (written.bytes, written.sha256) == (len(text), hashlib.sha256(text).hexdigest())
    return codec.read(_named(path, written), written.content_type), written


def _named(path: Path, written: codec.PayloadInfo) -> Path:
    return path.replace(path.with_name(f"payload{codec.SUFFIXES[written.content_type]}"))


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_any_value_comes_back_as_it_was(folder: Path, value: Any) -> None:
    back, written = there_and_back(value, folder)
    assert typed(back) == typed(value)
    assert written.rows == (len(value) if isinstance(value, list) else None)


@settings(deadline=None, max_examples=150)
@given(rows())
@example([{"a": 1}, {"a": None}])
@example([{"a": 1, "A": 2}])
@example([{"a": True}, {"a": 1}])
@example([{"a": 1}, {"a": 1.0}])
@example([{"a": 2**63}, {"a": 1}])
@example([{"a": "x\0y"}])
@example([{"b": 1, "a": 2}, {"a": 3, "b": 4}])
@example([{"a": {"b": [1, 2.0, None]}}, {"a": "text"}])
@example([{}, {}])
@example([{"file_row_number": 1}])
@example([{"\0": 1, "a": 2}])
@example([{"a": None}])
@example([{"a": ""}, {"a": "null"}, {"a": None}])
@example([{"a": -0.0}, {"a": 5e-324}, {"a": 1.7976931348623157e308}])
def test_rows_come_back_as_they_were(folder: Path, value: list[dict[str, Any]]) -> None:
    back, written = there_and_back(value, folder)
    assert typed(back) == typed(value)
    assert written.rows == len(value)
    if row_shape(value) and not any(name.casefold() == "file_row_number" for name in value[0]):
        assert written.content_type == PARQUET


@settings(deadline=None, max_examples=100)
@given(rows())
def test_without_duckdb_rows_are_lines_and_come_back_as_they_were(folder: Path, value: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "has_parquet", lambda: False)
        back, written = there_and_back(value, folder)
    assert typed(back) == typed(value)
    assert written.content_type == (NDJSON if row_shape(value) else JSON)


@settings(deadline=None, max_examples=150)
@given(st.one_of(rows(), VALUES), st.booleans(), st.integers(1, 40))
def test_what_a_tool_left_in_a_file_is_kept_as_if_it_had_been_in_hand(
    folder: Path, value: Any, pretty: bool, size: int
) -> None:  # fmt: skip
    body = msgspec.json.encode(value)
    body = msgspec.json.format(body, indent=2) if pretty else body
    count, columns = examine(body[start : start + size] for start in range(0, len(body), size))
    assert count == (len(value) if isinstance(value, list) else None)
    assert columns == row_shape(value)
    for has_parquet in (True, False):
        (folder / "draft").write_bytes(body)
        path = folder / "payload.zst"
        with pytest.MonkeyPatch.context() as patch:
            if not has_parquet:
                patch.setattr(codec, "has_parquet", lambda: False)
            written = codec.adopt(Spilled(str(folder / "draft"), JSON, count, columns), path, sync=False)
        path = _named(path, written)
        assert typed(codec.read(path, written.content_type)) == typed(value)
        assert not (folder / "draft").exists()
        if isinstance(value, list):
            for start in {0, len(value) // 2, len(value)}:
                found = [one for run in codec.read_batches(path, written.content_type, start) for one in run]
                assert typed(found) == typed(value[start:])


@settings(deadline=None, max_examples=300)
@given(VALUES, st.integers(0, 200), st.sampled_from(list('[]{},:"\\ 0x-.e')), st.integers(1, 9), st.integers(4, 60))
def test_text_is_taken_for_json_just_when_it_is(value: Any, place: int, char: str, size: int, window: int) -> None:
    text = msgspec.json.encode(value).decode()
    place %= len(text) + 1
    text = text[:place] + char + text[place + 1 :]
    try:
        expected: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        expected = NotJsonText
    body = text.encode()
    blocks = [body[start : start + size] for start in range(0, len(body), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl.rows.json_stream._WINDOW", window)
        if expected is NotJsonText:
            with pytest.raises(NotJsonText):
                examine(blocks)
            return
        count, _ = examine(blocks)
        assert count == (len(expected) if isinstance(expected, list) else None)
        if isinstance(expected, list):
            assert typed([one for batch in batches(blocks) for one in batch]) == typed(expected)


@settings(deadline=None)
@given(VALUES)
def test_the_pieces_of_a_result_are_the_result(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl.tools.python.task_result._SLICE", 2)
        patch.setattr("noetl.tools.python.task_result._FEW", 3)
        assert b"".join(json_pieces(value, msgspec.json.encode)) == msgspec.json.encode(value)


@pytest.mark.parametrize("value", [{"a": "x" * 50_000, "b": list(range(9999))}, [{"a": i} for i in range(50_000)], list(range(5000))])  # fmt: skip
def test_what_is_cut_short_is_damaged_and_nothing_worse(value: Any, folder: Path) -> None:
    path = folder / "payload.zst"
    written = codec.write(value, path, sync=False)
    path = _named(path, written)
    whole = path.read_bytes()
    for end in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ResultDamaged):
            codec.read(path, written.content_type)


def test_rows_too_long_for_parquet_are_lines(folder: Path) -> None:
    value = [{"a": "x" * 30_000_000, "n": n} for n in range(2)]
    back, written = there_and_back(value, folder)
    assert written.content_type == NDJSON
    assert back == value


def test_a_key_that_only_a_late_row_has_is_kept(folder: Path) -> None:
    rows: list[Any] = [{"id": n} for n in range(30_000)] + [{"id": 1, "late": [2]}]
    written = codec.write(rows, folder / "held", sync=False)
    path = (folder / "held").rename(folder / f"held{codec.SUFFIXES[written.content_type]}")
    assert codec.read(path, written.content_type) == rows
    spilled = folder / "spilled.json"
    spilled.write_bytes(msgspec.json.encode(rows))
    count, columns = examine([spilled.read_bytes()])
    written = codec.adopt(Spilled(str(spilled), JSON, count, columns), folder / "adopted", sync=False)
    path = (folder / "adopted").rename(folder / f"adopted{codec.SUFFIXES[written.content_type]}")
    assert codec.read(path, written.content_type) == rows


@pytest.mark.parametrize(
    "frame",
    [
        "28b52ffd00488101005b7b226964223a312c226e616d65223a22616c706861227d2c7b226964223a322c226e616d65223a2262657461227d5d",
        "28b52ffd004855010014025b7b226964223a312c226e616d65223a22616c706861227d2c3262657461227d5d0200a088769863",
    ],
    ids=["one thread", "several threads"],
)
def test_a_frame_that_another_library_wrote_is_read(tmp_path: Path, frame: str) -> None:
    """The frames are what the library `zstandard` wrote for stores of earlier versions."""
    path = tmp_path / "payload.json.zst"
    path.write_bytes(bytes.fromhex(frame))
    assert codec.read(path, JSON) == [{"id": 1, "name": "alpha"}, {"id": 2, "name": "beta"}]


def test_a_large_payload_is_one_standard_frame_and_comes_back(tmp_path: Path) -> None:
    value = {"text": "some words " * 500_000}
    path = tmp_path / "payload.json.zst"
    written = codec.write(value, path, sync=False)
    assert path.read_bytes().startswith(bytes.fromhex("28b52ffd"))
    assert written.stored_bytes == path.stat().st_size < 100_000
    assert codec.sha256_of(path) == written.stored_sha256
    assert codec.read(path, JSON) == value


@pytest.mark.parametrize("kept", [0, 3, 30])
def test_a_frame_without_its_end_is_damaged(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "payload.ndjson.zst"
    codec.write([{"id": number} for number in range(100)], path, sync=False, rows=False)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ResultDamaged, match="cannot be unpacked"):
        codec.read(path, NDJSON)
