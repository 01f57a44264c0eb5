"""exactly_once, with connections that are cut and processes that are killed, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from databases import Db, Proxy
from forkserver import ForkServer

ADD = "INSERT INTO t VALUES ({{ workload.n }}) RETURNING n, now() AS at"


@pytest.fixture(autouse=True)
def table(db: Db) -> None:
    db.ask("CREATE TABLE t (n int)")


def rows(db: Db) -> list[int]:
    return sorted(n for (n,) in db.ask("SELECT n FROM t"))


async def test_a_task_that_is_run_again_yields_what_it_did_and_does_nothing(db: Db) -> None:
    first = await db.task(ADD, workload={"n": 1}, exactly_once=True, key="one")
    again = await db.task(ADD, workload={"n": 1}, exactly_once=True, key="one")
    assert first["data"] == again["data"]
    assert first["pg"] == again["pg"] == {"code": "00000", "sqlstate": "00000", "message": None, "rowcount": 1}
    await db.task(ADD, workload={"n": 2}, exactly_once=True, key="two")
    assert rows(db) == [1, 2]


async def test_what_failed_leaves_no_marker(db: Db) -> None:
    found = await db.error(f"{ADD}; SELECT 1 / 0", workload={"n": 1}, exactly_once=True, key="one")
    assert found["code"] == "22012"
    await db.rows(ADD, workload={"n": 1}, exactly_once=True, key="one")
    assert rows(db) == [1]


async def test_tasks_that_run_at_the_same_time_with_one_key_take_effect_once(db: Db) -> None:
    query = f"SELECT pg_sleep(0.1); {ADD}"
    outputs = await asyncio.gather(
        *(db.task(query, workload={"n": 1}, exactly_once=True, key="one") for _ in range(5)),
        *(db.task(query, workload={"n": n}, exactly_once=True, key=f"k{n}") for n in (2, 3)),
    )
    assert [output["error"] for output in outputs] == [None] * 7
    assert len({json.dumps(output["data"]) for output in outputs[:5]}) == 1
    assert rows(db) == [1, 2, 3]


@pytest.mark.parametrize("word", [b"BEGIN", b"noetl_once (key)", b"INSERT INTO t", b"UPDATE noetl_once", b"COMMIT"])
@pytest.mark.parametrize("delivers", [True, False])
async def test_wherever_the_connection_is_cut_the_effect_is_there_once(db: Db, word: bytes, delivers: bool) -> None:
    await db.task("SELECT 1", exactly_once=True, key="first")  # the table of markers is there
    proxy = Proxy(db.database)
    async with proxy.open():
        proxy.word, proxy.delivers = word, delivers
        task = {"workload": {"n": 1}, "exactly_once": True, "key": "one"}
        output = await db.task(ADD, **task, credential={**db.credential, "port": proxy.port})
        assert proxy.cuts == 1
        if word == b"COMMIT":  # it has seen for itself what became of it
            assert (output["status"], output["data"][0]["n"]) == ("ok", 1)
        else:
            assert output["error"]["retryable"]
            assert rows(db) == []
        again = await db.rows(ADD, **task)
    assert again[0]["n"] == 1
    assert rows(db) == [1]


async def test_isolation_is_set_before_the_marker_is_written(db: Db) -> None:
    query = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (1); SHOW transaction_isolation"
    assert await db.rows(query, exactly_once=True) == [{"transaction_isolation": "serializable"}]


@pytest.mark.parametrize(
    "query", ["VACUUM t", "SELECT 1; CREATE DATABASE other", "CREATE INDEX CONCURRENTLY i ON t (n)"]
)
async def test_what_cannot_run_in_a_transaction_cannot_be_done_exactly_once(db: Db, query: str) -> None:
    found = await db.error(query, exactly_once=True)
    assert "`exactly_once` needs a transaction" in found["message"]


async def test_more_than_can_be_kept_beside_a_marker_is_refused_and_undone(db: Db) -> None:
    query = "INSERT INTO t VALUES (1); SELECT repeat('x', 2000000) AS v"
    found = await db.error(query, exactly_once=True, spill=1 << 20)
    assert found["kind"] == "limit"
    assert rows(db) == []
    assert list((db.world.folder / ".drafts").glob("*")) == []


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: once
keychain:
  - {name: db, kind: postgres_credential, from: {env: DATABASE}}
workflow:
  - step: start
    loop: {in: "{{ range(40) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
    tool:
      - kind: postgres
        auth: db
        exactly_once: true
        command: |
          SELECT pg_sleep(0.05);
          INSERT INTO t VALUES ({{ iter.n }}) RETURNING n
"""


def killed(db: Db, folder: Path, forkserver: ForkServer, environment: Mapping[str, str]) -> int:
    """Start a run, and kill it again and again; how often that was before its end."""
    for kills, pause in enumerate((0.55, 0.62, 0.7, 0.8)):
        arguments = ["run", "once.yaml", "--json"] if not kills else ["resume", "last", "--json"]
        process = forkserver.start(*arguments, cwd=folder, env=environment)
        before = len(rows(db))
        while len(rows(db)) < before + 2 and process.poll() is None:
            time.sleep(0.01)
        time.sleep(pause % 0.07)
        if process.poll() is not None:
            return kills
        process.kill()
        process.wait()
    return kills + 1


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_and_resumed_has_each_effect_once(
    db: Db, tmp_path: Path, forkserver: ForkServer
) -> None:
    (tmp_path / "once.yaml").write_text(PLAYBOOK)
    environment = {**os.environ, "NOETL_HOME": str(tmp_path / "home"), "DATABASE": db.database.url}
    for _ in range(5):  # it may be over before it is killed
        db.ask("DELETE FROM t")
        kills = killed(db, tmp_path, forkserver, environment)
        if kills > 1:
            break
    assert kills > 1
    done = forkserver.run("resume", "last", "--json", cwd=tmp_path, env=environment)
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document
    assert [part[0]["n"] for part in document["output"]] == list(range(40))
    assert rows(db) == list(range(40))
