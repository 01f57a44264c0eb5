"""Executions of an earlier version, whose playbooks this version would not start."""

from __future__ import annotations

from pathlib import Path

from fleet import serving, working
from waiting import until

from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog

#: an earlier version took `quotas` with a warning
BOOK = b"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: it, path: it}
workflow:
- step: start
  spec: {policy: {quotas: {cpu: 1}}}
  tool: {kind: noop, output: done}
"""


async def test_an_execution_goes_on_though_its_playbook_is_refused_today(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(60.0)
    async with serving(log, registry, tmp_path) as server:
        source, loaded = server.station.catalog.read(tmp_path / "it.yaml", BOOK)
        assert loaded.net is None
        assert server.station.catalog.runnable(source) is None
        assert loaded.compiled is not None
        live = await server.station.start(source, loaded.compiled, {})
    async with serving(log, registry, tmp_path) as server, working([server.url], tmp_path / "w"):
        await server.station.resume(live.id)
        await until(lambda: (found := log.summary(live.id)) is not None and found.status == "completed")
