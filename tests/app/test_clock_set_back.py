"""A date that is set back stalls nothing: waits and retries take as long as they are to, and no longer after a restart."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_S

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.server.core import Effects, LiveExecution
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: main}\nworkflow:\n"
#: a quarter of a second each; what is measured by the date takes an hour or ten years
WAIT = "- {step: end, tool: {kind: wait, seconds: 0.25}}\n"
RETRY = """\
- step: end
  tool:
    kind: noop
    spec: {policy: {rules: [{when: "{{ _attempt < 2 }}", then: {do: retry, attempts: 3, delay: 0.25}}]}}
"""
TIMEOUT = "- {step: end, spec: {timeout: 0.25}, tool: {kind: wait, signal: never}}\n"
HOUR, TEN_YEARS = 3600.0, 315_576_000.0


class Site:
    """A home, and a date that can be set."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.back = folder, 0.0

    def node(self) -> LocalNode:
        effects = Effects(clock=lambda: time.time() - self.back, monotonic=time.monotonic)
        return LocalNode(Settings(self.folder), SqliteLog(self.folder / "noetl.db"), effects=effects)

    async def start(self, node: LocalNode, steps: str) -> LiveExecution:
        source, loaded = node.catalog.read(self.folder / "main.yaml", (HEAD + steps).encode())
        assert loaded.net is not None, loaded.diagnostics
        live = await node.start(source, loaded.net, {})
        last = "task.done" if "retry" in steps else "task.started"
        while last not in [event.name for event in node.log.read(live.id)]:
            await asyncio.sleep(0.005)
        return live


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


@pytest.mark.parametrize("steps", [WAIT, RETRY, TIMEOUT], ids=["wait", "retry", "timeout"])
@pytest.mark.parametrize("back", [HOUR, TEN_YEARS], ids=["an hour", "ten years"])
def test_what_was_begun_before_the_date_was_set_back_ends_in_its_time(site: Site, steps: str, back: float) -> None:
    async def main() -> None:
        async with site.node() as node:
            live = await site.start(node, steps)
            site.back = back
            await asyncio.shield(live.finished)
            stamps = [event.timestamp for event in node.log.read(live.id)]
            assert stamps == sorted(stamps)

    run(main())


@pytest.mark.parametrize("steps", [WAIT, RETRY, TIMEOUT], ids=["wait", "retry", "timeout"])
def test_what_is_resumed_after_the_date_was_set_back_waits_no_longer_than_was_recorded(site: Site, steps: str) -> None:
    async def main() -> None:
        async with site.node() as node:
            live = await site.start(node, steps)
            node.service.release(live)
        site.back = HOUR
        async with site.node() as node:
            await asyncio.shield((await node.resume(live.id)).finished)

    run(main())


def test_what_begins_after_the_date_was_set_back_has_the_new_date(site: Site) -> None:
    async def main() -> None:
        async with site.node() as node:
            before = await site.start(node, WAIT)
            site.back = HOUR
            after = await site.start(node, WAIT)
            await asyncio.gather(before.finished, after.finished)
            assert node.log.read(after.id)[-1].timestamp < node.log.read(before.id)[0].timestamp

    run(main())


def test_a_wait_is_over_when_the_date_is_set_forward_beyond_it(site: Site) -> None:
    async def main() -> None:
        async with site.node() as node:
            live = await site.start(node, WAIT.replace("0.25", "3000"))
            site.back = -HOUR
            await asyncio.shield(live.finished)

    run(main())
