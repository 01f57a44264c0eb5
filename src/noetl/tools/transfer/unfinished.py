"""Transfers that failed where another attempt may go on. What nobody has taken up at the end of the execution is removed."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from noetl.ports import World
from noetl.tools.datahost.hosts import CallFailed, Hosts


class Unfinished:
    """Those of one execution."""

    def __init__(self) -> None:
        self._left: dict[str, Callable[[], Awaitable[None]]] = {}

    @classmethod
    async def of(cls, world: World) -> Unfinished:
        """Those of an execution; they are closed before its data hosts."""
        await Hosts.of(world)

        async def make() -> Unfinished:
            return cls()

        return await world.resource("unfinished transfers", make, cls.close)

    def leave(self, token: str, remove: Callable[[], Awaitable[None]]) -> None:
        """Leave what a transfer has made so far; `remove` does away with it."""
        self._left[token] = remove

    def taken_up(self, token: str) -> None:
        """Another attempt has come."""
        self._left.pop(token, None)

    async def close(self) -> None:
        """Remove what is left."""
        left, self._left = self._left, {}
        for remove in left.values():
            with contextlib.suppress(CallFailed):
                await remove()
