"""Two builds beside each other: the figures of another checkout and of this one, measured alternately.

    python bench/compare.py ../before                     every figure; exit code 1 when one is worse by more than 3 %
    python bench/compare.py ../before chain run resume    some of them
    python bench/compare.py ../before --rounds 15         more rounds than 7

Both checkouts need their environment (`make .venv/.ready`). The builds take turns, and the first of a round changes from round
to round. What counts is the median over the rounds of new / old, in wall time. The median of the processor time stands beside
it: where a disk decides how long a run takes, the processor time is the steadier of the two, so a figure is worse only if both are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "peers")]

from cluster import ours as cluster_rate, warm  # noqa: E402
from engine import COUNTS, chain  # noqa: E402
from fleet import Fleet, Services  # noqa: E402
from validate import LARGE, playbook  # noqa: E402

ROUNDS = 7
LIMIT = 1.03
#: steps of the chain that is killed, and what each takes
LONG, STEP_S = 24, 0.03


class Cost(NamedTuple):
    """What a measurement took."""

    wall: float
    cpu: float


Measure = Callable[[Path, Path], Cost]


def run(root: Path, home: Path, *words: str) -> Cost:
    """What a command of the build at `root` takes, from the start of its process to the end."""
    environment = {**os.environ, "NOETL_HOME": str(home)}
    environment.pop("PYTHONPATH", None)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([root / ".venv/bin/noetl", *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def start(*words: str) -> Measure:
    """A command with nothing to do but to start."""
    return lambda root, folder: run(root, folder / "home" / root.name, *words)


def start_with_file(text: str, *words: str) -> Measure:
    """A command about a playbook of this text."""

    def measure(root: Path, folder: Path) -> Cost:
        file = folder / "playbook.yaml"
        file.write_text(text)
        return run(root, folder / "home" / root.name, *words, str(file))

    return measure


def embedded(mode: str, times: int) -> Measure:
    """The engine in one process on SQLite."""
    count = COUNTS[mode] * times

    def measure(root: Path, folder: Path) -> Cost:  # noqa: ARG001
        command = [root / ".venv/bin/python", root / "bench/engine.py", "--one", mode, str(count), "process", "noop"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Cost(count / float(done.stdout.split()[0]), after.ru_utime - before.ru_utime)

    return measure


def resume(root: Path, folder: Path) -> Cost:
    """From the start of `resume` after kill -9 to the first new step."""
    marks, file = folder / "marks", folder / "long.yaml"
    marks.unlink(missing_ok=True)
    home = Path(tempfile.mkdtemp(dir=folder))
    command = f'date +%s.%N >> "{marks}"; sleep {STEP_S}'
    file.write_text(chain(LONG, f"shell, cmd: '{command}'"))
    environment = {**os.environ, "NOETL_HOME": str(home)}
    words = [root / ".venv/bin/noetl", "run", str(file), "--json"]
    first = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not marks.exists() or len(marks.read_text().split()) < LONG // 3:
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before, started = len(marks.read_text().split()), time.time()
    cost = run(root, home, "resume", "last", "--json")
    return Cost(float(marks.read_text().split()[before]) - started, cost.cpu)


class Clusters:
    """A cluster of each build over services that both share, started when first asked for."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._fleets: dict[Path, Fleet] = {}

    def measure(self, mode: str) -> Measure:
        """Chain, loop or many executions."""

        def measure(root: Path, folder: Path) -> Cost:  # noqa: ARG001
            fleet = self._fleets.get(root) or self._start(root)
            before = sum(process.cpu() for process in fleet.processes)
            rate = asyncio.run(cluster_rate(fleet.url, mode))
            return Cost(1 / rate, sum(process.cpu() for process in fleet.processes) - before)

        return measure

    def _start(self, root: Path) -> Fleet:
        self._services = self._services or Services().__enter__()
        fleet = self._fleets[root] = Fleet(self._services, checkout=root).__enter__()
        asyncio.run(warm(fleet.url))
        return fleet

    def stop(self) -> None:
        """End every process that was started."""
        for fleet in self._fleets.values():
            fleet.__exit__()
        if self._services is not None:
            self._services.__exit__()


@contextmanager
def figures() -> Iterator[dict[str, Measure]]:
    """Every figure by its name."""
    clusters = Clusters()
    try:
        yield {
            "version": start("--version"),
            "help": start("--help"),
            "run": start_with_file(chain(3, "noop"), "run"),
            "validate": start_with_file(playbook(5), "validate"),
            "validate-large": start_with_file(playbook(LARGE // 4), "validate"),
            "ps": start("ps"),
            "resume": resume,
            "chain": embedded("chain", 3),
            "loop": embedded("fan", 2),
            "many": embedded("many", 2),
            "cluster-chain": clusters.measure("chain"),
            "cluster-loop": clusters.measure("loop"),
            "cluster-many": clusters.measure("many"),
        }
    finally:
        clusters.stop()


def compare(name: str, measure: Measure, old: Path, new: Path, rounds: int, folder: Path) -> bool:
    """Print the medians of both; whether the new one is not worse."""
    costs: dict[Path, list[Cost]] = {old: [], new: []}
    for number in range(rounds + 1):
        for root in (old, new) if number % 2 else (new, old):
            costs[root].append(measure(root, folder))
    before, after = costs[old][1:], costs[new][1:]  # the first round fills caches
    wall, cpu = (statistics.median(n[i] / o[i] for o, n in zip(before, after, strict=True)) for i in (0, 1))
    middle = [statistics.median(cost.wall for cost in side) * 1000 for side in (before, after)]
    good = wall <= LIMIT or cpu <= LIMIT
    print(
        f"{name:15} {middle[0]:10.2f} ms {middle[1]:10.2f} ms   wall {wall:5.3f}×  cpu {cpu:5.3f}×   "
        f"{'ok' if good else 'WORSE'}",
        flush=True,
    )
    return good


def main() -> int:
    """Measure alternately, print a table, say whether anything became worse."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old", type=lambda text: Path(text).resolve())
    options.add_argument("names", nargs="*")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = options.parse_args()
    with figures() as known, tempfile.TemporaryDirectory() as folder:
        if unknown := set(chosen.names) - set(known):
            options.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        print(f"{'':15} {'old':>13} {'new':>13}   new / old, median of {chosen.rounds} rounds")
        names = chosen.names or list(known)
        good = [compare(name, known[name], chosen.old, HERE.parent, chosen.rounds, Path(folder)) for name in names]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
