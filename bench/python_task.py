"""How long a python task takes: the first of an execution, which starts a process, and the next ones.

    python bench/python_task.py    a table; exit code 1 when a limit is broken

The first is also shown as a ratio to the start of bare Python, measured in the same run: on a busy machine it may take
more than its limit as long as it stays below twice that.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))

from noetl.ports import Call  # noqa: E402
from noetl.tools.python import kind  # noqa: E402

EXECUTIONS = 15
TASKS = 1_000
MOST_FIRST_MS = 60.0
MOST_FIRST_RATIO = 2.0
MOST_WARM_MS = 1.5
CODE = "def main(n, factor=2):\n    return {'n': n * factor}\n"


class World:
    """A folder, an environment, what is kept, and no log."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.environment = dict(os.environ)
        self._kept: dict[str, tuple[Any, Callable[[Any], Awaitable[None]]]] = {}

    async def resource(
        self, name: str, make: Callable[[], Awaitable[Any]], close: Callable[[Any], Awaitable[None]]
    ) -> Any:
        if name not in self._kept:
            self._kept[name] = await make(), close
        return self._kept[name][0]

    def log(self, call: Call, stream: str, text: str) -> None:
        """Nobody reads it."""

    async def close(self) -> None:
        for made, close in self._kept.values():
            await close(made)


def call_of(kind: str, config: dict[str, Any], **values: Any) -> Call:
    """A task."""
    return Call(kind, "execution", "step", "task", config, values, values, {}, "key", 1, {})


async def task(world: World) -> float:
    """Milliseconds of one task."""
    started = time.perf_counter()
    output = await kind.run(call_of("python", {"code": CODE}, n=21), world)
    took = (time.perf_counter() - started) * 1e3
    assert output["data"] == {"n": 42}, output
    return took


def bare() -> float:
    """Milliseconds of Python that does nothing."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - started) * 1e3


async def measure(folder: str) -> tuple[float, float, float]:
    """Medians: the first task, the next ones, bare Python."""
    first, theirs = [], []
    for number in range(EXECUTIONS + 1):
        world = World(folder)
        took = await task(world)
        await world.close()
        if number:  # the very first one imports what the engine itself needs
            first.append(took)
            theirs.append(await asyncio.to_thread(bare))
    world = World(folder)
    warm = [await task(world) for _ in range(TASKS + 1)][1:]
    await world.close()
    return statistics.median(first), statistics.median(warm), statistics.median(theirs)


def main() -> int:
    """Measure, print a table, say whether the limits hold."""
    with tempfile.TemporaryDirectory() as folder:
        first, warm, theirs = asyncio.run(measure(folder))
    first_kept = first <= MOST_FIRST_MS or first / theirs <= MOST_FIRST_RATIO
    print(
        f"first python task  {first:6.2f} ms  {first / theirs:4.2f}× of {theirs:.1f} ms (python -c pass), "
        f"limit {MOST_FIRST_MS:g} ms  {'ok' if first_kept else 'BROKEN'}"
    )
    print(f"warm python task   {warm:6.2f} ms, limit {MOST_WARM_MS:g} ms  {'ok' if warm <= MOST_WARM_MS else 'BROKEN'}")
    return 0 if first_kept and warm <= MOST_WARM_MS else 1


if __name__ == "__main__":
    sys.exit(main())
