"""Pages of an API into PostgreSQL: by `transfer` beside a program written by hand, by a loop of tasks beside DBOS.

    python bench/http_to_postgres.py             1,000 pages of 100 records; exit code 1 when a limit is broken
    python bench/http_to_postgres.py --rows N    fewer, for a try: no figure to believe

Rounds alternate; the medians are compared. A round of ours is an execution in an engine that is up, its data host and its
connections included; of the others the program without the start of Python. DBOS is looked for in `build/peers`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from engine import HERE, PEERS, Table, call

from noetl.services.servers import PostgresServer

ROUNDS = 5
PER_PAGE = 100
ROWS = 100_000
#: what of it DBOS gets
PEER_PART = 5
LEAST_BY_HAND, LEAST_DBOS = 0.5, 5.0
TABLE = (
    "CREATE TABLE events (id bigint, name text, city text, amount double precision, day date, flag boolean, note text, "
    "qty bigint)"
)
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pages}
keychain:
  - {name: db, kind: postgres_credential, from: {env: BENCH_DATABASE}}
workload: {api: "", pages: []}
workflow:
"""
TRANSFER = """\
  - step: load
    tool:
      kind: transfer
      source: {kind: http, url: "{{ workload.api }}/pages", path: $.items, next: $.next}
      targets:
        - {kind: postgres, auth: db, table: events}
"""
LOOP = """\
  - step: load
    loop: {in: "{{ workload.pages }}", iterator: page, spec: {mode: parallel, max_in_flight: 16}}
    spec: {result: {inline_max_bytes: 1048576}}
    tool:
      - {name: fetch, kind: http, url: "{{ workload.api }}/pages", params: {page: "{{ iter.page }}"}}
      - name: store
        kind: postgres
        auth: db
        spec: {pool_size: 16}
        command: >
          INSERT INTO events
          SELECT * FROM jsonb_populate_recordset(NULL::events, {{ _prev['items'] }}::jsonb)
"""


class Bench:
    """The server of pages and the database."""

    def __init__(self, folder: Path, server: PostgresServer, api: str, pages: int) -> None:
        self.folder, self.server, self.api, self.pages = folder, server, api, pages

    def fresh(self) -> str:
        """A database with the table in it, and nothing else."""
        import psycopg

        name = f"b{uuid.uuid4().hex[:10]}"
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            connection.execute(TABLE.encode())
        return name

    def check(self, name: str, rows: int) -> None:
        """See that each row is there once."""
        import psycopg

        with psycopg.connect(self.server.url(name)) as connection:
            found = connection.execute("SELECT count(*), sum(id) FROM events").fetchone()
        assert found == (rows, rows * (rows - 1) // 2), found
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def ours(self, playbook: str, pages: int) -> float:
        """Records a second."""
        name = self.fresh()
        file = self.folder / "pages.yaml"
        file.write_text(HEAD + playbook)
        at = self.server
        credential = {"host": at.host, "port": at.port, "user": at.user, "password": at.password, "database": name}
        payload = json.dumps({"api": self.api, "pages": list(range(1, pages + 1))})
        home = self.folder / uuid.uuid4().hex
        command = [sys.executable, str(HERE / "peers" / "ours.py"), str(file), str(home), payload]
        seconds = call(command, BENCH_DATABASE=json.dumps(credential))[0]
        self.check(name, pages * PER_PAGE)
        return pages * PER_PAGE / seconds

    def by_hand(self) -> float:
        name = self.fresh()
        command = [sys.executable, str(HERE / "peers" / "pages_by_hand.py"), self.api, self.server.url(name)]
        seconds = call(command)[0]
        self.check(name, self.pages * PER_PAGE)
        return self.pages * PER_PAGE / seconds

    def dbos(self, pages: int) -> float:
        name, file = self.fresh(), self.folder / f"{uuid.uuid4().hex}.db"
        peer = str(HERE / "peers" / "dbos_pages.py")
        command = [sys.executable, peer, self.api, self.server.url(name), str(pages), str(file)]
        seconds = call(command, PYTHONPATH=str(PEERS))[0]
        self.check(name, pages * PER_PAGE)
        return pages * PER_PAGE / seconds


def measure(bench: Bench, rounds: int) -> bool:
    """Alternate, print a table, say whether every limit holds."""
    table = Table()
    taken = [(bench.ours(TRANSFER, bench.pages), bench.by_hand()) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*taken, strict=True))
    table.row("pages by transfer", f"{mine:,.0f}/s", f"of by hand ({other:,.0f}/s)", mine / other, LEAST_BY_HAND)
    if not (PEERS / "dbos").is_dir():
        print("DBOS is not in build/peers: `make bench` puts it there")
        return table.holds
    part = max(1, bench.pages // PEER_PART)
    taken = [(bench.ours(LOOP, bench.pages), bench.dbos(part)) for _ in range(min(3, rounds))]
    mine, other = (statistics.median(column) for column in zip(*taken, strict=True))
    table.row("a loop of http and postgres", f"{mine:,.0f}/s", f"of DBOS ({other:,.0f}/s)", mine / other, LEAST_DBOS)
    return table.holds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    chosen = options.parse_args()
    pages = max(1, chosen.rows // PER_PAGE)
    command = [sys.executable, str(HERE / "peers" / "pages_server.py"), str(pages), str(PER_PAGE)]
    with (
        tempfile.TemporaryDirectory() as name,
        PostgresServer(Path(name) / "postgres") as server,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving,
    ):
        assert serving.stdout is not None
        try:
            api = f"http://127.0.0.1:{int(serving.stdout.readline())}"
            holds = measure(Bench(Path(name), server, api, pages), ROUNDS if chosen.rows >= ROWS else 1)
        finally:
            serving.kill()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
