"""What it costs to keep large results: documents and rows of 100 MB, and loops over references.

    python bench/results.py              a table; exit code 1 when a limit is broken
    python bench/results.py --million    also a loop over 1,000,000 rows (minutes)

Each is measured in turns with what has to be done in any case: the same bytes made, written and hashed, without
compressing them. What compresses badly (random words) is shown beside what interfaces answer, and has no limit.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))

import msgspec  # noqa: E402

from noetl.config import Settings  # noqa: E402
from noetl.model.output import JSON, Spilled  # noqa: E402
from noetl.results.backend_addresses import open_payloads  # noqa: E402
from noetl.rows.columns import row_shape  # noqa: E402

BYTES = 100_000_000
ROUNDS = 5
MOST_RATIO = 1.3
#: of a run that loops over ten times as many rows
MOST_GROWTH_MB = 60
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rows}
workload: {rows: 0}
workflow:
- step: make
  tool: {kind: python, input: {n: "{{ workload.rows }}"}, code: "def main(n): return [{'id': i, 'text': 'row number %d' % i} for i in range(n)]"}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: each}]}
- {step: each, loop: {in: "{{ ctx.rows_ref }}", iterator: row, spec: {mode: parallel}}, tool: {kind: noop, input: {n: "{{ iter.row.id }}"}}}
"""
MEASURED = """
import pathlib, sys
from noetl.__main__ import main
code = main()
sys.stdout.flush()
print(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""


# --- data --------------------------------------------------------------------------------------------------------------


def answers() -> Any:
    """What an interface answers: maps with the same keys, identifiers, times, addresses, a few texts."""
    chance = random.Random(1)
    titles = [
        "Fix the build",
        "Add a page on references",
        "It hangs after a restart",
        "Release notes",
        "Say it in one place",
    ]
    items = []
    size = 0
    while size < BYTES:
        number = len(items)
        one = {
            "id": 9_000_000 + number,
            "url": f"https://api.example.com/projects/{number % 97}/issues/{number}",
            "title": chance.choice(titles),
            "state": chance.choice(["open", "closed"]),
            "created_at": f"2026-03-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:11Z",
            "comments": number % 13,
            "user": {"login": f"user{number % 301}", "id": number % 301, "site_admin": False},
            "labels": [{"name": "bug", "color": "d73a4a"}, {"name": "docs", "color": "0075ca"}][: number % 3],
            "score": chance.random(),
        }
        items.append(one)
        size += 330
    return {"total": len(items), "items": items}


def words() -> Any:
    """Random words and numbers: little in it repeats."""
    chance = random.Random(2)
    known = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(5_000)]
    return {
        "items": [
            {"id": n, "text": " ".join(chance.choices(known, k=14)), "v": chance.random()} for n in range(BYTES // 135)
        ]
    }


def table() -> Any:
    """Rows with five columns."""
    chance = random.Random(3)
    return [
        {
            "id": n,
            "name": f"customer {n}",
            "city": f"city {n % 400}",
            "amount": chance.random() * 1000,
            "ok": n % 3 == 0,
        }
        for n in range(BYTES // 88)
    ]


# --- measuring ---------------------------------------------------------------------------------------------------------


class Bench:
    """A store, and what it is measured against, in one folder."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.folder = folder
        self.sync = sync
        self.store = open_payloads(Settings(folder, "power" if sync else "process"), {}.get, time.time)

    def peer(self, blocks: Iterator[bytes]) -> None:
        """Write and hash."""
        digest = hashlib.sha256()
        with (self.folder / "peer").open("wb") as file:
            for block in blocks:
                digest.update(block)
                file.write(block)
            file.flush()
            if self.sync:
                os.fsync(file.fileno())

    def value(self, value: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """A value in hand: ours, and theirs."""

        def theirs() -> None:
            view = memoryview(msgspec.json.encode(value))
            self.peer(view[start : start + (1 << 20)] for start in range(0, len(view), 1 << 20))

        return lambda: asyncio.run(self.store.keep("bench", value)), theirs

    def file(self, value: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """What a tool has left in a file."""
        source = self.folder / "source.json"
        source.write_bytes(msgspec.json.encode(value))
        rows = len(value) if isinstance(value, list) else None
        columns = row_shape(value)

        def ours() -> None:
            # Another name for the same file: it is taken away, not copied.
            draft = self.store.draft(".json")
            os.link(source, draft)
            asyncio.run(self.store.keep("bench", Spilled(str(draft), JSON, rows, columns)))

        def theirs() -> None:
            with source.open("rb") as file:
                self.peer(iter(lambda: file.read(1 << 20), b""))

        return ours, theirs


def seconds(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], limit: float | None) -> bool:
    """Medians of both, taken in turns; whether the limit holds."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS + 1)][1:]
    mine, other = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratio = statistics.median(one / two for one, two in pairs)
    kept = limit is None or ratio <= limit
    said = "" if limit is None else f", limit {limit:g}×  {'ok' if kept else 'BROKEN'}"
    print(f"{name:52} {mine * 1e3:7.0f} ms  {ratio:5.2f}× of {other * 1e3:.0f} ms{said}", flush=True)
    return kept


def documents(folder: Path) -> bool:
    kept = True
    data = {
        "answers of an interface": (answers(), MOST_RATIO),
        "random words": (words(), None),
        "rows, as Parquet": (table(), None),
    }
    for durability in ("process", "power"):
        for name, (value, limit) in data.items():
            bench = Bench(folder / durability, sync=durability == "power")
            bench.folder.mkdir(exist_ok=True)
            kept &= compare(f"{name}, in memory, {durability}", *bench.value(value), limit)
            kept &= compare(f"{name}, in a file, {durability}", *bench.file(value), limit)
            shutil.rmtree(bench.folder)
    return kept


def loop(folder: Path, rows: int) -> tuple[float, float]:
    """Iterations a second, and megabytes at the peak, of a run over so many rows."""
    file = folder / "rows.yaml"
    file.write_text(PLAYBOOK)
    home = folder / f"home-{rows}"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "run", str(file), "--json", "--set", f"rows={rows}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NOETL_HOME": str(home), "PYTHONPATH": str(SOURCES)},
    )
    shutil.rmtree(home)
    took = json.loads(done.stdout)["duration_ms"] / 1000
    return rows / took, int(done.stderr.split()[-1]) / 1024


def loops(folder: Path, *, million: bool) -> bool:
    rate, few = loop(folder, 10_000)
    _, many = loop(folder, 100_000)
    kept = many - few <= MOST_GROWTH_MB
    print(f"loop over 10,000 rows of a reference: {rate:,.0f}/s, {few:.0f} MB; over 100,000: {many - few:.0f} MB more, limit {MOST_GROWTH_MB} MB  {'ok' if kept else 'BROKEN'}")  # fmt: skip
    if million:
        rate, peak = loop(folder, 1_000_000)
        print(f"loop over 1,000,000 rows of a reference: {rate:,.0f}/s, {peak:.0f} MB")
    return kept


def main() -> int:
    """Measure, print, say whether the limits hold."""
    options = argparse.ArgumentParser()
    options.add_argument("--million", action="store_true")
    options.add_argument("--only", choices=["documents", "loops"])
    chosen = options.parse_args()
    kept = True
    with tempfile.TemporaryDirectory() as name:
        if chosen.only != "loops":
            kept &= documents(Path(name))
        if chosen.only != "documents":
            kept &= loops(Path(name), million=chosen.million)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
