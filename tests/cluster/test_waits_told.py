"""What an execution waits for outside of itself is told by whoever is asked how it stands."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from fleet import OWNER, serving
from test_handing_out import start, until

from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog

ELSEWHERE = "workflow:\n- step: heavy\n  spec: {pool: gpu}\n  tool: {kind: noop}\n"
LIMITED = (
    "workload: {seconds: 5}\nworkflow:\n- step: busy\n  spec: {concurrency: {key: api, limit: 1}}\n"
    "  tool: {kind: shell, cmd: 'sleep {{ workload.seconds }}'}\n"
)
NONE_THERE = "1 pipeline waits for a worker of pool `gpu`: none is there; `noetl worker --pool gpu` starts one"


async def noetl(home: Path, server: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "noetl", *arguments]
    environment = {**os.environ, "NOETL_HOME": str(home), "NOETL_SERVER": server, "NOETL_TOKEN": OWNER}
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return [line.strip() for line in done.stdout.splitlines()]


async def test_a_step_that_no_worker_has_taken_is_not_said_to_have_run(tmp_path: Path) -> None:
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        live = await start(server, tmp_path, ELSEWHERE)
        await until(lambda: server.station.waits(live.id))
        told = await noetl(tmp_path, server.url, "why", live.id, "heavy")
        assert told[0] == "heavy has not begun; it is scheduled"
        assert told[-2].endswith("it was admitted, and waits for a worker")
        assert told[-1] == f"now  {NONE_THERE}"
        assert NONE_THERE in await noetl(tmp_path, server.url, "why", live.id)
        assert NONE_THERE in await noetl(tmp_path, server.url, "show", live.id)


async def test_of_several_servers_the_one_that_runs_it_is_found(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(60.0)
    async with serving(log, registry, tmp_path) as server, serving(log, registry, tmp_path) as other:
        live = await start(server, tmp_path, ELSEWHERE)
        await until(lambda: server.station.waits(live.id))
        assert NONE_THERE in await noetl(tmp_path, f"{other.url},{server.url}", "show", live.id)


async def test_a_queue_before_a_limit_is_told(tmp_path: Path) -> None:
    async with serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server:
        await start(server, tmp_path, LIMITED)
        second = await start(server, tmp_path, LIMITED)
        said = "busy waits for a slot (`concurrency.limit: 1` of `api`)"
        await until(lambda: server.station.waits(second.id) == [said])
        assert said in await noetl(tmp_path, server.url, "show", second.id)
