"""References that a transfer gives lead to files and tables outside of the result store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.model.state import Execution
from noetl.ports import ResultDamaged, ResultGone
from noetl.stores.memory import MemoryLog

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


async def run(folder: Path, playbook: str = PLAYBOOK) -> Execution:
    file = folder / "transferred.yaml"
    file.write_text(playbook)
    async with LocalNode(Settings(folder / "home"), MemoryLog()) as node:
        source, loaded = node.catalog.read(file)
        assert loaded.net is not None
        live = await node.start(source, loaded.net, {})
        await asyncio.wait_for(asyncio.shield(live.finished), 60)
        return live.state


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
        async with LocalNode(Settings(tmp_path / "home"), MemoryLog()) as node:
            with pytest.raises(error, match=r"out\.csv"):
                await node.results.read(state.ctx["csv_ref"])

    asyncio.run(go())


TEXTS = [
    {"zip": "01234", "day": "2024-01-02", "said": "true", "n": "1e3", "empty": "", "none": None, "i": 7, "f": 0.5, "b": True, "l": [1, "a"], "q": ' "x",\n '},
    {"zip": "00012", "day": "2024-01-03", "said": "false", "n": "12", "empty": "", "none": None, "i": 8, "f": 1.5, "b": False, "l": [], "q": "y"},
    {"zip": None, "day": "", "said": None, "n": "NULL", "empty": "", "none": None, "i": None, "f": None, "b": None, "l": None, "q": None},
]  # fmt: skip


@pytest.mark.parametrize(
    "target", ["path: out.csv", "path: 'out-{{ chunk.index }}.csv'", "path: out.csv, mode: append"]
)
@pytest.mark.parametrize("way", ["values", "lines", "query"])
def test_text_in_csv_is_not_taken_for_anything_else(tmp_path: Path, target: str, way: str) -> None:
    (tmp_path / "in.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, TEXTS)))
    sources = {
        "values": f"kind: data, data: {msgspec.json.encode(TEXTS).decode()}",
        "lines": "kind: file, path: in.ndjson",
        "query": f"kind: duckdb, query: \"FROM read_json('{tmp_path}/in.ndjson', columns={{{{COLUMNS}}}})\"",
    }
    columns = "zip: 'VARCHAR', day: 'VARCHAR', said: 'VARCHAR', n: 'VARCHAR', empty: 'VARCHAR', none: 'VARCHAR', i: 'BIGINT', f: 'DOUBLE', b: 'BOOLEAN', l: 'JSON', q: 'VARCHAR'"
    source = sources[way].replace("{{COLUMNS}}", "{" + columns + "}")
    playbook = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: csv}}
workflow:
- step: move
  tool:
  - {{name: write, kind: transfer, source: {{{source}}}, chunk: {{size: 2}}, targets: [{{kind: file, {target}}}]}}
  - {{name: read, kind: resolve, ref: "{{{{ _prev.targets[0].ref }}}}"}}
"""
    state = asyncio.run(run(tmp_path, playbook))
    assert state.error is None
    assert state.output == TEXTS
