"""The desk: those who ask for the same name come one after the other, and nothing is left of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from noetl.server.http.routes import ApiContext


class Trail:
    async def close(self) -> None:
        """There is nothing to write."""


def context() -> ApiContext:
    control_plane = SimpleNamespace(service=SimpleNamespace(watchers=[]))
    return ApiContext(cast("Any", control_plane), cast("Any", None), cast("Any", Trail()), None, cast("Any", None))


def test_nothing_is_left_of_one_that_failed() -> None:
    async def scenario() -> None:
        made = context()
        with pytest.raises(ValueError, match="no"):
            async with made.lock_name("x"):
                raise ValueError("no")
        assert not made._alone
        assert not made._asking
        await made.close()

    asyncio.run(scenario())


def test_who_comes_when_one_leaves_waits_for_the_next() -> None:
    async def scenario() -> None:
        made, inside, most = context(), 0, 0

        async def ask() -> None:
            nonlocal inside, most
            async with made.lock_name("x"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.01)
                inside -= 1

        async def ask_and_again() -> None:
            await ask()
            await ask()

        await asyncio.gather(ask_and_again(), ask(), ask())
        assert most == 1
        assert not made._alone
        await made.close()

    asyncio.run(scenario())
