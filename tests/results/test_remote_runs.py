"""Whole runs whose large results lie in S3, in PostgreSQL or in NATS, and what people see of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forkserver import ForkServer
from servers import Bucket, Database, Subjects
from thorough import up_to

from noetl.config import Settings
from noetl.secrets.keychain import open_store

pytestmark = pytest.mark.usefixtures("forkserver")

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large}
workload: {count: 800}
workflow:
- step: make
  tool:
    kind: python
    input: {count: "{{ workload.count }}"}
    code: |
      def main(count):
          return [{"id": n, "text": "some text of row %d %s" % (n, "y" * 80)} for n in range(count)]
    spec: {result: {store: STORE, ttl: 1h}}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ ctx.rows_ref }}", iterator: row, spec: {mode: parallel, max_in_flight: 8}}
  tool:
  - LOOK
  set: {ctx.list_ref: "{{ output.ref }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: resolve, ref: "{{ ctx.list_ref }}", range: [1, 3]}}
"""


LOOK = """{kind: noop, output: {id: "{{ iter.row.id }}", pad: "{{ 'x' * 100 }}"}}"""
#: the same in some time
SLOW = """{kind: python, input: {row: "{{ iter.row }}"}, code: "import time\\ndef main(row):\\n    time.sleep(0.02)\\n    return {'id': row['id'], 'pad': 'x' * 300}"}"""


TYPES = {"postgres": "relational", "s3": "object_store", "nats": "nats"}


def installed(folder: Path, name: str, kind: str, fields: dict[str, Any]) -> None:
    """Put a credential into the home's store."""
    open_store(Settings(folder / "home"), time.time).add(name, kind, fields)


def environment(folder: Path, results: str) -> dict[str, str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "NOETL_"))}
    return {**clean, "NOETL_HOME": str(folder / "home"), "NOETL_RESULTS": results}


def noetl(folder: Path, results: str, *arguments: str, code: int = 0) -> str:
    done = ForkServer.shared.run(*arguments, cwd=folder, env=environment(folder, results))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code in (0, 1) and done.stdout else done.stderr


def playbook(folder: Path, store: str = "auto", ttl: str = "1h", look: str = LOOK) -> None:
    text = PLAYBOOK.replace("STORE", store).replace("1h", ttl).replace("LOOK", look)
    (folder / "large.yaml").write_text(text)


@pytest.fixture(params=["s3", "postgres", "nats"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        database: Database = request.getfixturevalue("database")
        installed(tmp_path, "results", "postgres_credential", database.credential)
        return "postgres"
    if request.param == "nats":
        nats: Subjects = request.getfixturevalue("nats")
        installed(tmp_path, "results", "basic", nats.credential)
        return nats.open_url
    bucket: Bucket = request.getfixturevalue("bucket")
    installed(tmp_path, "results", "s3_credential", bucket.credential)
    return f"s3://{bucket.name}/runs"


def forget(folder: Path) -> None:
    """As if another machine went on: nothing of the payloads is here."""
    for path in (folder / "home" / "cache").rglob("*"):
        if path.is_file():
            path.unlink()


def test_a_loop_goes_over_rows_that_lie_elsewhere(tmp_path: Path, results: str) -> None:
    playbook(tmp_path)
    document = json.loads(noetl(tmp_path, results, "run", "large.yaml", "--json"))
    assert (document["status"], document["error"]) == ("completed", None)
    assert document["output"] == [{"id": 1, "pad": "x" * 100}, {"id": 2, "pad": "x" * 100}]
    for name in ("rows_ref", "list_ref"):
        ref = document["ctx"][name]
        assert ref["type"] == TYPES[results.partition(":")[0]]
        assert ref["auth_reference"] == "keychain/results"
        assert ref["meta"]["rows"] == 800
    assert list((tmp_path / "home" / "results").glob("*/*.parquet")) == []
    forget(tmp_path)
    shown = noetl(tmp_path, results, "result", "last", "make", "--range", "798:800", "--json")
    assert [row["id"] for row in json.loads(shown)] == [798, 799]
    again = noetl(tmp_path, results, "result", json.dumps(document["ctx"]["list_ref"]), "--range", "7:8", "--json")
    assert json.loads(again) == [{"id": 7, "pad": "x" * 100}]
    where = document["ctx"]["rows_ref"]["locator"]
    place = "/".join(str(part) for part in where.values())
    place = place if "table" in where else f"{results.partition(':')[0]}://{place}"
    named = json.loads(noetl(tmp_path, results, "result", place, "--range", "3:4", "--json"))
    assert [row["id"] for row in named] == [3]
    assert "nothing has expired" in noetl(tmp_path, results, "gc")


def test_a_run_that_is_killed_goes_on_where_nothing_is_at_hand(tmp_path: Path, results: str) -> None:
    playbook(tmp_path, look=SLOW)
    count = up_to(1300, 500)
    command = [sys.executable, "-m", "noetl", "run", "large.yaml", "--set", f"count={count}"]
    env = environment(tmp_path, results)
    running = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (tmp_path / "home" / "cache").exists():  # the first payload was stored
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.7)
    running.send_signal(signal.SIGKILL)
    running.wait()
    forget(tmp_path)
    noetl(tmp_path, results, "resume", "--all")
    rows = json.loads(noetl(tmp_path, results, "result", "last", "each", "--json"))
    assert [row["id"] for row in rows] == list(range(count))


def test_a_store_is_picked_by_name_among_those_that_are_set_up(
    tmp_path: Path, bucket: Bucket, database: Database
) -> None:
    installed(tmp_path, "results", "s3_credential", bucket.credential)
    results = f"s3://{bucket.name},{database.url},{tmp_path}/files"
    for store in ("object_store", "relational", "blob", "auto"):
        playbook(tmp_path, store)
        document = json.loads(noetl(tmp_path, results, "run", "large.yaml", "--json"))
        assert document["ctx"]["rows_ref"]["type"] == ("object_store" if store == "auto" else store)
        assert document["status"] == "completed"
    assert database.server.password not in noetl(tmp_path, results, "events", "last", "--json")


def test_a_store_that_nobody_set_up_is_an_error_of_the_task(tmp_path: Path, results: str) -> None:
    playbook(tmp_path, "blob")
    document = json.loads(noetl(tmp_path, results, "run", "large.yaml", "--json", code=1))
    assert document["error"]["kind"] == "result"
    assert "`spec.result.store: blob` is not there" in document["error"]["message"]


def test_expired_payloads_are_removed_by_gc(tmp_path: Path, results: str) -> None:
    playbook(tmp_path, ttl="0.001")
    error = json.loads(noetl(tmp_path, results, "run", "large.yaml", "--json", code=1))["error"]
    assert error["kind"] == "result-expired"
    assert json.loads(noetl(tmp_path, results, "gc", "--dry-run", "--json"))["removed"] != []
    assert "removed" in noetl(tmp_path, results, "gc")
    assert "nothing has expired" in noetl(tmp_path, results, "gc")


def test_a_bucket_that_does_not_exist_stops_the_run_which_goes_on_when_it_is_there(
    tmp_path: Path, bucket: Bucket
) -> None:
    installed(tmp_path, "results", "s3_credential", bucket.credential)
    playbook(tmp_path)
    said = noetl(tmp_path, "s3://no-such-bucket", "run", "large.yaml", code=1)
    assert "the bucket s3://no-such-bucket does not exist (keychain entry `results`)" in said
    noetl(tmp_path, f"s3://{bucket.name}", "resume", "--all")
    assert "completed" in noetl(tmp_path, f"s3://{bucket.name}", "show", "last")


def test_a_wrong_secret_is_told_by_its_entry_and_never_shown(tmp_path: Path, bucket: Bucket) -> None:
    wrong = "this-is-not-the-secret"
    installed(tmp_path, "results", "s3_credential", {**bucket.credential, "secret_access_key": wrong})
    playbook(tmp_path)
    said = noetl(tmp_path, f"s3://{bucket.name}", "run", "large.yaml", code=1)
    assert "the keychain entry `results` does not open it: the secret key is not the one" in said
    assert wrong not in said + noetl(tmp_path, f"s3://{bucket.name}", "events", "last", "--json")


def test_the_usual_variables_open_a_bucket_and_no_tool_sees_them(tmp_path: Path, bucket: Bucket) -> None:
    given = bucket.credential
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "noetl.toml").write_text(f'NOETL_RESULTS = ["s3://{bucket.name}/by-file"]\n')
    text = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: seen}
workflow:
- step: start
  tool: {kind: python, code: "import os\\ndef main():\\n    return {'seen': sorted(os.environ), 'pad': 'x' * 99999}"}
  set: {ctx.seen: "{{ output.data.seen }}", ctx.all_ref: "{{ output.ref }}"}
"""
    (tmp_path / "seen.yaml").write_text(text)
    env = {name: value for name, value in environment(tmp_path, "").items() if name != "NOETL_RESULTS"}
    env |= {"AWS_ACCESS_KEY_ID": str(given["access_key_id"]), "AWS_SECRET_ACCESS_KEY": str(given["secret_access_key"])}
    env |= {"AWS_ENDPOINT_URL": str(given["endpoint"]), "AWS_REGION": "us-east-1"}
    command = [sys.executable, "-m", "noetl", "run", "seen.yaml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document
    assert document["ctx"]["all_ref"]["auth_reference"] is None
    assert document["ctx"]["all_ref"]["locator"]["key"].startswith("by-file/")
    assert "AWS_REGION" in document["ctx"]["seen"]
    assert "AWS_SECRET_ACCESS_KEY" not in document["ctx"]["seen"]


LARGE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large}
workload: {megabytes: 1}
workflow:
- step: make
  tool: {kind: shell, cmd: "head -c {{ workload.megabytes * 1000000 }} /dev/urandom | base64"}
  set: {ctx.data_ref: "{{ output.ref }}"}
- {step: end, tool: {kind: noop}}
"""
#: runs a command line and then says how much memory that took at its peak, in megabytes
MEASURED = (
    "import resource, sys; from noetl.__main__ import main; code = main(); sys.stdout.flush();"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr); sys.exit(code)"
)


@pytest.mark.slow
# NATS has a test of the same with its shelf.
@pytest.mark.parametrize("results", ["s3", "postgres", "nats"][: up_to(3, 2)], indirect=True)
def test_a_large_payload_passes_without_being_held(tmp_path: Path, results: str) -> None:
    (tmp_path / "large.yaml").write_text(LARGE)
    peaks = []
    for megabytes in (1, 130):  # in base64 that is more than the limit below by half
        command = [sys.executable, "-c", MEASURED, "run", "large.yaml", "--set", f"megabytes={megabytes}", "--json"]
        env = environment(tmp_path, results)
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
        document = json.loads(done.stdout)
        assert document["status"] == "completed", document
        assert document["ctx"]["data_ref"]["meta"]["bytes"] > megabytes * 900_000
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] - peaks[0] < 120, peaks
    forget(tmp_path)
    noetl(tmp_path, results, "result", "last", "make", "--output", "made.json")
    assert (tmp_path / "made.json").stat().st_size > 170_000_000
