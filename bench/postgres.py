"""Rows out of and into PostgreSQL by `transfer`, beside what is quickest at it, and how much memory that takes.

    python bench/postgres.py             2,000,000 rows of 8 columns; exit code 1 when a limit is broken
    python bench/postgres.py --rows N    fewer, for a try: no figure to believe

Rounds alternate; the best of each are compared. All are warm: a round of ours is a step of an execution whose first step moved one row
the same way, so that its data host runs and has imported what it needs; a round of the others is their program without the start of
Python, its imports, and mostly without its connections. What that first step took is printed below the figures. Peers are looked for
in `build/peers-*`, where `make bench` puts them; one that is not there is left out, and that is said. Memory is that of the engine and
its data host together, for the rows and for ten times as many.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from engine import HERE, Table, call

from noetl.services.servers import PostgresServer, S3Server

ROWS = 2_000_000
ROUNDS = 5
LEAST_COPY, LEAST_DLT, LEAST_FASTEST = 0.6, 3.0, 0.5
MOST_MB, MOST_GROWTH = 300.0, 1.25
BUILD = HERE.parent / "build"
COLUMNS = "id bigint, name text, city text, amount double precision, qty bigint, day date, flag boolean, note text"
MADE = (
    "INSERT INTO s SELECT n, 'name ' || n % 1000, 'city' || n % 77, n * 1.25, n % 13, date '2024-01-01' + (n % 365)::int, "
    "n % 2 = 0, 'note, ' || n % 100 FROM generate_series(0, {rows} - 1) n"
)
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bench}
keychain:
  - {name: src, kind: postgres_credential, from: {env: BENCH_SOURCE}}
  - {name: dst, kind: postgres_credential, from: {env: BENCH_TARGET}}
  - {name: lake, kind: s3_credential, from: {env: BENCH_LAKE}}
workload: {file: "", bucket: ""}
workflow:
"""
WARM = """\
  - step: warm
    tool:
      kind: transfer
      source: {kind: postgres, auth: src, query: "SELECT 1 AS n"}
      targets: [{kind: postgres, auth: dst, table: warm, mode: replace}]
    next: {arcs: [{step: move}]}
"""
TABLES = """\
  - step: move
    tool:
      kind: transfer
      source: {kind: postgres, auth: src, table: s}
      targets: [{kind: postgres, auth: dst, table: t}]
"""
RENAMED = TABLES.replace("table: t}", "table: renamed, mapping: {MAPPING}}").replace(
    "{MAPPING}",
    "{" + ", ".join(f'{one.split()[0]}_x: "{{{{ row.{one.split()[0]} }}}}"' for one in COLUMNS.split(", ")) + "}",
)
CSV = TABLES.replace("{kind: postgres, auth: src, table: s}", '{kind: file, path: "{{ workload.file }}"}')
TO_TABLE = "{kind: postgres, auth: dst, table: "
TO_OBJECT = '{kind: s3, auth: lake, bucket: "{{ workload.bucket }}", path: '
PARQUET = TABLES.replace(f"{TO_TABLE}t}}", f"{TO_OBJECT}ours.parquet}}")
WARM_PARQUET = WARM.replace(f"{TO_TABLE}warm, mode: replace}}", f"{TO_OBJECT}warm.parquet}}")


class Bench:
    """The servers, a table of so many rows, and the same as CSV."""

    def __init__(self, folder: Path, server: PostgresServer, store: S3Server, rows: int) -> None:
        self.folder, self.server, self.store, self.rows = folder, server, store, rows
        self.source, self.target = self._database(), self._database()
        #: what the first step of the last round took
        self.start_s = 0.0
        self.bucket = store.make_bucket(f"bench-{uuid.uuid4().hex[:8]}")
        self.csv = folder / f"{rows}.csv"
        self._do(self.source, f"CREATE TABLE s ({COLUMNS})", MADE.format(rows=rows), "ANALYZE s")
        self._export()

    def _database(self) -> str:
        name = f"b{uuid.uuid4().hex[:10]}"
        self._do(self.server.url(), f"CREATE DATABASE {name}")
        return self.server.url(name)

    def _do(self, url: str, *statements: str) -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _export(self) -> None:
        import psycopg

        with (
            psycopg.connect(self.source) as connection,
            connection.cursor().copy("COPY s TO STDOUT (FORMAT csv, HEADER)") as out,
            self.csv.open("wb") as file,
        ):
            for block in out:
                file.write(block)

    def fresh(self) -> None:
        """Empty tables to move to."""
        renamed = ", ".join(one.replace(" ", "_x ", 1) for one in COLUMNS.split(", "))
        self._do(
            self.target,
            "DROP TABLE IF EXISTS t, renamed, warm",
            f"CREATE TABLE t ({COLUMNS})",
            f"CREATE TABLE renamed ({renamed})",
            "CHECKPOINT",
        )

    def check(self, table: str) -> None:
        """See that each row has come once."""
        import psycopg

        key = "id_x" if table == "renamed" else "id"
        with psycopg.connect(self.target) as connection:
            query = f"SELECT count(*), sum({key})::bigint FROM {table}"
            found = connection.execute(query.encode()).fetchone()
        assert found == (self.rows, self.rows * (self.rows - 1) // 2), found

    def ours(self, playbook: str, table: str | None = "t") -> tuple[float, float]:
        """Rows a second, and MB of the engine and its data host."""
        self.fresh()
        file = self.folder / "bench.yaml"
        file.write_text(HEAD + (WARM_PARQUET if playbook is PARQUET else WARM) + playbook)
        at = self.store
        lake = {"endpoint": at.url, "region": "us-east-1", "access_key_id": at.access_key, "secret_access_key": at.secret_key}  # fmt: skip
        payload = json.dumps({"file": str(self.csv), "bucket": self.bucket})
        home = str(self.folder / uuid.uuid4().hex)
        environment = {"BENCH_SOURCE": self.source, "BENCH_TARGET": self.target, "BENCH_LAKE": json.dumps(lake)}
        command = [sys.executable, str(HERE / "peers" / "ours.py"), str(file), home, payload]
        with_start, engine, hosts, seconds = call(command, **environment)
        self.start_s = with_start - seconds
        if table is not None:
            self.check(table)
        return self.rows / seconds, engine + hosts

    def peer(self, script: str, *arguments: str, places: tuple[str, ...] = (), table: str | None = "t") -> float:
        """Rows a second of a peer."""
        self.fresh()
        search = os.pathsep.join(str(BUILD / place) for place in places)
        command = [sys.executable, str(HERE / "peers" / script), *arguments]
        seconds = call(command, **({"PYTHONPATH": search} if search else {}))[0]
        if table is not None:
            self.check(table)
        return self.rows / seconds

    @property
    def lake(self) -> tuple[str, ...]:
        """What peers are told of the object store."""
        return self.store.url, self.store.access_key, self.store.secret_key, self.bucket


def is_there(place: str, what: str) -> bool:
    """Whether a peer was installed; if not, say so."""
    found = (BUILD / place).is_dir()
    if not found:
        print(f"{what} is not in build/{place} and is left out: `make bench` puts it there")
    return found


def alternated(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The best of each, taken in turns."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [max(column) for column in zip(*taken, strict=True)]


def tables(bench: Bench, table: Table, rounds: int) -> None:
    """From one database to another."""
    mine, renamed, copy = alternated(
        rounds,
        lambda: bench.ours(TABLES)[0],
        lambda: bench.ours(RENAMED, "renamed")[0],
        lambda: bench.peer("pg_copy.py", "tables", bench.source, bench.target),
    )
    table.row("PostgreSQL to PostgreSQL", f"{mine:,.0f}/s", f"of COPY to COPY ({copy:,.0f}/s)", mine / copy, LEAST_COPY)
    table.row("  with other names", f"{renamed:,.0f}/s", f"of COPY to COPY ({copy:,.0f}/s)", renamed / copy, LEAST_COPY)
    print(f"    (a first step of one row, with the start of the data host: {bench.start_s:.2f} s)")
    if is_there("peers-dlt", "dlt"):
        folder = str(bench.folder / uuid.uuid4().hex)
        places = ("peers-dlt", "peers-adbc")  # dlt wants Arrow
        (other,) = alternated(1, lambda: bench.peer("pg_dlt.py", bench.source, bench.target, folder, places=places))
        table.row("PostgreSQL to PostgreSQL", f"{mine:,.0f}/s", f"of dlt ({other:,.0f}/s)", mine / other, LEAST_DLT)


def files(bench: Bench, table: Table, rounds: int) -> None:
    """From CSV, and to Parquet on S3, against the fastest of several."""
    with_duckdb, with_adbc = is_there("peers-duckdb", "DuckDB's own"), is_there("peers-adbc", "ADBC")
    csv: dict[str, Callable[[], float]] = {
        "COPY": lambda: bench.peer("pg_copy.py", "csv", str(bench.csv), bench.target)
    }
    parquet: dict[str, Callable[[], float]] = {}
    if with_duckdb:
        places = ("peers-duckdb",)
        csv["DuckDB"] = lambda: bench.peer("pg_duckdb.py", "csv", str(bench.csv), bench.target, places=places)
        parquet["DuckDB"] = lambda: bench.peer(
            "pg_duckdb.py", "s3", bench.source, *bench.lake, places=places, table=None
        )
    if with_adbc:
        arrow = ("peers-adbc",)
        csv["ADBC"] = lambda: bench.peer("pg_adbc.py", "csv", str(bench.csv), bench.target, places=arrow)
        parquet["ADBC"] = lambda: bench.peer("pg_adbc.py", "s3", bench.source, *bench.lake, places=arrow, table=None)
    for name, playbook, into, peers in (
        ("CSV to PostgreSQL", CSV, "t", csv),
        ("PostgreSQL to Parquet on S3", PARQUET, None, parquet),
    ):
        measure = lambda playbook=playbook, into=into: bench.ours(playbook, into)[0]  # noqa: E731
        mine, *others = alternated(rounds, measure, *peers.values())
        if not others:
            continue
        best, who = max(zip(others, peers, strict=True))
        all_of_them = ", ".join(f"{peer} {rate:,.0f}/s" for peer, rate in zip(peers, others, strict=True))
        table.row(name, f"{mine:,.0f}/s", f"of {who} ({best:,.0f}/s)", mine / best, LEAST_FASTEST)
        print(f"    ({all_of_them}; a first step of one row: {bench.start_s:.2f} s)")


def memory(bench: Bench, large: Bench, table: Table) -> None:
    """Megabytes at the peak, for the rows and for ten times as many."""
    for name, playbook, into in (
        ("PostgreSQL to PostgreSQL", TABLES, "t"),
        ("CSV to PostgreSQL", CSV, "t"),
        ("PostgreSQL to Parquet on S3", PARQUET, None),
    ):
        some, many = bench.ours(playbook, into)[1], large.ours(playbook, into)[1]
        table.row(f"{name}, memory", f"{some:,.0f} MB", f"of {MOST_MB:g} MB", some / MOST_MB, 1, most=True)
        table.row(
            "  of ten times the rows", f"{many:,.0f} MB", f"of {some:,.0f} MB", many / some, MOST_GROWTH, most=True
        )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    chosen = options.parse_args()
    rounds = ROUNDS if chosen.rows >= ROWS else 1
    table = Table()
    with (
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as name,
        PostgresServer(Path(name) / "postgres") as server,
        S3Server(Path(name) / "s3") as store,
    ):
        bench = Bench(Path(name), server, store, chosen.rows)
        tables(bench, table, rounds)
        files(bench, table, rounds)
        memory(bench, Bench(Path(name), server, store, 10 * chosen.rows), table)
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())
