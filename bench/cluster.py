"""How fast a cluster is: a server, two workers, PostgreSQL and NATS in processes of their own, beside DBOS on PostgreSQL.

    python bench/cluster.py                     a table; exit code 1 when a limit is broken
    python bench/cluster.py chain append        some of: chain, loop, many, events, idle, append, second
    python bench/cluster.py --waiting 100000    only the figures of so many executions that wait (long)

Peers are measured alternately with the cluster and on the same PostgreSQL. Of the rounds the best counts, of each side: on a
busy machine the others say how busy it was. DBOS is looked for in `build/peers`, where `make bench` puts it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "peers")]

from engine import HEAD, PEERS, Table, chain, fan  # noqa: E402
from fleet import Client, Fleet, Services  # noqa: E402

ROUNDS = 3
#: so much is done in a round; of DBOS less, to save time: whether its rate depends on it was not looked at
COUNTS = {"chain": 600, "loop": 10_000, "many": 1_000}
PEER_COUNTS = {"chain": 600, "queue": 300, "many": 150}
TITLES = {
    "chain": "chain of 600 steps",
    "loop": "loop of 10,000 items, distributed",
    "many": "1,000 executions of 5 steps",
}
LIMITS = {"chain": ("chain", 1.5), "loop": ("queue", 30.0), "many": ("many", 5.0)}
#: events that an iteration of one task writes
EVENTS = 4
#: pipelines that have the log written to: so many, of so many tasks, two events each beside the two of the iteration
PIPELINES, TASKS = 2_000, 20
PIPELINE = HEAD + (
    "- step: each\n"
    '  loop: {in: "{{ workload.items }}", iterator: i, spec: {mode: parallel, max_in_flight: 256}}\n'
    "  tool:\n" + "".join(f"    - t{number}: {{kind: noop}}\n" for number in range(TASKS))
)
IDLE = 150
ITEMS, ITEM_MS = 60, 50
SPIN = HEAD + (
    "- step: each\n"
    '  loop: {in: "{{ workload.items }}", iterator: i, spec: {mode: parallel, max_in_flight: 64}}\n'
    '  tool:\n    kind: python\n    input: {seconds: "{{ workload.seconds }}"}\n    code: |\n'
    "      import time\n\n      def main(seconds):\n          end = time.process_time() + seconds\n"
    "          while time.process_time() < end:\n              pass\n          return 1\n"
)


def dbos(services: Services, mode: str) -> float:
    """What DBOS does in a second; its queue with a second process, as the cluster has two workers."""
    environment = {**os.environ, "PYTHONPATH": str(PEERS)}
    peer, url = str(HERE / "peers" / "dbos_cluster.py"), services.database()
    command = [sys.executable, peer, mode, str(PEER_COUNTS[mode]), url]
    helper: subprocess.Popen[str] | None = None
    if mode == "queue":
        words = [sys.executable, peer, "work", "0", url]
        helper = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        assert helper.stdout is not None
        assert helper.stdout.readline() == "ready\n"
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=300)
    finally:
        if helper is not None:
            helper.kill()
            helper.communicate()
    return float(done.stdout.split()[-1])


async def ours(url: str, mode: str) -> float:
    """What the cluster does in a second."""
    count = COUNTS[mode]
    async with Client(url) as client:
        if mode == "chain":
            return count / await client.run(chain(count, "noop"))
        if mode == "loop":
            return count / await client.run(fan("noop"), {"items": list(range(count))})
        before, playbook = time.time(), chain(5, "noop")
        names = await asyncio.gather(*(client.start(playbook) for _ in range(count)))
        ends = [await client.end(name) for name in names]
        return count / (max(ends) - before)


def rates(services: Services, table: Table, mode: str) -> None:
    """Chain, loop or many executions, against DBOS."""
    peer, limit = LIMITS[mode]
    mine: list[float] = []
    theirs: list[float] = []
    with Fleet(services) as fleet:
        asyncio.run(warm(fleet.url))
        for _ in range(ROUNDS):
            mine.append(asyncio.run(ours(fleet.url, mode)))
            if (PEERS / "dbos").is_dir():
                theirs.append(dbos(services, peer))
        if os.environ.get("BENCH_CPU"):
            print(fleet.cpu())
    if theirs:
        rate, other = max(mine), max(theirs)
        table.row(TITLES[mode], f"{rate:,.0f}/s", f"of DBOS ({other:,.0f}/s)", rate / other, limit)


async def warm(url: str) -> None:
    async with Client(url) as client:
        for _ in range(3):
            await client.run(chain(20, "noop"))
            await client.run(fan("noop"), {"items": list(range(100))})


def append_rates(services: Services) -> tuple[float, float]:
    """Events that `EventLog.append` writes in a second, and rows that COPY does."""
    command = [sys.executable, str(HERE / "peers" / "pg_append.py"), services.database()]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=300)
    written, copied = done.stdout.split()
    return float(written), float(copied)


def append(services: Services, table: Table) -> None:
    """The log by itself."""
    taken = [append_rates(services) for _ in range(ROUNDS)]
    rate, other = (max(column) for column in zip(*taken, strict=True))
    table.row("EventLog.append", f"{rate:,.0f}/s", f"of COPY alone ({other:,.0f}/s)", rate / other, 0.5)


def events(services: Services, table: Table) -> None:
    """The log under load, from the tasks that report to what is durable; against COPY of as many rows by nobody else."""
    mine: list[float] = []
    plain: list[float] = []
    copied: list[float] = []
    with Fleet(services) as fleet:
        asyncio.run(warm(fleet.url))
        for _ in range(ROUNDS):
            mine.append(asyncio.run(_pipelines(fleet.url)) * (2 + 2 * TASKS))
            plain.append(asyncio.run(ours(fleet.url, "loop")) * EVENTS)
            copied.append(append_rates(services)[1])
    rate, least, other = max(mine), max(plain), max(copied)
    table.row(
        f"events of pipelines of {TASKS} tasks", f"{rate:,.0f}/s", f"of COPY alone ({other:,.0f}/s)", rate / other, 0.2
    )
    print(f"    (of a loop of single no-ops: {least:,.0f}/s, {least / other:.2f}× of COPY)")


async def _pipelines(url: str) -> float:
    async with Client(url) as client:
        return PIPELINES / await client.run(PIPELINE, {"items": list(range(PIPELINES))})


def idle(services: Services, table: Table) -> None:
    """From a request to the first effect of a task, with workers that hear of work by NATS alone."""
    with Fleet(services, polls=False) as fleet:
        rounds = [asyncio.run(_latencies(fleet.url)) for _ in range(ROUNDS)]
    best = min(rounds, key=statistics.median)
    p50, p99 = statistics.median(best), statistics.quantiles(best, n=100)[98]
    table.row("idle: request to first task, p50", f"{p50:.1f} ms", "of 15 ms", p50 / 15, 1, most=True)
    table.row("  p99", f"{p99:.1f} ms", "of 60 ms", p99 / 60, 1, most=True)


async def _latencies(url: str) -> list[float]:
    """Milliseconds until a task's own request came in here."""
    came: dict[str, float] = {}

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        came.setdefault(line.split()[1].decode(), time.perf_counter())
        while (await reader.readline()).strip():
            pass
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n"
        writer.write(head + b"{}")
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    here = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    playbook = HEAD + '- {step: call, tool: {kind: http, url: "{{ workload.url }}"}}\n'
    taken = []
    async with Client(url) as client:
        for number in range(IDLE + 10):
            before = time.perf_counter()
            name = await client.start(playbook, {"url": f"{here}/{number}"})
            await client.end(name, 0.02)
            taken.append((came[f"/{number}"] - before) * 1000)
    server.close()
    return taken[10:]


def second(services: Services, table: Table) -> None:
    """What a second worker brings, where the work is the CPU's."""
    taken: dict[int, list[float]] = {1: [], 2: []}
    payload = {"items": list(range(ITEMS)), "seconds": ITEM_MS / 1000}
    for _ in range(ROUNDS):
        for workers, found in taken.items():
            with Fleet(services, workers=workers, slots=1) as fleet:
                found.append(ITEMS / asyncio.run(_spin(fleet.url, payload)))
    one, two = max(taken[1]), max(taken[2])
    table.row("a second worker, 50 ms of CPU", f"{two:,.1f}/s", f"of one ({one:,.1f}/s)", two / one, 1.7)


async def _spin(url: str, payload: dict[str, object]) -> float:
    async with Client(url) as client:
        await client.run(SPIN, {"items": [1, 2], "seconds": 0.001})
        return await client.run(SPIN, payload)


def main() -> int:
    """Measure, print a table, say whether every limit holds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "figures", nargs="*", help="chain, loop, many, events, idle, append, second; all if none is named"
    )
    options.add_argument("--waiting", type=int, metavar="N", help="only the figures of N executions that wait")
    chosen = options.parse_args()
    table = Table()
    measures: dict[str, Callable[[Services], None]] = {
        mode: lambda services, mode=mode: rates(services, table, mode)
        for mode in COUNTS  # type: ignore[misc]
    }
    measures |= {one.__name__: lambda services, one=one: one(services, table) for one in (append, events, idle, second)}  # type: ignore[misc]
    if unknown := [name for name in chosen.figures if name not in measures]:
        options.error(f"there is no figure {unknown[0]}; there are {', '.join(measures)}")
    with Services() as services:
        if chosen.waiting:
            from waiting import waiting

            waiting(services, table, chosen.waiting)
        for name in chosen.figures or ([] if chosen.waiting else measures):
            measures[name](services)
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())
