"""Which bus an installation names, and what there is where it names none."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from noetl.bus import LocalBus, open_bus
from noetl.bus.nats_bus import NatsBus
from noetl.config import Secret, Settings
from noetl.errors import UsageError
from noetl.ports.cluster import HINT_BYTES, Bus


def test_no_bus_waits_and_says_nothing(tmp_path: Path) -> None:
    async def whole(bus: Bus) -> None:
        await bus.open()
        await bus.wake("p", b"1")
        await bus.notify("w", b"1")
        bus.listen("w", lambda body: None)
        since = time.monotonic()
        assert await bus.next(["p"], 1, 0.1) == []
        assert time.monotonic() - since >= 0.09
        with pytest.raises(AssertionError, match="ids travel"):
            await bus.wake("p", b"x" * HINT_BYTES)
        assert bus.trouble == ""
        await bus.close()

    bus = open_bus(Settings(tmp_path))
    assert isinstance(bus, LocalBus)
    asyncio.run(whole(bus))


def test_nats_is_named_by_its_servers(tmp_path: Path) -> None:
    bus = open_bus(Settings(tmp_path, bus=Secret("nats://me:hush@a:1,nats://b:2/team.one")))
    assert isinstance(bus, NatsBus)
    assert str(bus.address) == "nats://a:1,nats://b:2"
    assert (bus.subject("default"), bus.stream("default")) == ("team.one.work.default", "team_one_work_default")
    assert open_bus(Settings(tmp_path, bus=Secret("nats://a"))).subject("p") == "noetl.work.p"  # type: ignore[attr-defined]


def test_an_address_that_is_none_is_told_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NOETL_BUS is no address") as caught:
        open_bus(Settings(tmp_path, bus=Secret("nats://me:hush@a:b")))
    assert "hush" not in str(caught.value)
