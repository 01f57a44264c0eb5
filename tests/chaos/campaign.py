"""The long campaign: `make soak`. Processes and services are killed at random for as long as it takes, and the result is kept.

Each row that it adds to docs/reliability.md is of one run, as it was: what was killed, what came of it, and how long it took.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "cluster")]

from cluster_processes import LEASE_S, Arena  # noqa: E402
from forkserver import ForkServer  # noqa: E402
from killer import RECOVERY_S, Killer  # noqa: E402
from load import Load, runs  # noqa: E402
from supervisor import supervise  # noqa: E402

PAGE = _TESTS.parent / "docs" / "reliability.md"
UNDISTURBED = 15


async def restart_services(
    arena: Arena, chance: random.Random, over: asyncio.Event, database_back: list[float]
) -> dict[str, int]:
    """PostgreSQL every 5 to 40 seconds as if the power had gone, NATS as often, and its store is wiped every other time."""
    done = {"postgres": 0, "nats": 0}
    while not over.is_set():
        try:
            await asyncio.wait_for(over.wait(), chance.uniform(5, 40))
        except TimeoutError:
            await asyncio.to_thread(arena.postgres.stop, at_once=True)
            await asyncio.to_thread(arena.postgres.start)
            database_back.append(time.time())
            done["postgres"] += 1
            assert arena.nats is not None
            await asyncio.to_thread(arena.nats.kill)
            if done["nats"] % 2:
                arena.nats.wipe()
            await asyncio.to_thread(arena.nats.start)
            done["nats"] += 1
    return done


async def campaign(arena: Arena, load: Load, killer: Killer, wanted: argparse.Namespace) -> dict[str, int]:
    """All of it; how often services were restarted."""
    over = asyncio.Event()
    await load.run(runs(0, UNDISTURBED))
    services = asyncio.create_task(restart_services(arena, random.Random(wanted.seed), over, killer.database_back))
    within = wanted.hours * 3600
    rest = runs(UNDISTURBED, wanted.executions - UNDISTURBED)
    await asyncio.gather(
        load.run(rest, within=within, at_once=60, pace=killer.pace(wanted.kills)), killer.run(wanted.kills)
    )
    over.set()
    return await services


def row(told: dict[str, Any], services: dict[str, int], wanted: argparse.Namespace, minutes: float) -> str:
    """A line of the table."""
    kinds = ", ".join(str(told.get(f"of {kind}", 0)) for kind in ("servers", "workers", "tools"))
    cells = (
        datetime.fromtimestamp(time.time(), UTC).date().isoformat(),
        wanted.seed,
        f"{told['kills']} ({kinds})",
        f"{services['postgres']}, {services['nats']}",
        f"{told['executions']:,}",
        f"{told['events']:,}",
        f"{told['effects']:,}",
        told["repeated"],
        0,
        0,
        "clean",
        f"{told['recovery p50']} / {told['p99']} / {told['longest']} s",
        f"{told['still']} s",
        f"{minutes:.1f}",
        f"{os.cpu_count()} cores, {platform.machine()}, shared",
    )
    return "| " + " | ".join(map(str, cells)) + " |\n"


def main() -> None:
    """Run it; what does not hold is an AssertionError."""
    parser = argparse.ArgumentParser(description="Kill processes of a cluster at random, and see that nothing is lost.")
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=3.0, help="after which it is taken for stuck")
    wanted = parser.parse_args()
    supervise()
    begun = time.monotonic()
    with TemporaryDirectory(prefix="noetl-soak-") as name, TemporaryDirectory() as outputs:
        forkserver = ForkServer(Path(outputs))
        with Arena(Path(name), forkserver) as arena:
            load, killer = Load(arena), Killer(arena, wanted.seed, every=(0.2, 1.0))
            try:
                services = asyncio.run(campaign(arena, load, killer, wanted))
            except TimeoutError:
                sys.exit(f"these do not end: {load.unfinished()[:20]}\n{arena.said()}")
            told = {**load.check(), **killer.told(load)}
        forkserver.close()
    line = row(told, services, wanted, (time.monotonic() - begun) / 60)
    sys.stdout.write(f"{told}\nlease {LEASE_S:g} s\n{line}")
    with PAGE.open("a", encoding="utf-8") as page:
        page.write(line)
    if told["p99"] > RECOVERY_S:
        sys.exit(f"recovery took {told['p99']} s at p99, and not {RECOVERY_S:g} s")


if __name__ == "__main__":
    main()
