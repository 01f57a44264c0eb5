"""Ends of transfers: what is visible is recorded, target by target, and a later attempt neither loses nor doubles it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from ends import data, file
from servers import Database
from tool_world import Workshop

from noetl.drivers.datahost.host import DataHostFailed, HostCall
from noetl.expr import template
from noetl.tools.transfer.chunks import ValuesChunk
from noetl.tools.transfer.targets.file_formats import ParquetFormat
from noetl.tools.transfer.targets.file_target import FileTarget
from noetl.tools.transfer.targets.postgres_target import PostgresTarget
from noetl.tools.transfer.targets.target import Target, TargetChunk, TargetContext

duckdb = pytest.importorskip("duckdb")

ROWS = [{"id": n} for n in range(10)]


def around(folder: Path, **more: Any) -> TargetContext:
    return TargetContext(scopes={}, scratch=folder, token="t", config={}, notes=str(folder / "t.notes"), **more)


def files(folder: Path, path: Any, mode: str = "replace", **more: Any) -> FileTarget:
    return FileTarget({"kind": "file", "mode": mode, "path": path, "folder": str(folder)}, around(folder, **more))


def write(target: Target, folder: Path, index: int, *rows: Any) -> None:
    with duckdb.connect(":memory:") as connection:
        given = TargetChunk(
            index, index + 1, ValuesChunk(list(rows), index, folder), {"index": index}, connection.cursor(), str(folder)
        )
        target.write(HostCall(folder), given)


def ids(path: Path) -> list[int]:
    if path.suffix == ".json":
        return [row["id"] for row in json.loads(path.read_text())]
    return [row[0] for row in duckdb.connect().execute("SELECT id FROM read_parquet($1)", [str(path)]).fetchall()]


# --- whole transfers --------------------------------------------------------------------------------------------------------


async def tried(world: Workshop, *targets: dict[str, Any], again: bool = False) -> Any:
    progress = world.said[-1] if again else None
    return await world.task(progress, kind="transfer", source=data(*ROWS), targets=list(targets), chunk={"size": 3})


@pytest.mark.parametrize(("name", "mode"), [("o.json", "replace"), ("o.parquet", "replace"), ("o.parquet", "append")])
async def test_rows_that_could_not_be_made_visible_come_with_the_next_attempt(
    world: Workshop, name: str, mode: str
) -> None:
    (world.folder / name / "in the way").mkdir(parents=True)
    output = await tried(world, file(name, mode=mode))
    assert output["status"] == "error"
    (world.folder / name / "in the way").rmdir()
    (world.folder / name).rmdir()
    output = await tried(world, file(name, mode=mode), again=True)
    assert output["error"] is None, output["error"]
    assert output["data"]["targets"][0]["ref"]["meta"]["rows"] == 10
    assert ids(world.folder / name) == list(range(10))


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
async def test_a_target_that_has_finished_gets_nothing_twice_when_another_one_fails(world: Workshop, name: str) -> None:
    targets = [file(name, mode="append"), file("r.json")]
    (world.folder / "r.json" / "in the way").mkdir(parents=True)
    for again in (False, True):
        output = await tried(world, *targets, again=again)
        assert "target 2" in output["error"]["message"] or "r.json" in output["error"]["message"]
    (world.folder / "r.json" / "in the way").rmdir()
    (world.folder / "r.json").rmdir()
    output = await tried(world, *targets, again=True)
    assert output["error"] is None, output["error"]
    assert ids(world.folder / name) == ids(world.folder / "r.json") == list(range(10))
    assert [one["ref"]["locator"]["file"] for one in output["data"]["targets"]] == [
        str(world.folder / name), str(world.folder / "r.json")
    ]  # fmt: skip


# --- files ------------------------------------------------------------------------------------------------------------------


def test_a_crash_behind_the_end_does_not_lose_sight_of_the_files(tmp_path: Path) -> None:
    running, path = HostCall(tmp_path), template(f"{tmp_path}/{{{{ chunk.index }}}}.csv")
    first = files(tmp_path, path)
    first.open(running)
    for index in range(2):
        write(first, tmp_path, index, {"a": index})
    told = first.finish(running)
    second = files(tmp_path, path, recorded=2, rows=2, final=True)
    assert second.open(running) == 2
    assert second.finish(running) == told
    assert told is not None
    assert told["locator"] == {"files": [str(tmp_path / "0.csv"), str(tmp_path / "1.csv")]}
    assert second.bytes == 8
    second.forget()
    assert files(tmp_path, path, recorded=2, rows=2, final=True, finished=True).open(running) == 2


def test_what_only_another_machine_has_noted_is_done_again_and_not_taken_for_done(tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text('[{"id": 7}]')
    target = files(tmp_path, str(tmp_path / "o.json"), recorded=2, rows=2, final=True)
    assert target.open(HostCall(tmp_path)) == 0


def test_what_another_machine_may_have_appended_cannot_be_gone_on_with(tmp_path: Path) -> None:
    target = files(tmp_path, str(tmp_path / "o.json"), "append", recorded=2, rows=2, final=True)
    with pytest.raises(DataHostFailed, match="the notes are gone") as found:
        target.open(HostCall(tmp_path))
    assert found.value.failure["kind"] == "not-resumable"


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize("where", ["put together", "parts removed", "in place"])
def test_a_parquet_file_is_made_once_wherever_its_making_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, where: str
) -> None:
    running, path = HostCall(tmp_path), tmp_path / "o.parquet"
    duckdb.connect().execute(f"COPY (SELECT 99::BIGINT AS id) TO '{path}'")
    first = files(tmp_path, str(path), mode)
    first.open(running)
    for index in range(4):
        write(first, tmp_path, index, {"id": index})
    removed: list[Path] = []
    unlink, abandon = Path.unlink, ParquetFormat.abandon

    def mortal_unlink(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".parquet" and (where == "put together" or len(removed) == 2):
            raise Killed
        removed.append(self)
        unlink(self, missing_ok=missing_ok)

    def mortal_abandon(self: ParquetFormat) -> None:
        if where == "in place":
            raise Killed
        abandon(self)

    with monkeypatch.context() as patch:
        if where != "in place":
            patch.setattr(Path, "unlink", mortal_unlink)
        patch.setattr(ParquetFormat, "abandon", mortal_abandon)
        with pytest.raises(Killed):
            first.finish(running)
    second = files(tmp_path, str(path), mode, recorded=4, rows=4, final=True)
    assert second.open(running) == 4
    second.finish(running)
    assert ids(path) == ([99] if mode == "append" else []) + [0, 1, 2, 3]


# --- others -----------------------------------------------------------------------------------------------------------------


def test_an_attempt_that_was_overtaken_leaves_the_other_ones_rows_alone(tmp_path: Path, database: Database) -> None:
    given = {"kind": "postgres", "mode": "replace", "table": "t", "auth": "pg", "connect": {"conninfo": database.url}}
    running = HostCall(tmp_path)
    old, new = PostgresTarget(given, around(tmp_path)), PostgresTarget(given, around(tmp_path))
    try:
        old.open(running)
        write(old, tmp_path, 0, {"id": 0})
        assert new.open(running) == 1
        write(new, tmp_path, 1, {"id": 1})
        with pytest.raises(DataHostFailed, match="another attempt"):
            write(old, tmp_path, 1, {"id": 1})
        assert not old.abort(running)
        write(new, tmp_path, 2, {"id": 2})
        assert new.finish(running) is not None
    finally:
        old.close()
        new.close()
    import psycopg

    with psycopg.connect(database.url) as connection:
        assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(0,), (1,), (2,)]


def test_rows_are_written_down_once_for_all_targets_that_come_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, barrier, write_bytes = [], threading.Barrier(4), Path.write_bytes

    def slowly(self: Path, body: bytes) -> int:
        written.append(self)
        threading.Event().wait(0.05)
        return write_bytes(self, body)

    monkeypatch.setattr(Path, "write_bytes", slowly)
    chunk = ValuesChunk(ROWS, 0, tmp_path, {"id": "BIGINT"})

    def come() -> None:
        barrier.wait()
        chunk.relation(None, {})

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1
