"""A local server whose store takes nothing for a while resumes what it had to give up, by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from waiting import until

from noetl.app import local, server
from noetl.config import Settings
from noetl.model.events import Event
from noetl.model.requests import Signal, encode_request
from noetl.ports import StoreFailed
from noetl.stores.sqlite_log import SqliteLog

WAITS = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: waits}
workflow:
  - step: end
    tool: {kind: wait, signal: go}
"""


class Full(SqliteLog):
    """A log on a disk that may be full."""

    full = False

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        if self.full:
            raise StoreFailed("no space is left")
        await super().append(events, status=status, snapshot=snapshot)

    async def probe(self) -> None:
        if self.full:
            raise StoreFailed("no space is left")
        await super().probe()


def test_what_could_not_be_recorded_is_resumed_when_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lines = Full(tmp_path / "noetl.db"), list[str]()
    monkeypatch.setattr(server, "open_log", lambda _settings: log)
    monkeypatch.setattr(local, "_FIRST_RETRY_S", 0.1)

    async def main() -> None:
        found = Settings(home=tmp_path)
        async with server.prepare_local_server(found, "127.0.0.1", 0, print_line=lines.append) as made:
            node = made.node
            source, loaded = node.catalog.read(tmp_path / "waits.yaml", WAITS)
            live = await node.start(source, loaded.net, {})
            log.full = True
            node.service.post(live.id, [Signal("go", {})])
            await until(lambda: any("nothing can be recorded" in line for line in lines))
            with pytest.raises(StoreFailed):
                await node.start(source, loaded.net, {})
            assert live.id not in node.service.live
            log.full = False
            await until(lambda: live.id in node.service.live)
            log.post(live.id, encode_request(Signal("go", {})))
            await until(lambda: (one := log.summary(live.id)) is not None and one.status == "completed")
            await until(lambda: any("recorded again" in line for line in lines))

    asyncio.run(main())
    assert len([line for line in lines if "recorded" in line]) == 2
