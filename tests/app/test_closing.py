"""Processes that end, or cannot begin: what was opened is closed, and nothing runs on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from noetl.app import prepare_server, server
from noetl.app.local import LocalNode
from noetl.app.worker import WorkerNode
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.results import PayloadStore
from noetl.stores.memory import MemoryLog


class FakeBus:
    """A bus that may refuse to open."""

    trouble = ""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses, self.closed = refuses, False

    async def open(self) -> None:
        if self.refuses:
            raise NoetlError("it refuses")

    async def close(self) -> None:
        self.closed = True

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        pass

    async def next(self, *_: object) -> list[Any]:
        await asyncio.Event().wait()
        return []


def run(test: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(whole())


def note_closing(patch: pytest.MonkeyPatch) -> list[str]:
    """What is closed of result stores."""
    closed: list[str] = []
    close = PayloadStore.close

    def noted(self: PayloadStore) -> None:
        closed.append("results")
        close(self)

    patch.setattr(PayloadStore, "close", noted)
    return closed


def test_a_server_that_fails_closes_its_results_and_its_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, bus = note_closing(monkeypatch), FakeBus()
    monkeypatch.setattr(server, "open_bus", lambda _settings: bus)

    async def main() -> None:
        found = Settings(home=tmp_path, bus="nats://nowhere")  # type: ignore[arg-type]
        async with prepare_server(found, "127.0.0.1", 0, print_line=lambda _line: None):
            raise RuntimeError("the test says so")

    with pytest.raises(RuntimeError, match="the test says so"):
        run(main())
    assert closed == ["results"]
    assert bus.closed


def test_a_worker_whose_bus_refuses_it_leaves_no_thread_and_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, bus = note_closing(monkeypatch), FakeBus(refuses=True)

    async def main() -> None:
        before = set(threading.enumerate())
        node = WorkerNode(Settings(home=tmp_path), ["http://127.0.0.1:9"], bus=bus)  # type: ignore[arg-type]
        with pytest.raises(NoetlError, match="it refuses"):
            await node.__aenter__()
        assert not [one for one in set(threading.enumerate()) - before if one.name == "noetl-pulse"]

    run(main())
    assert closed == ["results"]
    assert bus.closed


def test_a_worker_that_ends_leaves_no_task_running(tmp_path: Path) -> None:
    async def main() -> None:
        async with WorkerNode(Settings(home=tmp_path), ["http://127.0.0.1:9"]) as node:
            node.agent.spawn(asyncio.sleep(3600))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_a_local_node_that_ends_leaves_no_task_running_and_starts_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with LocalNode(Settings(home=tmp_path), MemoryLog()) as node:
            node.spawn(asyncio.sleep(3600))
        node.spawn(asyncio.sleep(3600))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
