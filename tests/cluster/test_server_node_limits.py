"""Limits where servers share a database and workers are elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fleet import serving, working
from servers import Database

from noetl.server.cluster.server_node import ServerNode
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.service import LiveExecution
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: limited, path: limited}
workload: {folder: none}
workflow:
  - step: work
    spec: {concurrency: {key: api, limit: 2}}
    tool:
      kind: shell
      cmd: "echo + $(date +%s.%N) >> {{ workload.folder }}/notes; sleep 0.1; until [ -e {{ workload.folder }}/go ] && [ $(grep -c + {{ workload.folder }}/notes) -ge 2 ]; do sleep 0.02; done; echo - $(date +%s.%N) >> {{ workload.folder }}/notes"
"""


async def start(station: ServerNode, folder: Path, *, held: bool = False) -> LiveExecution:
    """One that ends by itself, or when there is a file `go`."""
    if not held:
        (folder / "go").touch()
    source, loaded = station.catalog.read(folder / "limited.yaml", BOOK.encode())
    assert loaded.net is not None, loaded.diagnostics
    return await station.start(source, loaded.net, {"folder": str(folder)})


def notes(folder: Path) -> list[str]:
    file = folder / "notes"
    return [sign for _, sign in sorted((line.split()[1], line[0]) for line in file.read_text().splitlines())]


def most_at_once(folder: Path) -> int:
    now = most = 0
    for sign in notes(folder):
        now += 1 if sign == "+" else -1
        most = max(most, now)
    return most


async def test_servers_on_one_database_share_a_limit_whichever_worker_runs_it(
    tmp_path: Path, database: Database
) -> None:
    logs = [PostgresLog(database.url), PostgresLog(database.url)]
    registries = [PgRegistry(database.url, 60.0) for _ in logs]
    async with (
        serving(logs[0], registries[0], tmp_path) as one,
        serving(logs[1], registries[1], tmp_path) as other,
        working([one.url, other.url], tmp_path / "w"),
    ):
        executions = [await start(server.station, tmp_path) for _ in range(4) for server in (one, other)]
        await asyncio.gather(*(live.finished for live in executions))
        assert [live.state.status for live in executions] == ["completed"] * 8
    assert len(notes(tmp_path)) == 16
    assert most_at_once(tmp_path) == 2


async def test_what_a_worker_runs_goes_on_when_its_execution_comes_back_to_the_server(tmp_path: Path) -> None:
    log = MemoryLog()
    async with serving(log, MemoryRegistry(60.0), tmp_path) as server, working([server.url], tmp_path / "w"):
        station = server.station
        executions = [await start(station, tmp_path, held=True) for _ in range(3)]
        while not (tmp_path / "notes").exists() or len(notes(tmp_path)) < 2:
            await asyncio.sleep(0.02)
        station.service.release(executions[0])
        again = await station.resume(executions[0].id)
        (tmp_path / "go").touch()
        await asyncio.gather(again.finished, *(live.finished for live in executions[1:]))
        assert again.state.status == "completed", again.state.error
    assert notes(tmp_path).count("+") == 3
    assert most_at_once(tmp_path) == 2
