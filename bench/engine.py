"""How fast the engine is: beside DBOS on SQLite and beside the ceiling, in one run.

    python bench/engine.py              a table; exit code 1 when a limit is broken
    python bench/engine.py --million    also a loop of 1,000,000 iterations (minutes)

The ceiling (peers/ceiling.py) is the least any event-sourced engine must do. DBOS is looked for in `build/peers`, where
`make bench` puts it. Every log that a measurement leaves is checked by fsck.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
PEERS = HERE.parent / "build" / "peers"
RUNS = 3
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench}\nworkflow:\n"
COUNTS = {"chain": 1_000, "fan": 10_000, "many": 1_000}
PEER_COUNTS = {"chain": 200, "fan": 400, "many": 60}


def chain(count: int, kind: str) -> str:
    """A playbook of so many steps, one after the other."""
    following = [f"s{number}" for number in range(1, count)] + ["end"]
    steps = [
        f"- {{step: s{number}, tool: {{kind: {kind}}}, next: {{arcs: [{{step: {after}}}]}}}}\n"
        for number, after in enumerate(following)
    ]
    return HEAD + "".join(steps) + "- {step: end}\n"


def fan(kind: str) -> str:
    """A parallel loop over the payload's items, then a sum."""
    return HEAD + (
        "- step: each\n"
        '  loop: {in: "{{ workload.items }}", iterator: i,\n'
        "         spec: {mode: parallel, max_in_flight: 256, policy: {reduce: {ctx.total: sum}}}}\n"
        f'  tool: {{kind: {kind}, set: {{ctx.total: "{{{{ iter.i }}}}"}}}}\n'
    )


def register_plugin() -> None:
    """A no-op kind as a plugin has it: a module of its own, found like any other."""
    import types

    from msgspec.structs import replace

    from noetl.tools import noop, registry

    module = types.ModuleType("bench_noop")
    module.KIND = replace(noop.KIND, name="bench_noop")  # type: ignore[attr-defined]
    module.run = lambda call, world: noop.run(call, world)  # type: ignore[attr-defined]  # noqa: PLW0108

    class Found:
        name = "bench_noop"

        def load(self) -> Any:
            return module

    registry._plugins = lambda: {"bench_noop": Found()}  # type: ignore[attr-defined]  # noqa: SLF001


async def measure_here(mode: str, count: int, durability: str, kind: str) -> None:
    """Run it in this process; prints items per second and the peak of memory in MB."""
    from noetl.app.local import LocalNode, open_log
    from noetl.config import Settings

    if kind != "noop":
        register_plugin()
    text = {"chain": chain(count, kind), "fan": fan(kind), "many": chain(5, kind)}[mode]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(text)
        settings = Settings(Path(folder) / "home", "power" if durability == "power" else "process")
        async with LocalNode(settings, open_log(settings)) as house:
            source, loaded = house.catalog.read(file)
            assert loaded.net is not None, loaded.diagnostics
            net = loaded.net
            ticks: list[float] = []
            if mode == "fan":
                every = max(1, count // 10)
                house.service.watchers.append(lambda hot, _: _tick(hot, ticks, every))
            started = time.perf_counter()
            payload = {"items": list(range(count))} if mode == "fan" else {}
            hots = await asyncio.gather(
                *[house.start(source, net, payload) for _ in range(count if mode == "many" else 1)]
            )
            await asyncio.gather(*[hot.finished for hot in hots])
            took = time.perf_counter() - started
            assert all(hot.state.status == "completed" for hot in hots), hots[0].state.error
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        where = {**os.environ, "NOETL_HOME": str(settings.home), "PYTHONPATH": str(HERE.parent / "src")}
        subprocess.run([sys.executable, "-m", "noetl", "fsck"], check=True, stdout=subprocess.DEVNULL, env=where)  # noqa: ASYNC221
    tenths = [b - a for a, b in zip([started, *ticks], ticks, strict=False)]
    print(count / took, peak, tenths[0] / tenths[-1] if len(tenths) > 9 else 1.0)


def _tick(hot: Any, ticks: list[float], every: int) -> None:
    run = next(iter(hot.state.runs.values()), None)
    done = run.loop.completed if run is not None and run.loop is not None else len(ticks) * every + every
    while len(ticks) < 10 and done >= (len(ticks) + 1) * every:
        ticks.append(time.perf_counter())


def call(command: list[str], **environment: str) -> list[float]:
    """The numbers that a measurement prints, from a process of its own."""
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, **environment}, timeout=1_800
    )
    assert done.returncode == 0, done.stderr
    return [float(number) for number in done.stdout.split()]


def ours(mode: str, durability: str = "process", kind: str = "noop", count: int | None = None) -> list[float]:
    return call([sys.executable, __file__, "--one", mode, str(count or COUNTS[mode]), durability, kind])


def ceiling(mode: str, synchronous: str = "NORMAL") -> float:
    with tempfile.TemporaryDirectory() as folder:
        peer = str(HERE / "peers" / "ceiling.py")
        return call([sys.executable, peer, mode, str(COUNTS[mode]), synchronous, f"{folder}/log.db"])[0]


def dbos(mode: str) -> float | None:
    if not (PEERS / "dbos").is_dir():
        return None
    with tempfile.TemporaryDirectory() as folder:
        peer = str(HERE / "peers" / "dbos_peer.py")
        return call(
            [sys.executable, peer, mode, str(PEER_COUNTS[mode]), f"{folder}/dbos.db"], PYTHONPATH=str(PEERS)
        )[0]  # fmt: skip


class Table:
    """Prints figures as they come, and remembers whether all hold."""

    def __init__(self) -> None:
        self.holds = True

    def row(self, name: str, value: str, against: str, ratio: float, limit: float, *, most: bool = False) -> None:
        good = ratio <= limit if most else ratio >= limit
        self.holds = self.holds and good
        sign = "≤" if most else "≥"
        print(f"{name:34} {value:>14}  {ratio:7.2f}× {against:30} {sign} {limit:g}×  {'ok' if good else 'BROKEN'}")


def rates(table: Table) -> None:
    """Chain, loop and many executions, against both."""
    for mode, title, floor, peer_floor in (
        ("chain", "1,000-step chain, process", 0.3, 6),
        ("fan", "10,000-iteration loop, process", 0.2, 20),
        ("many", "1,000 executions of 5 steps", 0.0, 15),
    ):
        taken = [(ours(mode), ceiling(mode), dbos(mode)) for _ in range(RUNS)]
        rate = statistics.median(one[0][0] for one in taken)
        top = statistics.median(one[1] for one in taken)
        if floor:
            table.row(title, f"{rate:,.0f}/s", f"of the ceiling ({top:,.0f}/s)", rate / top, floor)
        peers = [one[2] for one in taken if one[2] is not None]
        if peers:
            peer = statistics.median(peers)
            table.row(title, f"{rate:,.0f}/s", f"of DBOS ({peer:,.0f}/s)", rate / peer, peer_floor)
        if mode == "fan":
            peak = max(one[0][1] for one in taken)
            table.row("  its memory", f"{peak:,.0f} MB", "of 200 MB", peak / 200, 1, most=True)


def others(table: Table) -> None:
    """Durability against power cuts, and kinds that are not ours."""
    pairs = [(ours("chain", "power")[0], ceiling("chain", "FULL")) for _ in range(RUNS)]
    rate, top = (statistics.median(column) for column in zip(*pairs, strict=True))
    table.row("1,000-step chain, power", f"{rate:,.0f}/s", f"of the ceiling ({top:,.0f}/s)", rate / top, 0.3)
    for mode, title in (("chain", "plugin's no-op, chain"), ("fan", "plugin's no-op, loop")):
        pairs = [(ours(mode, kind="bench_noop")[0], ours(mode)[0]) for _ in range(RUNS)]
        rate, own = (statistics.median(column) for column in zip(*pairs, strict=True))
        table.row(title, f"{rate:,.0f}/s", f"of the built-in ({own:,.0f}/s)", rate / own, 0.7)


def main() -> int:
    """Measure alternately, print a table, say whether every limit holds."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options.add_argument("--million", action="store_true")
    chosen = options.parse_args()
    if chosen.one:
        mode, count, durability, kind = chosen.one
        asyncio.run(measure_here(mode, int(count), durability, kind))
        return 0
    table = Table()
    rates(table)
    others(table)
    if chosen.million:
        rate, peak, steadiness = ours("fan", count=1_000_000)
        table.row("1,000,000 iterations", f"{rate:,.0f}/s", "of 1 GB at its peak", peak / 1000, 1, most=True)
        table.row("  last tenth", "", "of the first tenth's rate", steadiness, 0.8)
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())
