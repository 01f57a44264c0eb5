"""Transfers whose process is killed, at every place where that matters, and which then go on: no row lost, none twice."""

from __future__ import annotations

import csv
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkedProcess, ForkServer

duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.usefixtures("forkserver")

MORTAL = Path(__file__).parent / "mortal.py"
IDS = list(range(10))


def attempt(folder: Path, task: dict[str, Any], nth: int = 0, when: str = "after") -> dict[str, Any] | None:
    """Have a process run the transfer; None: it was killed."""
    arguments = (str(folder), json.dumps(task), str(nth), when)
    done = ForkServer.shared.run(*arguments, cwd=Path.cwd(), env=os.environ, program=MORTAL)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def transfer(source: dict[str, Any], *targets: dict[str, Any], size: int = 3) -> dict[str, Any]:
    return {"kind": "transfer", "source": source, "targets": list(targets), "chunk": {"size": size}}


def table(folder: Path, query: str = "SELECT id FROM t ORDER BY rowid") -> list[int]:
    with duckdb.connect(str(folder / "o.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def tables(folder: Path) -> list[str]:
    with duckdb.connect(str(folder / "o.duckdb"), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]


def ids(path: Path) -> list[int]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [int(row["id"]) for row in csv.DictReader(file)]
    if path.suffix == ".parquet":
        return [row[0] for row in duckdb.connect().execute("SELECT id FROM read_parquet($1)", [str(path)]).fetchall()]
    text = path.read_text()
    return [row["id"] for row in (json.loads(text) if path.suffix == ".json" else map(json.loads, text.splitlines()))]


EVERYWHERE = [
    {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "append"},
    {"kind": "duckdb", "file": "o.duckdb", "table": "r", "mode": "replace"},
    {"kind": "file", "path": "a.csv", "mode": "append"},
    {"kind": "file", "path": "a.ndjson", "mode": "append"},
    {"kind": "file", "path": "r.json"},
    {"kind": "file", "path": "r.parquet"},
    {"kind": "file", "path": "{{ chunk.index }}.csv"},
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [2, 3, 5, 7, 9, 12])
def test_a_stable_source_goes_on_at_the_first_chunk_that_was_not_recorded(tmp_path: Path, nth: int, when: str) -> None:
    (tmp_path / "in.csv").write_text("id,v\n" + "".join(f"{n},x\n" for n in IDS))
    (tmp_path / "a.csv").write_text("id,v\n-1,before\n")
    task = transfer({"kind": "file", "path": "in.csv"}, *EVERYWHERE)
    assert attempt(tmp_path, task, nth, when) is None
    assert nth > 5 or not (tmp_path / "r.json").exists()
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert (output["data"]["rows"], output["data"]["chunks"]) == (10, 4)
    assert [target["rows"] for target in output["data"]["targets"]] == [10] * len(EVERYWHERE)
    assert table(tmp_path) == table(tmp_path, "SELECT id FROM r ORDER BY rowid") == IDS
    assert ids(tmp_path / "a.csv") == [-1, *IDS]
    for name in ("a.ndjson", "r.json", "r.parquet"):
        assert ids(tmp_path / name) == IDS, name
    assert [ids(tmp_path / f"{n}.csv") for n in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert sorted(tables(tmp_path)) == ["r", "t"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") and path.name != ".drafts"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_chunks_that_came_together_are_not_brought_twice(tmp_path: Path, when: str) -> None:
    rows = 250_000
    with (tmp_path / "in.csv").open("w") as file:
        file.write("id,v\n")
        file.writelines(f"{n},{'x' * 50}\n" for n in range(rows))
    targets = [
        {"kind": "duckdb", "file": "o.duckdb", "table": "t"},
        {"kind": "file", "path": "a.csv", "mode": "append"},
    ]
    task = {"kind": "transfer", "source": {"kind": "file", "path": "in.csv"}, "targets": targets}
    assert attempt(tmp_path, task, 2, when) is None
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert (output["data"]["rows"], output["data"]["chunks"]) == (rows, rows // 10_000)
    assert table(tmp_path, "SELECT count(DISTINCT id) FROM t") == table(tmp_path, "SELECT count(*) FROM t") == [rows]
    assert ids(tmp_path / "a.csv") == list(range(rows))


@contextmanager
def recorder(go: threading.Event | None = None) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Takes whatever is sent; from the fifteenth on only when it may go on."""
    seen: list[tuple[str, Any]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.headers["Idempotency-Key"], body))
            if go is not None and len(seen) >= 15:
                go.wait(60)
            with suppress(OSError):  # whoever sent it may be gone
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", seen
    finally:
        server.shutdown()
        server.server_close()


def test_what_is_sent_twice_after_a_crash_has_the_same_key(tmp_path: Path) -> None:
    with recorder() as (url, seen):
        task = transfer({"kind": "data", "data": [{"id": n} for n in IDS]}, {"kind": "http", "url": url})
        assert attempt(tmp_path, task, 3, "before") is None  # the second chunk was sent, and is not recorded
        assert attempt(tmp_path, task) is not None
    sent: dict[str, Any] = {}
    for key, body in seen:
        assert sent.setdefault(key, body) == body
    assert [row["id"] for body in sent.values() for row in body] == IDS
    assert len(seen) == len(sent) + 1


def reordering(folder: Path, *targets: dict[str, Any]) -> dict[str, Any] | None:
    """Kill a transfer out of a table whose rows come in another order when it goes on."""
    with duckdb.connect(str(folder / "in.duckdb")) as connection:
        connection.execute("CREATE TABLE s AS SELECT range AS id FROM range(10)")
    task = transfer({"kind": "duckdb", "file": "in.duckdb", "query": "SELECT id FROM s"}, *targets)
    assert attempt(folder, task, 3, "after") is None
    with duckdb.connect(str(folder / "in.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE TABLE s AS SELECT 9 - range AS id FROM range(10)")
    return attempt(folder, task)


def test_an_unstable_source_does_not_double_rows_that_cannot_be_taken_back(tmp_path: Path) -> None:
    output = reordering(tmp_path, {"kind": "duckdb", "file": "o.duckdb", "table": "t"})
    assert output is not None
    assert output["error"]["kind"] == "not-resumable"
    assert "order_by" in output["error"]["message"]
    assert table(tmp_path) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "upsert", "key": "id"},
        {"kind": "duckdb", "file": "o.duckdb", "table": "t", "mode": "replace"},
        {"kind": "file", "path": "o.csv"},
        {"kind": "file", "path": "o.parquet"},
        {"kind": "file", "path": "o.ndjson", "mode": "append"},
    ],
)
def test_an_unstable_source_starts_again_where_that_doubles_nothing(tmp_path: Path, target: dict[str, Any]) -> None:
    output = reordering(tmp_path, target)
    assert output is not None
    assert output["error"] is None, output["error"]
    found = table(tmp_path) if target["kind"] == "duckdb" else ids(tmp_path / target["path"])
    assert sorted(found) == IDS
    assert output["data"]["rows"] == 10


def test_with_order_by_a_table_is_stable(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "in.duckdb")) as connection:
        connection.execute("CREATE TABLE s AS SELECT range AS id FROM range(10)")
    source = {"kind": "duckdb", "file": "in.duckdb", "query": "SELECT id FROM s", "order_by": "id"}
    task = transfer(source, {"kind": "duckdb", "file": "o.duckdb", "table": "t"})
    assert attempt(tmp_path, task, 3, "before") is None
    with duckdb.connect(str(tmp_path / "in.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE TABLE s AS SELECT 9 - range AS id FROM range(10)")
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"] is None
    assert table(tmp_path) == IDS


def test_a_file_that_has_changed_is_no_longer_stable(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in IDS))
    task = transfer({"kind": "file", "path": "in.csv"}, {"kind": "duckdb", "file": "o.duckdb", "table": "t"})
    assert attempt(tmp_path, task, 3, "after") is None
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in reversed(IDS)) + "10\n")
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"]["kind"] == "not-resumable"
    assert "in.csv` has changed since it began" in output["error"]["message"]
    assert "order_by" not in output["error"]["message"]


def test_a_file_that_changed_while_the_first_chunk_was_in_hand_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in IDS))
    task = transfer({"kind": "file", "path": "in.csv"}, {"kind": "file", "path": "o.csv"})
    assert attempt(tmp_path, task, 2, "before") is None
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n + 100}\n" for n in IDS))
    output = attempt(tmp_path, task)
    assert output is not None
    assert ids(tmp_path / "o.csv") == [n + 100 for n in IDS]


# --- as people see it ---------------------------------------------------------------------------------------------------------

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load}
workload: {url: ""}
workflow:
  - step: load
    tool:
      kind: transfer
      source: {kind: file, path: in.csv}
      chunk: {size: 100}
      targets:
        - {kind: duckdb, file: o.duckdb, table: t}
        - {kind: http, url: "{{ workload.url }}"}
"""


def noetl(folder: Path, *arguments: str) -> ForkedProcess:
    environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
    return ForkServer.shared.start(*arguments, cwd=folder, env=environment)


def test_a_run_that_is_killed_goes_on_and_brings_each_row_once(tmp_path: Path) -> None:
    count = 3_000
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(count)))
    (tmp_path / "load.yaml").write_text(PLAYBOOK)
    go = threading.Event()
    with recorder(go) as (url, seen):
        running = noetl(tmp_path, "run", "load.yaml", "--set", f"url={url}", "--json")
        waited = threading.Event()
        while len(seen) < 12:
            assert running.poll() is None, running.communicate()
            waited.wait(0.005)
        running.kill()
        running.communicate()
        assert len(seen) < count / 100
        go.set()
        answer, said = noetl(tmp_path, "resume", "last", "--json").communicate(timeout=120)
    document = json.loads(answer)
    assert document["status"] == "completed", (document, said)
    assert document["output"]["rows"] == count
    assert table(tmp_path) == list(range(count))
    sent = dict(seen)
    assert [row["id"] for body in sent.values() for row in body] == list(range(count))
    assert len(seen) <= len(sent) + 1


def test_rows_that_were_appended_are_not_appended_again_when_the_notes_of_them_are_gone(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,v\n" + "".join(f"{n},x\n" for n in IDS))
    task = transfer({"kind": "file", "path": "in.csv"}, {"kind": "file", "path": "a.csv", "mode": "append"})
    assert attempt(tmp_path, task, 3) is None
    for notes in tmp_path.rglob("*.notes"):
        notes.unlink()
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"]["kind"] == "not-resumable"
    assert "the notes are gone" in output["error"]["message"]
    assert len(ids(tmp_path / "a.csv")) < len(IDS)


def test_half_of_a_first_chunk_is_cut_off_a_file_that_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,v\n" + "".join(f"{n},x\n" for n in IDS))
    (tmp_path / "a.csv").write_text("id,v\n-1,before\n")
    task = transfer({"kind": "file", "path": "in.csv"}, {"kind": "file", "path": "a.csv", "mode": "append"})
    assert attempt(tmp_path, task, 2, "before") is None
    (notes,) = tmp_path.rglob("*.notes")
    noted = notes.read_bytes().splitlines(keepends=True)
    notes.write_bytes(b"".join(noted[:2]))  # killed when it had announced the chunk, before it could note it
    output = attempt(tmp_path, task)
    assert output is not None
    assert output["error"] is None
    assert ids(tmp_path / "a.csv") == [-1, *IDS]
    assert not list(tmp_path.rglob("*.notes"))


REPLACING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: copy}
workload: {url: ""}
workflow:
  - step: copy
    tool:
      kind: transfer
      source: {kind: file, path: in.csv}
      chunk: {size: 100}
      targets:
        - {kind: file, path: out.csv}
        - {kind: http, url: "{{ workload.url }}", on_error: warn}
"""


def test_a_rerun_out_of_a_transfer_that_was_killed_brings_all_rows(tmp_path: Path) -> None:
    """The progress of the run before is in the log that a rerun begins with, and is not its own."""
    count = 3_000
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(count)))
    (tmp_path / "copy.yaml").write_text(REPLACING.rsplit("        - {kind: http", 1)[0])
    (tmp_path / "slow.yaml").write_text(REPLACING)
    with recorder() as (url, seen):
        running = noetl(tmp_path, "run", "slow.yaml", "--set", f"url={url}", "--json")
        waited = threading.Event()
        while len(seen) < 8:
            assert running.poll() is None, running.communicate()
            waited.wait(0.005)
        running.kill()
        running.communicate()
    listed, _ = noetl(tmp_path, "events", "last", "--json").communicate(timeout=120)
    events = [json.loads(line) for line in listed.splitlines()]
    last = next(one["seq"] for one in reversed(events) if one["name"] == "task.progress")
    arguments = ("rerun", "last", "--from", str(last), "--with", "copy.yaml", "--yes", "--json")
    answer, said = noetl(tmp_path, *arguments).communicate(timeout=120)
    assert answer, said
    assert json.loads(answer)["status"] == "completed", (answer, said)
    assert ids(tmp_path / "out.csv") == list(range(count))


def test_a_target_that_failed_is_seen_where_a_run_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n1\n")
    (tmp_path / "copy.yaml").write_text(REPLACING)
    _, said = noetl(tmp_path, "run", "copy.yaml", "--set", "url=http://127.0.0.1:9/").communicate(timeout=120)
    shown, _ = noetl(tmp_path, "show", "last").communicate(timeout=120)
    for text in (said.decode(), shown.decode()):
        assert "⚠ target 2 (http): " in text
        assert "(1 of 1 chunks failed)" in text
