"""The documents' larger examples in their old spelling, against real PostgreSQL and S3: as they stand and migrated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from both_ways import Outcome, Scene, migrated, perform
from servers import Bucket, Database

duckdb = pytest.importorskip("duckdb")
FOLDER = Path(__file__).parents[2] / "examples" / "legacy"


@dataclass
class Example:
    """What stands around an example, and what is there afterwards."""

    #: what makes the tables that it reads
    tables: str = ""
    routes: list[dict[str, Any]] = field(default_factory=list)
    #: query → the rows it finds in PostgreSQL
    rows: dict[str, list[Any]] = field(default_factory=dict)
    #: table of lake.duckdb → how many rows it has
    lake: dict[str, int] = field(default_factory=dict)
    #: object → how many rows it has
    objects: dict[str, int] = field(default_factory=dict)
    output: Any = ...


EXAMPLES = {
    "api-to-two-sinks": Example(
        routes=[{"path": "/large_dataset", "reply": {"json": {"data": {"items": [{"id": n} for n in range(150)]}}}}],
        rows={"SELECT count(*), sum(id)::int FROM api_cache": [(150, 11_175)]},
        objects={"backups/chunk_0.parquet": 100, "backups/chunk_1.parquet": 50},
    ),
    "loop-and-collect": Example(
        "CREATE TABLE activity_logs AS SELECT n AS id, 1 + n % 2 AS user_id FROM generate_series(1, 1300) n",
        lake={"user_activity_1": 650, "user_activity_2": 650},
        output={"users_processed": 2, "rows": 1300},
    ),
    "one-database-to-three": Example(
        "CREATE TABLE large_table AS SELECT n AS id, 'n' || n AS full_name, date '2024-02-01' AS created_at "
        "FROM generate_series(1, 1500) n",
        rows={"SELECT count(*), max(name), max(created)::text FROM replicated_table": [(1500, "n999", "2024-02-01")]},
        lake={"analytics.facts": 1500},
        objects={"archives/chunk_0.parquet": 1000, "archives/chunk_1.parquet": 500},
    ),
    "enrich-and-upsert": Example(
        "CREATE TABLE enriched_users (user_id int PRIMARY KEY, enrichment_data text); "
        "INSERT INTO enriched_users VALUES (1, '{}')",
        routes=[
            {"path": "/users", "reply": {"json": {"data": [{"id": n} for n in range(1, 6)]}}},
            {"method": "POST", "path": "/enrich", "reply": {"json": {"credit_score": 5}}},
        ],
        rows={"SELECT user_id, enrichment_data::json ->> 'credit_score' FROM enriched_users ORDER BY 1": [
            (n, "5") for n in range(1, 6)
        ]},
        output=5,
    ),
    "pages-by-endpoint": Example(
        "CREATE TABLE results_ok (endpoint text, page int); CREATE TABLE results_not_found (endpoint text)",
        routes=[
            {"path": "/users", "query": {"page": 1},
             "replies": [{"status": 503, "json": {}}, {"json": {"data": [1], "paging": {"hasMore": True}}}]},
            {"path": "/users", "query": {"page": 2}, "reply": {"json": {"data": [2], "paging": {"hasMore": False}}}},
        ],
        rows={"SELECT * FROM results_ok ORDER BY page": [("/users", 1), ("/users", 2)],
              "SELECT * FROM results_not_found": [("/none",)]},
        output=[{"pages": 2, "missing": 1}],
    ),
}  # fmt: skip


class Stage:
    """A database and a bucket, swept before each run."""

    def __init__(self, example: Example, database: Database, bucket: Bucket) -> None:
        self.example, self.database, self.bucket = example, database, bucket

    def run(self, text: str, folder: Path, *flags: str) -> Outcome:
        self._sweep()
        url = self.database.url
        lake = json.dumps({**self.bucket.credential, "bucket": self.bucket.name})
        environment = {"WAREHOUSE": url, "SHOP_DB": url, "LAKE": lake}
        found = perform(text, folder, Scene(self.example.routes, payload={"folder": "."}, env=environment), *flags)
        assert found.status == "completed", found.error
        self._check(folder / "work")
        return found

    def _sweep(self) -> None:
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
            if self.example.tables:
                connection.execute(self.example.tables.encode())
        for path in self.bucket.folder.rglob("*.parquet"):
            path.unlink()

    def _check(self, work: Path) -> None:
        with psycopg.connect(self.database.url) as connection:
            for query, expected in self.example.rows.items():
                assert connection.execute(query.encode()).fetchall() == expected
        if self.example.lake:
            with duckdb.connect(str(work / "lake.duckdb"), read_only=True) as connection:
                for table, count in self.example.lake.items():
                    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
        for name, count in self.example.objects.items():
            query = "SELECT count(*) FROM read_parquet($1)"
            assert duckdb.connect().execute(query, [str(self.bucket.folder / name)]).fetchone() == (count,)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_older_example_does_the_same_on_real_servers_as_it_stands_and_migrated(
    name: str, tmp_path: Path, database: Database, bucket: Bucket
) -> None:
    example = EXAMPLES[name]
    stage = Stage(example, database, bucket)
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").replace("delay: 1", "delay: 0.01")
    old = stage.run(text, tmp_path / "old", "--legacy")
    new = stage.run(migrated(text, tmp_path), tmp_path / "new")
    if example.output is not ...:
        assert old.output == example.output
        assert new.output == old.output
    assert new.requests == old.requests
    assert new.files == old.files
    assert new.steps == old.steps
