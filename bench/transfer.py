"""CSV to DuckDB by kind: transfer, as a ratio to DuckDB's own COPY; and how much memory it takes, for ten times as much too.

    python bench/transfer.py    a table; exit code 1 when a limit is broken

Rounds alternate; the best of each are compared. Both are warm: COPY is timed in a process that has opened its database, transfer in
an execution that has moved a row to another database before, so that its data host runs and has DuckDB at hand. Memory is the most that the host ever had, and what the engine's process has grown by.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from noetl.drivers.datahost.pool import DataHosts
from noetl.ports import Call
from noetl.tools import transfer

ROWS = 1_000_000
ROUNDS = 5
LEAST_RATIO = 0.4
MOST_MB = 250
#: how much more ten times the rows may take
MOST_GROWTH = 1.25
TABLE = "CREATE TABLE t (id BIGINT, name VARCHAR, city VARCHAR, amount DOUBLE, qty BIGINT, day DATE, flag BOOLEAN, note VARCHAR)"
MADE = (
    "COPY (SELECT range AS id, 'name ' || range % 1000 AS name, 'city' || range % 77 AS city, range * 1.25 AS amount, "
    "range % 13 AS qty, DATE '2024-01-01' + (range % 365)::INT AS day, range % 2 = 0 AS flag, "
    "'note, ' || range % 100 AS note FROM range({rows})) TO '{path}' (HEADER)"
)
COPY = """
import duckdb, sys, time
connection = duckdb.connect(sys.argv[2])
connection.execute("SET enable_progress_bar = false")
connection.execute(sys.argv[3])
started = time.perf_counter()
connection.execute(f"COPY t FROM '{sys.argv[1]}' (HEADER)")
connection.close()
print(time.perf_counter() - started)
"""


class World:
    """Just what the tool asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: Mapping[str, str] = {}
        self.kept: dict[str, tuple[Any, Callable[[Any], Awaitable[None]]]] = {}

    async def resource(
        self, name: str, make: Callable[[], Awaitable[Any]], close: Callable[[Any], Awaitable[None]]
    ) -> Any:
        if name not in self.kept:
            self.kept[name] = await make(), close
        return self.kept[name][0]

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        return dict(reference)

    def draft(self, suffix: str) -> Path:
        return self.folder / f"{uuid.uuid4().hex}{suffix}"

    async def progress(self, call: Call, said: Mapping[str, Any]) -> None:
        assert call.kind == "transfer"
        assert said["rows"] >= 0

    def log(self, call: Call, stream: str, text: str) -> None:
        raise AssertionError(f"{call.kind} {stream}: {text}")

    async def close(self) -> None:
        for made, close in self.kept.values():
            await close(made)


def peak(pid: int | str) -> float:
    """The most memory that a process ever had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def moved(folder: Path, csv: Path, rows: int) -> tuple[float, float]:
    """Seconds of a transfer, and MB of its host."""
    import duckdb

    file = folder / f"{uuid.uuid4().hex}.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(TABLE)
    world = World(folder)
    config = {
        "source": {"kind": "file", "path": str(csv)},
        "targets": [{"kind": "duckdb", "file": str(file), "table": "t"}],
    }
    call = Call("transfer", "e", "s", "t", config, {}, {}, {}, uuid.uuid4().hex, 1, {})
    other = {"kind": "duckdb", "file": str(folder / "warm.duckdb"), "table": "t", "mode": "replace"}
    warm = {"source": {"kind": "data", "data": [{"n": 1}]}, "targets": [other]}
    await transfer.run(Call("transfer", "e", "s", "t", warm, {}, {}, {}, uuid.uuid4().hex, 1, {}), world)
    started = time.perf_counter()
    output = await transfer.run(call, world)
    took = time.perf_counter() - started
    assert output["error"] is None, output["error"]
    async with (await DataHosts.of(world)).lease(shared=True, spec={}) as host:
        _, pid = host.child.identity
        memory = peak(pid or "self")
    await world.close()
    with duckdb.connect(str(file), read_only=True) as connection:
        found = connection.execute("SELECT count(*), sum(id) FROM t").fetchone()
    assert found == (rows, rows * (rows - 1) // 2), found
    file.unlink()
    return took, memory


def copied(folder: Path, csv: Path) -> float:
    """Seconds of COPY."""
    file = folder / "copied.duckdb"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-c", COPY, str(csv), str(file), TABLE]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    import duckdb

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv, large = folder / "in.csv", folder / "large.csv"
        duckdb.connect().execute(MADE.format(rows=ROWS, path=csv))
        duckdb.connect().execute(MADE.format(rows=10 * ROWS, path=large))
        before = peak("self")
        rounds = [(copied(folder, csv), *asyncio.run(moved(folder, csv, ROWS))) for _ in range(ROUNDS)]
        copy, took = (min(round_[at] for round_ in rounds) for at in range(2))
        memory = max(round_[2] for round_ in rounds)
        long, more = asyncio.run(moved(folder, large, 10 * ROWS))
        grown = peak("self") - before
    ratio = copy / took
    print(f"COPY                     {ROWS / copy:12,.0f} rows/s")
    print(f"transfer                 {ROWS / took:12,.0f} rows/s   {ratio:.2f} of COPY (at least {LEAST_RATIO})")
    print(f"transfer, ten times      {10 * ROWS / long:12,.0f} rows/s")
    print(
        f"memory of the host       {memory:9.0f} MB, ten times {more:.0f} MB (at most {MOST_MB}, and {MOST_GROWTH} times)"
    )
    print(f"the engine grew by       {grown:9.0f} MB")
    return int(ratio < LEAST_RATIO or more + grown > MOST_MB or more > memory * MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
