"""A server and workers apart: what is decided in one is run in the others."""

from __future__ import annotations

from pathlib import Path

from fleet import serving, working

from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog

CHAIN = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: chain, path: chain}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'n': 1}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(20) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 10}}
    tool: {kind: python, input: {n: "{{ iter.n }}"}, code: "result = n * 2"}
    set: {ctx.all: "{{ output.data }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
    output: {total: "{{ ctx.all | sum }}"}
"""


async def test_a_playbook_runs_on_workers_elsewhere(tmp_path: Path) -> None:
    log = MemoryLog()
    async with serving(log, MemoryRegistry(2.0), tmp_path) as server, working([server.url], tmp_path / "w"):
        station = server.station
        source, loaded = station.catalog.read(tmp_path / "chain.yaml", CHAIN)
        assert loaded.net is not None, loaded.diagnostics
        live = await station.start(source, loaded.net, {})
        await live.finished
        assert live.state.status == "completed", live.state.error
        assert live.state.output == {"total": 380}
