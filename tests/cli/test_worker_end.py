"""How `noetl worker` ends: it drains first, whoever wants it to end."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, cast

import pytest

from noetl.cli.commands.serve.worker import _work_until_signal
from noetl.errors import AccessDenied


class FakeNode:
    """A worker that has something under way until it is drained."""

    def __init__(self) -> None:
        self.drained: list[float] = []

    async def drain(self, grace_s: float) -> None:
        self.drained.append(grace_s)

    def kill(self) -> None:
        raise AssertionError("it has drained")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_worker_that_is_asked_to_end_drains(how: signal.Signals) -> None:
    async def whole() -> list[float]:
        node = FakeNode()
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), how)
        await _work_until_signal(cast("Any", node), asyncio.ensure_future(asyncio.sleep(600)), 7.0)
        return node.drained

    before = {name: signal.signal(name, signal.default_int_handler) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        assert asyncio.run(whole()) == [7.0]
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def test_a_worker_that_every_server_refuses_drains_and_says_why() -> None:
    async def refused() -> None:
        raise AccessDenied("it does not admit this worker", 401)

    async def whole(node: FakeNode) -> None:
        await _work_until_signal(cast("Any", node), asyncio.ensure_future(refused()), 7.0)

    node = FakeNode()
    with pytest.raises(AccessDenied):
        asyncio.run(whole(node))
    assert node.drained == [7.0]
