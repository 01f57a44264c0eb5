"""Files as targets: what was there stays, what is added is whole, whatever happens meanwhile."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ends import asked, data, failing, file, lines, move, table
from tool_world import Workshop

from noetl.drivers.datahost.host import DataHostFailed, HostCall
from noetl.results.codec import read_batches
from noetl.tools.transfer.chunks import ValuesChunk
from noetl.tools.transfer.targets.file_target import FileTarget
from noetl.tools.transfer.targets.target import Notes, TargetChunk, TargetContext

pytest.importorskip("duckdb")


def target(folder: Path, path: Any, *, token: str = "t", mode: str = "append", **more: Any) -> FileTarget:
    around = TargetContext(
        scopes={}, scratch=folder, token=token, config={}, notes=str(folder / f"{token}.notes"), **more
    )
    return FileTarget({"kind": "file", "mode": mode, "path": path, "folder": str(folder)}, around)


def chunk(folder: Path, index: int, *rows: Any) -> TargetChunk:
    return TargetChunk(index, index + 1, ValuesChunk(list(rows), index, folder), {"index": index}, None, str(folder))


# --- what is added ------------------------------------------------------------------------------------------------------------


async def test_what_is_appended_begins_a_line_of_its_own(world: Workshop) -> None:
    (world.folder / "a.ndjson").write_text('{"a":1}')
    (world.folder / "a.csv").write_text("a\n1")
    await move(world, data({"a": 2}), file("a.ndjson", mode="append"), file("a.csv", mode="append"))
    assert lines(world.folder / "a.ndjson") == [{"a": 1}, {"a": 2}]
    assert (world.folder / "a.csv").read_text() == "a\n1\n2\n"


@pytest.mark.parametrize("rows", [[[1, 2], [3, 4]], [[]], [{"a": []}], [{"a": "]"}], ["x]", 1]])
async def test_an_array_has_an_end_whatever_is_in_it(world: Workshop, rows: list[Any]) -> None:
    await move(world, data(*rows), file("o.json"), chunk={"size": 1})
    assert json.loads((world.folder / "o.json").read_text()) == rows


@pytest.mark.parametrize("before", ["[]", " [ ]\n", '[{"a":0}]', '[\n{"a":0}\n ]  \n', ""])
@pytest.mark.parametrize("name", ["o.json", "o.json.gz"])
async def test_an_array_is_appended_to_by_blocks(
    world: Workshop, monkeypatch: pytest.MonkeyPatch, name: str, before: str
) -> None:
    body = before.encode()
    (world.folder / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    await move(world, data({"a": 1}, {"a": 2}), file(name, mode="append"), chunk={"size": 1})
    after = (world.folder / name).read_bytes()
    found = json.loads(gzip.decompress(after) if name.endswith("gz") else after)
    assert found == [*json.loads(before or "[]"), {"a": 1}, {"a": 2}]


@pytest.mark.parametrize("text", ["{}", "[1", "1]"])
async def test_what_is_no_array_is_not_appended_to(world: Workshop, text: str) -> None:
    (world.folder / "o.json").write_text(text)
    found = await failing(world, data({"a": 1}), file("o.json", mode="append"))
    assert "no JSON array that could be appended to" in found["message"]
    assert (world.folder / "o.json").read_text() == text


@pytest.mark.parametrize("name", ["o.csv.gz", "o.json.gz", "o.ndjson.gz", "o.tsv", "o.tsv.gz"])
@pytest.mark.parametrize("mode", ["append", "replace"])
async def test_a_name_says_how_rows_are_written(world: Workshop, name: str, mode: str) -> None:
    rows = [{"a": n, "b": f"x,{n}"} for n in range(5)]
    told = await move(world, data(*rows[:3]), file(name, mode=mode), chunk={"size": 2})
    if mode == "append":
        told = await move(world, data(*rows[3:]), file(name, mode=mode))
    body = (world.folder / name).read_bytes()
    text = (gzip.decompress(body) if name.endswith("gz") else body).decode()
    assert ("a\tb\n0\tx,0\n" in text) == ("tsv" in name)
    await move(world, file(name), file("back.ndjson"))
    assert lines(world.folder / "back.ndjson") == rows[: 5 if mode == "append" else 3]
    if "json" in name:
        kind = told["targets"][0]["ref"]["meta"]["content_type"]
        assert [row for run in read_batches(world.folder / name, kind) for row in run] == lines(
            world.folder / "back.ndjson"
        )


async def test_parquet_is_not_packed_twice(world: Workshop) -> None:
    found = await failing(world, data({"a": 1}), file("o.parquet.gz"))
    assert "Parquet is compressed by itself" in found["message"]


# --- types of Parquet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["x", "05", [1], 1.5])
async def test_a_value_of_another_type_than_the_first_chunks_is_named_with_its_row(world: Workshop, odd: Any) -> None:
    found = await failing(world, data({"a": 2}, {"a": 3}, {"a": odd}), file("o.parquet"), chunk={"size": 1})
    assert found["message"].startswith("target 1 (file): column `a`, row 3: ")
    assert "is not of type BIGINT, as the rows of earlier chunks are" in found["message"]
    assert not (world.folder / "o.parquet").exists()


async def test_a_value_that_is_the_same_in_the_type_of_the_first_chunk_is_written_as_that(world: Workshop) -> None:
    rows = [{"a": 2, "b": 0.5, "c": "x"}, {"a": 3.0, "b": 1, "c": None}, {"a": None, "b": 2, "c": "y", "d": 1}]
    await move(world, data(*rows), file("o.parquet"), chunk={"size": 1})
    found = await failing(world, data({"b": 0.5}, {"b": 2**60 + 1}), file("digits.parquet"), chunk={"size": 1})
    assert "is not of type DOUBLE" in found["message"]
    await move(world, file("o.parquet"), file("o.ndjson"))
    assert lines(world.folder / "o.ndjson") == [{**row, "d": row.get("d")} for row in rows]


# --- after a crash ------------------------------------------------------------------------------------------------------------


def test_a_crash_in_the_first_chunk_does_not_double_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, running = tmp_path / "o.ndjson", HostCall(tmp_path)
    out.write_text('{"a":0}\n')
    noted, add = [], Notes.add

    def mortal(self: Notes, **note: Any) -> None:
        noted.append(note)
        if note["rows"]:
            raise SystemExit  # the rows are written, and not noted
        add(self, **note)

    first = target(tmp_path, str(out))
    first.open(running)
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "add", mortal)
        with pytest.raises(SystemExit):
            first.write(running, chunk(tmp_path, 0, {"a": 1}, {"a": 2}))
    assert len(lines(out)) == 3
    second = target(tmp_path, str(out))
    assert second.open(running) == 0
    second.write(running, chunk(tmp_path, 0, {"a": 1}, {"a": 2}))
    second.finish(running)
    assert lines(out) == [{"a": 0}, {"a": 1}, {"a": 2}]


def test_what_others_have_appended_meanwhile_is_not_cut_off(tmp_path: Path) -> None:
    out, running = tmp_path / "o.ndjson", HostCall(tmp_path)
    first = target(tmp_path, str(out), token="a")
    first.open(running)
    first.write(running, chunk(tmp_path, 0, {"from": "a0"}))
    other = target(tmp_path, str(out), token="b")
    other.open(running)
    other.write(running, chunk(tmp_path, 0, {"from": "b0"}))
    other.finish(running)
    with pytest.raises(DataHostFailed, match="somebody else has written to") as found:
        target(tmp_path, str(out), token="a").open(running)
    assert found.value.failure["kind"] == "not-resumable"
    assert lines(out) == [{"from": "a0"}, {"from": "b0"}]
    # Who was not interrupted may go on, and is not taken back any more.
    first.write(running, chunk(tmp_path, 1, {"from": "a1"}))
    assert not first.restart(running)
    again = target(tmp_path, str(out), token="a")
    assert again.open(running) == 2
    assert lines(out) == [{"from": "a0"}, {"from": "b0"}, {"from": "a1"}]


def test_what_was_begun_and_is_gone_is_begun_again(tmp_path: Path) -> None:
    running = HostCall(tmp_path)
    first = target(tmp_path, str(tmp_path / "o.csv"), mode="replace")
    first.open(running)
    first.write(running, chunk(tmp_path, 0, {"a": 1}))
    os.remove(next(tmp_path.glob(".o.csv.*.part")))  # noqa: PTH107  somebody tidied up
    assert target(tmp_path, str(tmp_path / "o.csv"), mode="replace").open(running) == 0


async def test_a_disk_that_is_full_leaves_no_half_chunk(world: Workshop) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no full disk at hand")
    (world.folder / "o.ndjson").symlink_to("/dev/full")
    found = await failing(world, data({"a": 1}), file("o.ndjson", mode="append"))
    assert "the disk is full" in found["message"]


# --- tables -------------------------------------------------------------------------------------------------------------------


async def test_of_two_rows_with_a_key_the_last_wins_whatever_columns_are_called(world: Workshop) -> None:
    await world.task(kind="duckdb", file="o.duckdb", command="CREATE TABLE t (a BIGINT, noetl_n BIGINT)")
    rows = data({"a": 1, "noetl_n": 9}, {"a": 1, "noetl_n": 3})
    await move(world, rows, table(mode="upsert", key="a"))
    assert asked(world, "FROM t") == [(1, 3)]


async def test_nested_values_are_the_same_whatever_columns_are_called(world: Workshop) -> None:
    query = "SELECT {'a': 7} AS e, 5 AS e0, [{'a': 1.5::DOUBLE}] AS n2, MAP {'x': [0.5::DOUBLE]} AS m"
    await move(world, {"kind": "duckdb", "query": query}, file("o.ndjson"))
    assert lines(world.folder / "o.ndjson") == [{"e": {"a": 7}, "e0": 5, "n2": [{"a": 1.5}], "m": {"x": [0.5]}}]
