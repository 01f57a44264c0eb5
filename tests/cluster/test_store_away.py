"""A store that takes nothing: the server says so, to balancers and in its log, and what waited goes on by itself."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest
from fleet import serving, working
from servers import Database
from waiting import until

from noetl.model.requests import Signal, encode_request
from noetl.ports import LogDamaged, StoreFailed
from noetl.server.core import store_watch
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

TWO_STEPS = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: waits}
workflow:
  - step: start
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: python, code: "result = 7"}
    output: {seven: "{{ output.data }}"}
"""


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_a_server_whose_database_can_only_be_read_says_so_and_goes_on_when_it_can_be_written(
    tmp_path: Path, database: Database
) -> None:
    log, registry = PostgresLog(database.url, lease_s=3.0), PgRegistry(database.url, 60.0)
    lines: list[str] = []
    async with (
        serving(log, registry, tmp_path, lease_s=1.0, cluster_store=log) as server,
        working([server.url], tmp_path / "w"),
    ):
        station = server.station
        station.print_line = lines.append
        source, loaded = station.catalog.read(tmp_path / "waits.yaml", TWO_STEPS)
        assert loaded.net is not None
        live = await station.start(source, loaded.net, {})
        assert (await asyncio.to_thread(answer, f"{server.url}/ready"))[0] == 200
        with psycopg.connect(database.server.url(), autocommit=True) as connection:
            alter = f'ALTER DATABASE "{database.name}"'
            connection.execute(f"{alter} SET default_transaction_read_only = on".encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (database.name,)
            )
            station.service.post(live.id, [Signal("go", {})])
            await until(lambda: len(lines) == 1)
            status, said = await asyncio.to_thread(answer, f"{server.url}/ready")
            assert status == 503
            assert "read-only" in said
            assert "nothing can be recorded" in lines[0]
            connection.execute(f"{alter} RESET default_transaction_read_only".encode())
        await until(lambda: len(lines) > 1)
        assert "recorded again" in lines[1]
        assert (await asyncio.to_thread(answer, f"{server.url}/ready"))[0] == 200
        log.post(live.id, encode_request(Signal("go", {})))
        await until(lambda: (found := log.summary(live.id)) is not None and found.status == "completed")
        assert len(lines) == 2, lines


class Store:
    """A store that takes what is written, fails, or does not answer."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0

    async def probe(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error


async def test_a_store_that_fails_is_reported_once_and_so_is_its_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_watch, "_AGAIN_S", 0.01)
    store, lines, recovered = Store(), list[str](), list[int]()
    watch = store_watch.StoreWatch(store.probe, lines.append)
    watch.on_recovery = lambda: recovered.append(1)
    watch.note(StoreFailed("for a moment"))
    await until(lambda: store.asked == 1)
    assert await watch.check(60) == ""
    store.error = StoreFailed("no space is left")
    watch.note(LogDamaged("of one execution alone"))
    watch.note(StoreFailed("no space"))
    await until(lambda: store.asked > 3)
    assert await watch.check(60) == "no space is left"
    store.error = None
    await until(lambda: bool(recovered))
    assert await watch.check(60) == ""
    watch.close()
    assert [line.split(":")[0].split(",")[0] for line in lines] == ["warning", "executions are recorded again"]


async def test_a_store_that_does_not_answer_is_not_asked_twice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_watch, "_SILENCE_S", 0.05)
    store, lines = Store(), list[str]()
    watch = store_watch.StoreWatch(store.probe, lines.append)
    store.answers.clear()
    assert "within 0.01 s" in await watch.check(0.01)
    watch.note(StoreFailed("it is cut off"))
    await until(lambda: bool(watch.trouble))
    assert "has not answered for" in await watch.check(60)
    assert store.asked == 1
    store.answers.set()
    await until(lambda: not watch.trouble)
    watch.close()
    assert len(lines) == 2


async def test_what_is_found_out_by_many_at_once_is_asked_once() -> None:
    store = Store()
    watch = store_watch.StoreWatch(store.probe, print)
    assert await asyncio.gather(*(watch.check(60) for _ in range(20))) == [""] * 20
    assert store.asked == 1
    watch.close()
