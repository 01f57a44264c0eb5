"""References that a transfer gives lead to files and tables outside of the result store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.config import Settings
from noetl.model.state import Execution
from noetl.ports import ResultDamaged, ResultGone
from noetl.stores.memory import MemoryLog
from noetl.wiring import House

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: transferred}
workflow:
- step: move
  tool:
    kind: transfer
    source: {kind: data, data: [{id: 1, v: a}, {id: 2, v: b}, {id: 3, v: c}]}
    targets:
    - {kind: file, path: out.csv}
    - {kind: file, path: out.parquet, format: parquet}
    - {kind: duckdb, file: d.duckdb, table: t, mode: replace}
  set:
    ctx.csv_ref: "{{ output.data.targets[0].ref }}"
    ctx.parquet_ref: "{{ output.data.targets[1].ref }}"
    ctx.table_ref: "{{ output.data.targets[2].ref }}"
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ ctx.table_ref }}", iterator: row}
  tool: {kind: noop, output: "{{ iter.row.v }}"}
  set: {ctx.table: "{{ output.data }}"}
  next: {arcs: [{step: fetch}]}
- step: fetch
  tool:
  - {name: all, kind: resolve, ref: "{{ ctx.csv_ref }}", set: {ctx.csv: "{{ output.data }}"}}
  - {name: some, kind: resolve, ref: "{{ ctx.parquet_ref }}", range: [1, 3]}
"""
ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}]


async def run(folder: Path) -> Execution:
    file = folder / "transferred.yaml"
    file.write_text(PLAYBOOK)
    async with House(Settings(folder / "home"), MemoryLog()) as house:
        source, loaded = house.catalog.read(file)
        assert loaded.net is not None
        hot = await house.start(source, loaded.net, {})
        await asyncio.wait_for(asyncio.shield(hot.finished), 60)
        return hot.state


def test_loops_and_resolve_read_what_a_transfer_has_written(tmp_path: Path) -> None:
    state = asyncio.run(run(tmp_path))
    assert (state.status, state.error) == ("completed", None)
    assert (state.ctx["table"], state.ctx["csv"], state.output) == (["a", "b", "c"], ROWS, ROWS[1:])


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda file: file.unlink(), ResultGone),
        (lambda file: file.write_text("id,v\n9,z\n"), ResultDamaged),
    ],
    ids=["removed", "changed"],
)
def test_a_file_that_is_no_longer_what_was_written_is_told(tmp_path: Path, spoil: Any, error: Any) -> None:
    async def go() -> None:
        state = await run(tmp_path)
        spoil(tmp_path / "out.csv")
        async with House(Settings(tmp_path / "home"), MemoryLog()) as house:
            with pytest.raises(error, match=r"out\.csv"):
                await house.results.read(state.ctx["csv_ref"])

    asyncio.run(go())
