"""How workers are woken. A bus is only a hint: the log says what there is to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from noetl.config import Settings
from noetl.ports import HINT_BYTES, Bus, ReceivedHint

# No bus: everybody looks for work now and then.


class LocalBus:
    """Says nothing, hears nothing."""

    trouble = ""

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def wake(self, pool: str, hint: bytes) -> None:  # noqa: ARG002  the port's
        """Nobody hears it."""
        assert len(hint) < HINT_BYTES, "ids travel, never data"

    async def next(self, pools: Sequence[str], most: int, timeout: float) -> list[ReceivedHint]:  # noqa: ARG002, ASYNC109
        """None, when the time is over."""
        await asyncio.sleep(timeout)
        return []

    async def notify(self, worker: str, body: bytes) -> None:  # noqa: ARG002
        """Nobody hears it."""
        assert len(body) < HINT_BYTES, "ids travel, never data"

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        """There is nothing to hear."""

    def stop_listening(self, worker: str) -> None:
        """There is nothing to hear."""

    async def close(self) -> None:
        """There is nothing to let go of."""


def open_bus(settings: Settings) -> Bus:
    """The bus of the settings, not yet open. UsageError: an address in them is none."""
    if settings.bus is None:
        return LocalBus()
    from noetl.bus.nats_bus import NatsBus
    from noetl.drivers.nats import address_of

    return NatsBus(address_of(settings.bus.reveal(), "NOETL_BUS"))
