"""Waiting for what happens elsewhere. The limit only ends a test that fails; it says nothing about how fast a machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0


async def until(holds: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
    """Wait while others in this process, or outside of it, get there."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"what the test waits for did not happen within {seconds:g} s"
        await asyncio.sleep(0.01)


def wait_until(holds: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
    """The same where there is no event loop."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"what the test waits for did not happen within {seconds:g} s"
        time.sleep(0.01)
