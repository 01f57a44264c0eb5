"""PostgreSQL and NATS that end and begin again under load: that costs time, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cluster_processes import CALM_LEASE_S, Arena
from forkserver import ForkServer
from load import Load, runs

UNDISTURBED, RUNS = 12, 150
#: a fixed number: on a slow machine, restarts for as long as the load lasts would prolong the load
RESTARTS = 4


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="noetl-arena-") as name:
        yield Path(name)


@pytest.mark.slow
def test_a_database_that_breaks_down_again_and_again_loses_nothing(folder: Path, forkserver: ForkServer) -> None:
    chance = random.Random(6)
    with Arena(folder, forkserver, nats=False) as arena:
        load, restarts = Load(arena), 0

        async def break_down() -> None:
            nonlocal restarts
            while restarts < RESTARTS:
                await asyncio.sleep(chance.uniform(0.8, 2.5))
                await asyncio.to_thread(arena.postgres.stop, at_once=True)
                await asyncio.sleep(chance.uniform(0, 0.8))
                await asyncio.to_thread(arena.postgres.start)
                restarts += 1

        def pace() -> float:
            """Keep some of the load for after each restart: a database that nobody uses loses nothing."""
            return (restarts + 1) / (RESTARTS + 1)

        async def campaign() -> None:
            await load.run(runs(0, UNDISTURBED))
            await asyncio.gather(load.run(runs(UNDISTURBED, RUNS), pace=pace), break_down())

        asyncio.run(campaign())
        print(load.check())


@pytest.mark.slow
def test_hints_that_are_lost_with_their_server_and_its_store_delay_work_and_no_more(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, lease_s=CALM_LEASE_S) as arena:
        assert arena.nats is not None
        nats = arena.nats
        for worker in arena.workers:  # they hear of work by hints alone
            worker.kill()
            worker.environment["NOETL_POLL"] = "off"
            worker.start()
        load = Load(arena)

        async def restart() -> None:
            for wiped in (False, True, False, True):
                await asyncio.sleep(1.5)
                await asyncio.to_thread(nats.kill)
                if wiped:
                    nats.wipe()
                await asyncio.sleep(0.5)
                await asyncio.to_thread(nats.start)

        async def campaign() -> None:
            await load.run(runs(0, UNDISTURBED))
            await asyncio.gather(load.run(runs(UNDISTURBED, RUNS)), restart())
            await load.run(runs(UNDISTURBED + RUNS, 12))  # behind the last of it, hints are heard again

        asyncio.run(campaign())
        print(load.check())
        assert load.effects()["repeated"] == 0, "hints decide nothing: nobody runs anything because of them"
