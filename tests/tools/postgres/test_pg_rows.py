"""Large results of PostgreSQL: they go to a file, and memory stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from databases import Db

from noetl.model.output import NDJSON, Spilled

MANY = "SELECT n, 'text ' || n AS t, n / 3.0 AS price, now() AS at, n % 7 = 0 AS seventh FROM generate_series(1, {}) n"


async def test_rows_that_nobody_reads_are_left_in_a_file_with_their_types(db: Db) -> None:
    output = await db.task("SELECT n, n || 'x' AS t, n * 0.5 AS half, jsonb_build_object('n', n) AS doc FROM generate_series(1, 50000) n", spill=1 << 20)  # fmt: skip
    spilled = output["data"]
    assert isinstance(spilled, Spilled)
    assert (spilled.rows, spilled.content_type) == (50_000, NDJSON)
    assert spilled.columns == {"n": "BIGINT", "t": "VARCHAR", "half": "DOUBLE", "doc": "JSON"}
    assert output["pg"]["rowcount"] == 50_000
    with Path(spilled.path).open() as lines:
        rows = [json.loads(line) for line in lines]
    assert rows[41] == {"n": 42, "t": "42x", "half": 21, "doc": {"n": 42}}
    assert len(rows) == 50_000


async def test_what_changed_rows_yields_goes_to_a_file_as_well(db: Db) -> None:
    await db.rows("CREATE TABLE t (n int, v text)")
    query = "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n RETURNING n, v"
    output = await db.task(query, spill=1 << 20)
    assert isinstance(output["data"], Spilled)
    assert db.ask("SELECT count(*) FROM t") == [(20_000,)]


@pytest.mark.parametrize("spill", [None, 1 << 10])
async def test_more_than_the_limit_is_an_error_and_everything_is_undone(db: Db, spill: int | None) -> None:
    await db.rows("CREATE TABLE t (n int)")
    query = "INSERT INTO t SELECT generate_series(1, 100000) RETURNING n"
    found = await db.error(query, spec={"limits": {"output_bytes": 100_000}}, spill=spill)
    assert found["kind"] == "limit"
    assert "limits.output_bytes" in found["message"]
    assert db.ask("SELECT count(*) FROM t") == [(0,)]
    assert list((db.world.folder / ".drafts").glob("*")) == []


async def test_an_error_amid_the_rows_leaves_no_file(db: Db) -> None:
    query = "SELECT n, 1 / (n - 90000) AS v, repeat('x', 50) AS t FROM generate_series(1, 100000) n"
    found = await db.error(query, spill=1 << 20)
    assert found["code"] == "22012"
    assert list((db.world.folder / ".drafts").glob("*")) == []


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: many
keychain:
  - {name: db, kind: postgres_credential, from: {env: DATABASE}}
workload:
  rows: 1000
workflow:
  - step: start
    tool: {kind: postgres, auth: db, query: "%s"}
    set:
      ctx.rows_ref: "{{ output.ref }}"
"""
MEASURED = """
import re, sys
from noetl.cli.app import run
code = run(sys.argv[1:])
print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)
sys.exit(code)
"""


def run(folder: Path, db: Db, rows: int) -> tuple[dict[str, Any], int]:
    """The document of a run, and the most memory that it had, in megabytes."""
    (folder / "many.yaml").write_text(PLAYBOOK % MANY.format("{{ workload.rows }}"))
    environment = {**os.environ, "NOETL_HOME": str(folder / "home"), "DATABASE": db.database.url}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "run", "many.yaml", "--json", "--set", f"rows={rows}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["status"] == "completed", document
    return document, int(done.stderr.split()[-1]) // 1024


@pytest.mark.slow
def test_many_rows_are_stored_as_parquet_and_need_no_more_memory_than_few(db: Db, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    _, few = run(tmp_path, db, 20_000)
    document, many = run(tmp_path, db, 250_000)
    ref = document["ctx"]["rows_ref"]
    assert (ref["meta"]["rows"], ref["meta"]["content_type"]) == (250_000, "application/vnd.apache.parquet")
    assert many < few + 60
    path = str(tmp_path / "home" / "results" / ref["locator"]["path"])
    found = duckdb.execute("SELECT count(*), sum(n), max(t) FROM read_parquet($1)", [path]).fetchone()
    assert found == (250_000, 31_250_125_000, "text 99999")
