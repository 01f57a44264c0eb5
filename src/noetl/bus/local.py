"""No bus: everybody looks for work now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from noetl.cluster_ports import HINT_BYTES, Hint


class LocalBus:
    """Says nothing, hears nothing."""

    trouble = ""

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def wake(self, pool: str, hint: bytes) -> None:  # noqa: ARG002  the port's
        """Nobody hears it."""
        assert len(hint) < HINT_BYTES, "ids travel, never data"

    async def next(self, pools: Sequence[str], most: int, timeout: float) -> list[Hint]:  # noqa: ARG002, ASYNC109
        """None, when the time is over."""
        await asyncio.sleep(timeout)
        return []

    async def tell(self, worker: str, body: bytes) -> None:  # noqa: ARG002
        """Nobody hears it."""
        assert len(body) < HINT_BYTES, "ids travel, never data"

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        """There is nothing to hear."""

    def ignore(self, worker: str) -> None:
        """There is nothing to hear."""

    async def close(self) -> None:
        """There is nothing to let go of."""
