"""The pages about data do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkServer
from servers import Bucket, Database

from noetl.config import Settings
from noetl.secrets.keychain import open_store

pytest.importorskip("duckdb")
pytestmark = pytest.mark.usefixtures("forkserver")

PAGES = Path(__file__).parents[2] / "docs" / "howto"
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def output(folder: Path, page: str, number: int = 0, **variables: str) -> Any:
    """What a playbook of a page yields, the first if none is named."""
    found = FENCE.findall((PAGES / page).read_text(encoding="utf-8"))
    (folder / "playbook.yaml").write_text(found[number])
    environment = {**os.environ, "NOETL_HOME": str(folder / "home"), **variables}
    done = ForkServer.shared.run("run", "playbook.yaml", "--json", cwd=folder, env=environment)
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document["error"]
    return document["output"]


def test_the_query_of_the_page_about_duckdb(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("item,amount\ntea,12\ntea,30\nmilk,5\nrice,40\nit's nothing,99\n")
    assert output(tmp_path, "query-with-duckdb.md") == [{"item": "rice", "total": 40}, {"item": "tea", "total": 42}]


def test_the_transfer_of_the_page_about_moving_data(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,full_name\n1,ada\n2,grace\n3,edsger\n")
    assert output(tmp_path, "move-data.md")[2] == {"id": 3, "name": "edsger", "initial": "E"}
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["0.parquet", "1.parquet"]


def test_the_transfer_of_the_page_about_object_stores_with_its_results_in_the_same_bucket(
    tmp_path: Path, bucket: Bucket
) -> None:
    given = {**bucket.credential, "bucket": bucket.name}
    for name in ("lake", "results"):
        open_store(Settings(tmp_path / "home"), time.time).add(name, "s3_credential", given)
    (bucket.folder / "incoming").mkdir()
    (bucket.folder / "incoming" / "orders.csv").write_text("id,item\n1,tea\n2,milk\n3,rice\n")
    found = output(tmp_path, "object-stores.md", NOETL_RESULTS=f"s3://{bucket.name}/noetl")
    assert found == [{"id": 2, "item": "milk"}, {"id": 3, "item": "rice"}]
    assert len(list(bucket.folder.glob("orders/*/*.parquet"))) == 2
    assert json.loads((bucket.folder / "orders" / "latest.json").read_text())[0] == {"id": 1, "item": "tea"}


def test_the_orders_of_the_page_about_postgres(tmp_path: Path, database: Database) -> None:
    (row,) = output(tmp_path, "use-postgres.md", SHOP_DB=database.url)
    assert row == {
        "customer": "O'Neil",
        "total": 12.5,
        "day": "2024-02-29",
        "tags": ["new", "gift"],
        "details": {"pack": "small"},
    }


def test_the_transfer_between_tables_of_the_page_about_moving_data(tmp_path: Path, database: Database) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, customer text, total numeric(10, 2), placed date)")
        connection.execute(
            "INSERT INTO orders SELECT n, 'customer ' || n, n * 1.1, date '2024-02-20' + n FROM generate_series(1, 20) n"
        )
        for _ in range(2):
            told = output(tmp_path, "move-data.md", 1, SHOP_DB=database.url)
            assert told["rows"] == 11
        found = connection.execute("SELECT order_id, customer, total::text, run <> '' FROM report.orders ORDER BY 1")
        assert found.fetchall() == [(n, f"customer {n}", f"{n * 1.1:.2f}", True) for n in range(10, 21)]
    import duckdb

    query = "SELECT count(*), sum(total), min(placed)::text FROM 'orders.parquet'".replace(
        "orders", f"{tmp_path}/orders"
    )
    assert [str(one) for one in duckdb.sql(query).fetchall()[0]] == ["11", "181.50", "2024-03-01"]


def test_the_pages_of_the_page_about_pages(tmp_path: Path) -> None:
    """As the page has it, against the shop, which is busy the first time that somebody wants a second page."""
    found = FENCE.search((PAGES / "read-pages.md").read_text(encoding="utf-8"))
    assert found is not None
    (tmp_path / "orders.yaml").write_text(found[1])
    runners = str(PAGES.parents[1] / "examples" / "shop.py")
    run = [sys.executable, "-m", "noetl", "run", "orders.yaml", "--json", "--set", "api_url={url}"]
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, runners, *run], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document["error"]
    assert document["output"]["rows"] == 100
    assert len((tmp_path / "orders.csv").read_text().splitlines()) == 101
