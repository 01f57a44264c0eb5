"""What is kept of the past is bounded, and what was forgotten is made again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.lru import LruCache
from noetl.ports import PlaybookSource
from noetl.server.core import catalog, control_plane, service
from noetl.stores.memory import MemoryLog
from noetl.worker import remote_executions

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\n"


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    kept: LruCache[str, int] = LruCache(3)
    for at, name in enumerate("abc"):
        kept.put(name, at)
    assert kept.get("a") == 0
    kept.put("d", 3)
    assert [kept.get(name) for name in "abcd"] == [0, None, 2, 3]


def test_what_is_put_again_is_weighed_once_and_what_came_last_stays_however_heavy() -> None:
    kept: LruCache[str, int] = LruCache(10)
    for at in range(100):
        kept.put("a", at, 5)
    kept.put("b", 1, 5)
    assert (kept.get("a"), kept.get("b"), len(kept)) == (99, 1, 2)
    kept.put("c", 2, 1000)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (None, None, 2)
    kept.put("d", 3, 1)
    assert (kept.get("c"), kept.get("d")) == (None, 3)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place remembers next to nothing."""
    for module in (catalog, control_plane, remote_executions):
        monkeypatch.setattr(module, "TEXT", 1)
    monkeypatch.setattr(service, "_NET_INDEXES", 1)


@pytest.mark.usefixtures("forgetful")
def test_executions_go_on_whose_playbooks_were_forgotten(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(HEAD.replace("it", "other") + "workflow:\n- {step: a, tool: {kind: noop}}\n")
    calls = (
        "workflow:\n- {step: a, tool: [{name: w, kind: wait, seconds: 0.2}, {name: c, kind: playbook, path: other}]}\n"
    )

    async def scenario() -> None:
        async with LocalNode(Settings(home=tmp_path, environment={}), MemoryLog()) as node:
            going = []
            for at in range(5):
                text = f"{HEAD}# {at}\n{calls}".encode()
                source, loaded = node.catalog.read(tmp_path / "it.yaml", text)
                assert loaded.net is not None, loaded.diagnostics
                going.append(await node.start(source, loaded.net, {}))
            for live in going:
                await live.finished
                assert live.state.status == "completed", live.state.error
                assert node.source(live.state.playbook).hash == live.state.playbook
            assert len(node.catalog._loaded) == len(node._sources) == len(node.service._net_indexes) == 1
            with pytest.raises(NoetlError, match="no playbook"):
                node.source("nowhere")

    asyncio.run(scenario())


class Fetching:
    """A link that brings playbooks, and fails at first."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def source(self, wanted: str) -> PlaybookSource:
        self.asked.append(wanted)
        await asyncio.sleep(0)
        if len(self.asked) == 1:
            raise NoetlError("away")
        return PlaybookSource(wanted, "text", "it.yaml")


@pytest.mark.usefixtures("forgetful")
def test_a_worker_fetches_again_what_it_has_forgotten_or_could_not_have() -> None:
    async def scenario() -> None:
        sources, link = remote_executions.PlaybookCache(), Fetching()

        async def fetched(wanted: str) -> Any:
            return await sources.fetch(cast("Any", link), wanted)

        with pytest.raises(NoetlError):
            await fetched("a")
        assert {one.hash for one in await asyncio.gather(fetched("a"), fetched("a"))} == {"a"}
        await fetched("a")
        await fetched("b")
        await fetched("a")
        assert link.asked == ["a", "a", "b", "a"]
        assert len(sources._known) == 1
        assert not sources._coming

    asyncio.run(scenario())
