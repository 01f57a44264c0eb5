"""A playbook run as `noetl run` runs it, from the start of its execution to the end; what it imports is there.

ours.py FILE HOME PAYLOAD    prints seconds, MB of the engine at its peak, MB of its data hosts at theirs; and seconds without its
                             first step, where that is called `warm`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

# The peers have imported what they speak with before their clocks start, too.
import aiohttp  # noqa: F401
import psycopg  # noqa: F401

from noetl.app.local import LocalNode, open_log
from noetl.config import Settings
from noetl.model.events import Event, epoch_seconds

EVERY_S = 0.1


def peak(pid: int) -> float:
    """The most memory that a process ever had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def below(pid: int) -> list[int]:
    """The processes that one has started, and those that they have."""
    found: list[int] = []
    with contextlib.suppress(OSError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = [int(one) for one in (task / "children").read_text().split()]
            found += children + [other for one in children for other in below(one)]
    return found


class Peaks(threading.Thread):
    """Looks at what this process has started, as long as it is there."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, float] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(EVERY_S):
            for pid in below(os.getpid()):
                with contextlib.suppress(OSError, IndexError, ProcessLookupError):
                    self.seen[pid] = peak(pid)


def warmed(events: list[Event]) -> float:
    """Seconds from the first event to the one that ends the step `warm`."""
    ends = [one.timestamp for one in events if one.name == "step.done" and one.entity_id == "warm"]
    return epoch_seconds(ends[0]) - epoch_seconds(events[0].timestamp) if ends else 0.0


async def main(file: str, home: str, payload: str) -> None:
    settings = Settings(Path(home), "process", dict(os.environ))
    peaks = Peaks()
    async with LocalNode(settings, open_log(settings)) as house:
        source, loaded = house.catalog.read(Path(file))
        assert loaded.net is not None, loaded.diagnostics
        peaks.start()
        started = time.perf_counter()
        hot = await house.start(source, loaded.net, json.loads(payload))
        await hot.finished
        took = time.perf_counter() - started
        peaks.over.set()
        peaks.join()
        assert hot.state.status == "completed", hot.state.error
        warm = warmed(house.log.read(hot.state.execution_id))
    print(took, peak(os.getpid()), sum(peaks.seen.values()), took - warm)


asyncio.run(main(*sys.argv[1:]))
