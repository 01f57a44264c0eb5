"""The examples do what they say: each is run as people run it, against the shop that comes with them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkServer
from servers import Bucket, Database

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
#: what a test below runs; a new example belongs here
RUN = {
    "api-to-two-sinks",
    "approval",
    "batch-over-files",
    "child-playbook",
    "choose-and-while",
    "crawl",
    "credentials",
    "csv-to-lake",
    "enrich-and-upsert",
    "fan-out-and-join",
    "health-checks",
    "hello",
    "large-results",
    "loop-and-collect",
    "nested-loop",
    "nightly-etl",
    "nightly-sync",
    "one-database-to-three",
    "orders-in-postgres",
    "pages-by-endpoint",
    "pages-to-duckdb",
    "paginated-api",
    "plan-of-jobs",
    "saga",
}


def _shop_module() -> Any:
    spec = importlib.util.spec_from_file_location("shop", EXAMPLES / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def runners() -> Iterator[Any]:
    """The shop, open."""
    opened = _shop_module().Shop()
    serving = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    yield opened
    opened.shutdown()
    serving.join()
    opened.server_close()


class Home:
    """A home of noetl, empty at first."""

    def __init__(self, folder: Path, forkserver: ForkServer) -> None:
        self.forkserver = forkserver
        self.environment = {**os.environ, "NOETL_HOME": str(folder), "PYTHONPATH": str(ROOT / "src")}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "noetl", *arguments]

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.forkserver.run(*arguments, cwd=Path.cwd(), env=self.environment)

    def arguments(self, example: str, **given: Any) -> list[str]:
        settings = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        return ["run", str(EXAMPLES / f"{example}.yaml"), "--json", *settings]

    def run(self, example: str, **given: Any) -> dict[str, Any]:
        """The document of a run that is over."""
        return self.ended(self.call(*self.arguments(example, **given)).stdout)

    def ended(self, printed: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(printed)
        assert self.call("fsck").returncode == 0
        return document


@pytest.fixture
def home(tmp_path: Path, forkserver: ForkServer) -> Home:
    return Home(tmp_path / "home", forkserver)


def output(document: dict[str, Any]) -> Any:
    assert document["status"] == "completed", document["error"]
    return document["output"]


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == RUN


def test_hello(home: Home) -> None:
    assert output(home.run("hello", name="Grace")) == "Hello, Grace!"


def test_a_child_playbook_and_a_workbook_task(home: Home) -> None:
    assert output(home.run("child-playbook")) == ["Hello, Ada!", "Hello, Grace!", "Hello, Edsger!"]


def test_the_nightly_sync_gets_every_page_once_and_asks_again_for_those_it_did_not_get(
    home: Home, runners: Any, tmp_path: Path
) -> None:
    found = output(home.run("nightly-sync", api_url=runners.url, folder=tmp_path / "out"))
    assert (found["rows"], found["pages"]) == (300, 15)
    assert found["resources"][0] == {"resource": "orders", "pages": 5, "rows": 100}
    asked = [path for _, path, _, _ in runners.requests]
    assert asked.count("/orders?page=2") == 2  # the first answer was 503
    assert len(asked) == 18
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.ndjson"))
    assert len(files) == 15
    assert "orders/page_5.ndjson" in files


def test_the_nightly_sync_tells_somebody_when_it_fails(home: Home, runners: Any, tmp_path: Path) -> None:
    resources = '["orders", "invoices"]'
    found = home.run("nightly-sync", api_url=runners.url, folder=tmp_path / "out", resources=resources)
    assert found["status"] == "failed"
    method, path, _, body = runners.requests[-1]
    assert (method, path) == ("POST", "/chat")
    assert "page 1 of invoices" in body["text"]


def test_fan_out_and_join(home: Home, runners: Any) -> None:
    found = home.run("fan-out-and-join", api_url=runners.url)
    assert output(found) == {"name": "Ada", "orders": 2, "spent": 42}
    assert found["steps"]["profile"]["runs"] == 1


def test_jobs_that_are_given_as_data_become_steps(home: Home) -> None:
    found = home.run("plan-of-jobs")
    assert output(found) == {"fetch": "3 1 2", "sort": "sorted", "count": "counted", "report": "reported"}
    assert found["steps"]["job_report"] == {"status": "done", "runs": 1}


def test_a_plan_of_jobs_that_need_what_is_not_there_is_refused(home: Home) -> None:
    found = home.run("plan-of-jobs", **{"jobs.x": '{"cmd": "echo x", "needs": ["y"]}'})
    assert "step `job_y` has no arc to `job_x`" in output(found)
    assert set(found["steps"]) == {"plan", "refused"}


def test_large_results_travel_by_reference(home: Home) -> None:
    found = home.run("large-results", readings="2000")
    assert output(found) == {"readings": 2000, "odd": 7, "sample": [0, 1, 2]}
    rows = json.loads(home.call("result", "last", "measure", "--range", "5:6").stdout)
    assert rows[0]["at"] == 5


def test_nested_loops_with_reducers(home: Home, runners: Any) -> None:
    assert output(home.run("nested-loop", api_url=runners.url)) == {"free": 10, "full": ["harbour"]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"approved": True, "by": "ann"}, {"paid": True}),
        ({"approved": False, "by": "bob"}, {"paid": False, "why": "refused by bob"}),
    ],
    ids=["yes", "no"],
)
def test_an_approval_waits_for_its_signal(home: Home, runners: Any, answer: Any, expected: Any) -> None:
    command = home.command(*home.arguments("approval", api_url=runners.url))
    with subprocess.Popen(command, env=home.environment, stdout=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 120
        while not runners.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        sent = home.call("signal", "last", "decision", json.dumps(answer))
        assert sent.returncode == 0, sent.stderr
        printed, _ = running.communicate(timeout=120)
    assert output(home.ended(printed)) == expected
    paid = [key for method, path, key, _ in runners.requests if path.endswith("/pay")]
    assert len(paid) == answer["approved"]
    assert all(paid)  # each had an idempotency key


def test_an_approval_that_nobody_gives_in_time(home: Home, runners: Any) -> None:
    found = output(home.run("approval", api_url=runners.url, patience=0.1))
    assert found == {"paid": False, "why": "nobody answered in time"}


def test_a_small_refund_needs_no_approval(home: Home, runners: Any) -> None:
    assert output(home.run("approval", api_url=runners.url, amount=20)) == {"paid": True}
    assert [path for _, path, _, _ in runners.requests] == ["/refunds/R-1001/pay"]


def test_a_batch_over_files_leaves_out_what_cannot_be_read(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in {"a": "amount\n1\n2.5\n", "b": "price\n3\n", "c": "amount\n10\n"}.items():
        (folder / f"{name}.csv").write_text(text)
    found = output(home.run("batch-over-files", folder=folder))
    assert found == {"files": 3, "total": 13.5, "unreadable": [str(folder / "b.csv")]}
    assert "c.csv: 1 rows" in home.call("logs", "last").stdout


def test_a_batch_over_no_files(home: Home, tmp_path: Path) -> None:
    assert output(home.run("batch-over-files", folder=tmp_path)) == {"files": 0, "total": 0, "unreadable": []}


def test_health_checks_tell_of_what_failed(home: Home, runners: Any) -> None:
    checks = json.dumps([{"name": "good", "cmd": "true"}, {"name": "bad", "cmd": "echo it\\'s out >&2; exit 3"}])
    found = output(home.run("health-checks", api_url=runners.url, checks=checks))
    assert [one["name"] for one in found["problems"]] == ["bad"]
    assert "it's out" in found["problems"][0]["problem"]
    assert runners.requests[-1][3] == {"text": "1 of 2 checks failed: bad"}


def test_health_checks_of_a_machine_that_is_well(home: Home, runners: Any) -> None:
    assert output(home.run("health-checks", checks='[{"name": "good", "cmd": "true"}]')) == {
        "checks": 1,
        "problems": [],
    }


def test_a_saga_that_goes_well(home: Home, runners: Any) -> None:
    assert output(home.run("saga", api_url=runners.url)) == {"booked": ["flight", "hotel", "car"]}


def test_a_saga_undoes_the_last_first_and_has_failed(home: Home, runners: Any) -> None:
    found = home.run("saga", api_url=runners.url, people=5)
    assert found["status"] == "failed"
    assert found["ctx"]["trip"] == "failed"
    assert found["error"]["step"] == "start"
    undone = [path for method, path, _, _ in runners.requests if method == "DELETE"]
    assert undone == ["/bookings/hotel", "/bookings/flight"]


def test_polling_until_something_is_ready(home: Home, runners: Any) -> None:
    found = output(home.run("choose-and-while", api_url=runners.url, every=0.01))
    assert found == {"file": "export-sales.csv", "rows": 17}
    assert [path for _, path, _, _ in runners.requests].count("/exports/export-sales") == 3


def test_polling_gives_up(home: Home, runners: Any) -> None:
    found = home.run("choose-and-while", api_url=runners.url, every=0.01, polls=2)
    assert found["status"] == "failed"
    assert "not ready after 2 polls" in found["error"]["message"]


def test_a_crawl_visits_every_page_once_with_pauses(home: Home, runners: Any) -> None:
    found = home.run("crawl", api_url=runners.url, pause=0.02)
    assert output(found) == {"pages": 8, "broken": ["archive"]}
    asked = [path for _, path, _, _ in runners.requests]
    assert len(asked) == len(set(asked)) == 8
    assert found["duration_ms"] >= 8 * 20


def test_credentials_are_used_by_a_loop_with_one_token_and_written_nowhere(
    home: Home, runners: Any, tmp_path: Path
) -> None:
    found = home.run("credentials", api_url=runners.url)
    assert (found["status"], found["error"]["kind"]) == ("failed", "credential")
    home.environment["SHOP_CLIENT_SECRET"] = "open-sesame"
    assert output(home.run("credentials", api_url=runners.url)) == {"total": 306}
    assert runners.tokens == 1
    recorded = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"open-sesame" not in recorded
    assert b"token-of-the-shop" not in recorded


def test_the_shop_serves_a_command_and_closes() -> None:
    command = [sys.executable, str(EXAMPLES / "shop.py"), sys.executable, "-c"]
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1] + '/site/team').status); sys.exit(3)"
    done = subprocess.run([*command, code, "{url}"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("200", 3)


def test_a_csv_file_into_duckdb_and_parquet(home: Home, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    file, lake = tmp_path / "orders.csv", tmp_path / "lake"
    rows = [f"{n},customer {n % 7},{n}.5" for n in range(250)]
    file.write_text("order_id,customer,amount\n" + "\n".join(rows) + "\n")
    for _ in range(2):  # the second time nothing is doubled
        found = output(home.run("csv-to-lake", file=file, lake=lake, chunk_rows=100))
        assert found["rows"] == 250
        assert [one["orders"] for one in found["best"]] == [36, 36, 36]
    assert sorted(path.name for path in lake.glob("*.parquet")) == [f"orders_{n}.parquet" for n in range(3)]
    count = duckdb.connect().execute(f"SELECT count(*) FROM '{lake}/*.parquet'").fetchone()
    assert count == (250,)


def test_pages_of_an_api_into_a_table(home: Home, runners: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    found = home.run("pages-to-duckdb", api_url=runners.url, database=tmp_path / "shop.duckdb")
    assert output(found) == {"moved": 100, "orders": 100}
    assert [path for _, path, _, _ in runners.requests].count("/orders?page=2") == 2


def test_pages_of_an_api_into_postgres(home: Home, runners: Any, database: Database) -> None:
    home.environment["SHOP_DB"] = database.url
    for _ in range(2):  # the second time nothing is doubled
        found = output(home.run("orders-in-postgres", api_url=runners.url))
        assert found == {"rows": 100, "report": {"orders": 100, "first": 1, "last": 100}}
    assert database.server.password not in home.call("events", "last", "--json").stdout


def test_pages_are_walked_by_a_jump_and_written_a_file_each(home: Home, runners: Any, tmp_path: Path) -> None:
    home.environment["ORDERS_API_TOKEN"] = "a-token-of-the-test"
    found = output(home.run("paginated-api", api_url=runners.url, folder=tmp_path / "out"))
    files = sorted((tmp_path / "out").iterdir())
    assert (found, len(files)) == ({"pages": 5}, 5)
    assert sum(len(file.read_text().splitlines()) for file in files) == 100


def test_what_changed_in_a_database_goes_to_a_bucket_and_the_watermark_moves(
    home: Home, database: Database, bucket: Bucket
) -> None:
    import psycopg

    with psycopg.connect(database.url) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT n AS id, n % 7 AS customer_id, n * 2 AS total, "
            "timestamptz '2024-01-01' AS updated_at FROM generate_series(1, 2500) n"
        )
        connection.execute("CREATE TABLE etl_watermarks (name text, until_at timestamptz, rows bigint)")
    home.environment |= {"SHOP_DB": database.url, "LAKE": json.dumps(bucket.credential)}
    moved = [output(home.run("nightly-etl", bucket=bucket.name, chunk_rows=1000))["rows"] for _ in range(2)]
    assert moved == [2500, 0]
    assert rows(database, "SELECT rows FROM etl_watermarks ORDER BY until_at") == [(2500,), (0,)]
    assert len(list((bucket.folder / "orders").rglob("*.parquet"))) == 3


# --- the examples of the documents that the language comes from -----------------------------------------------------------------


def rows(database: Database, query: str) -> list[Any]:
    import psycopg

    with psycopg.connect(database.url) as connection:
        return list(connection.execute(query.encode()).fetchall())


def test_one_answer_of_an_api_goes_to_two_sinks_in_chunks(
    home: Home, runners: Any, database: Database, bucket: Bucket
) -> None:
    home.environment |= {"WAREHOUSE": database.url, "LAKE": json.dumps(bucket.credential)}
    found = output(home.run("api-to-two-sinks", api_url=runners.url, bucket=bucket.name))
    assert found == {"rows": 250, "chunks": 3}
    by_chunk = rows(database, "SELECT chunk_index, count(*) FROM api_cache GROUP BY 1 ORDER BY 1")
    assert by_chunk == [(0, 100), (1, 100), (2, 50)]
    files = sorted(path.name for path in (bucket.folder / "backups").iterdir())
    assert files == ["chunk_0.parquet", "chunk_1.parquet", "chunk_2.parquet"]


def test_a_sink_that_may_fail_does_not_keep_the_other_from_its_rows(
    home: Home, runners: Any, database: Database, bucket: Bucket
) -> None:
    home.environment |= {"WAREHOUSE": database.url, "LAKE": json.dumps(bucket.credential)}
    assert output(home.run("api-to-two-sinks", api_url=runners.url, bucket="nobody-has-made-it"))["rows"] == 250
    assert rows(database, "SELECT count(*) FROM api_cache") == [(250,)]


def test_a_loop_collects_what_its_transfers_came_to(home: Home, database: Database, tmp_path: Path) -> None:
    home.environment["WAREHOUSE"] = database.url
    import psycopg

    with psycopg.connect(database.url) as connection:
        connection.execute(
            "CREATE TABLE activity_logs AS SELECT n AS id, 1 + n % 3 AS user_id, 'did ' || n AS what "
            "FROM generate_series(1, 3000) n"
        )
    file = tmp_path / "activity.duckdb"
    assert output(home.run("loop-and-collect", database=file)) == {"users": 2, "activities": 2000}
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("SELECT count(*), min(user_id) FROM user_activity_2").fetchone() == (1000, 2)


def test_one_query_goes_to_three_targets(home: Home, database: Database, bucket: Bucket, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(database.url) as connection:
        connection.execute(
            "CREATE TABLE large_table AS SELECT n AS id, 'name ' || n AS full_name, "
            "date '2023-12-01' + (n % 100) AS created_at FROM generate_series(1, 5000) n"
        )
    home.environment |= {"SHOP_DB": database.url, "WAREHOUSE": database.url, "LAKE": json.dumps(bucket.credential)}
    file = tmp_path / "facts.duckdb"
    for _ in range(2):  # the second time nothing is doubled
        found = output(home.run("one-database-to-three", database=file, bucket=bucket.name))
        assert found == {"rows": 3400, "chunks": 4}
    assert rows(database, "SELECT count(*), min(created)::text FROM replicated_table") == [(3400, "2024-01-02")]
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM analytics.facts").fetchone() == (3400,)
    assert len(list((bucket.folder / "archives").rglob("*.parquet"))) == 8


def test_users_are_looked_up_side_by_side_and_kept_once(home: Home, runners: Any, database: Database) -> None:
    home.environment["WAREHOUSE"] = database.url
    for _ in range(2):
        assert output(home.run("enrich-and-upsert", api_url=runners.url)) == {"users": 20, "best": 620}
    assert rows(database, "SELECT count(*), max(user_id) FROM enriched_users") == [(20, 20)]


def test_pages_of_several_endpoints_are_stored_by_their_status(home: Home, runners: Any, database: Database) -> None:
    home.environment["WAREHOUSE"] = database.url
    for _ in range(2):
        assert output(home.run("pages-by-endpoint", api_url=runners.url)) == {"pages": 10, "missing": 1}
    assert rows(database, "SELECT endpoint FROM results_not_found") == [("/invoices",)]
    assert [path for _, path, _, _ in runners.requests].count("/orders?page=2") == 3  # the first answer was 503
