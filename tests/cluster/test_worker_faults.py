"""Workers and servers that stand still, are told to end, or are killed by what they run."""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from cluster_processes import CALM_LEASE_S, LEASE_S, Arena
from forkserver import ForkServer
from killer import none_left
from load import HEAD, Load, Run, runs

#: an effect, and then some time in which its task is still under way, unless it begins when there is a file that says so
SLOW = """
- step: only
  tool:
    kind: python
    input: {key: "{{ task_key }}", url: "{{ workload.ledger }}/{{ workload.run }}/only", for_s: SECONDS, hurry: "HURRY"}
    code: |
      import os, time, urllib.request
      def main(key, url, for_s, hurry):
          for_s = 0 if os.path.exists(hurry) else for_s
          request = urllib.request.Request(url, b"", {"Idempotency-Key": key}, method="POST")
          urllib.request.urlopen(request).read()
          time.sleep(for_s)
          return 1
- {step: end}
"""
#: more than an event holds: it goes into a file
BIG = """
- step: big
  tool:
    kind: python
    code: "result = ['x' * 1000] * 2000"
    spec: {policy: {rules: [{when: '{{ output.status == "error" }}', then: {do: retry, attempts: 100, backoff: fixed, delay: 0.2}}]}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: fits}}
"""
#: ends the worker that runs it
POISON = """
- step: before
  tool: {kind: noop}
  next: {arcs: [{step: bad}]}
- step: bad
  tool: {kind: shell, cmd: 'kill -9 $PPID'}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="noetl-arena-") as name:
        yield Path(name)


async def until(holds: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < end, "it does not come to hold"
        await asyncio.sleep(0.05)


def hurry(load: Load) -> Path:
    """What is begun once this file is there takes no time."""
    return load.arena.folder / "hurry"


async def start_slow(load: Load, numbers: range, seconds: float) -> list[str]:
    """Start executions whose only task lasts so long."""
    text = (HEAD % ("slow", "slow") + SLOW).replace("SECONDS", str(seconds))
    text = text.replace("HURRY", str(hurry(load)))
    async with load.session() as session:
        for number in numbers:
            run = Run(number, "slow")
            load.started[run] = await load.start(session, run, text)
    return [load.started[Run(number, "slow")] for number in numbers]


def leases(arena: Arena) -> dict[str, float]:
    """Return until when each worker is believed to live."""
    with psycopg.connect(arena.postgres.url(), autocommit=True) as connection:
        found = connection.execute(
            "SELECT worker, extract(epoch FROM until)::float FROM noetl.worker WHERE NOT given_up"
        )
        return dict(found.fetchall())


def keys(load: Load) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for label, key, _ in load.ledger():
        found.setdefault(label, []).append(key)
    return found


@pytest.mark.slow
def test_a_worker_that_stood_still_beyond_its_lease_loses_what_it_had_and_its_tools_die(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False, slots=12) as arena:
        load = Load(arena)
        frozen, other = arena.workers
        other.kill()

        async def scenario() -> None:
            await start_slow(load, range(6), LEASE_S)  # it hears their ends when it goes on
            await start_slow(load, range(6, 12), 600)
            await until(lambda: len(keys(load)) == 12)
            frozen.send(signal.SIGSTOP)
            tools = frozen.descendants()
            assert tools, "it has nothing to do"
            hurry(load).touch()
            other.start()
            await until(lambda: load.over(load.started.values()) == {*load.started.values()})
            frozen.send(signal.SIGCONT)
            await until(lambda: none_left(tools))

        asyncio.run(scenario())
        assert {state.status for state in load.states().values()} == {"completed"}
        assert all(len(set(found)) == 1 for found in keys(load).values()), "an effect has a second key"
        assert any(len(found) > 1 for found in keys(load).values()), "nobody took over"


@pytest.mark.slow
def test_a_server_that_stands_still_costs_no_worker_its_lease(folder: Path, forkserver: ForkServer) -> None:
    with Arena(folder, forkserver, nats=False, lease_s=CALM_LEASE_S) as arena:
        load = Load(arena)
        frozen = arena.servers[0]

        async def scenario() -> None:
            arena_urls, arena.ports = arena.ports, arena.ports[1:]  # all of it is the other server's
            await start_slow(load, range(8), CALM_LEASE_S / 2)
            arena.ports = arena_urls
            await until(lambda: len(load.ledger()) == 8)
            frozen.send(signal.SIGSTOP)
            try:
                for _ in range(2):
                    before = leases(arena)
                    assert len(before) == len(arena.workers)
                    await until(
                        lambda before=before: all(leases(arena)[name] > until for name, until in before.items())
                    )
                await until(lambda: load.over(load.started.values()) == {*load.started.values()})
            finally:
                frozen.send(signal.SIGCONT)

        asyncio.run(scenario())
        assert all(len(found) == 1 for found in keys(load).values()), "a task was run again"


@pytest.mark.slow
def test_who_is_told_to_end_finishes_what_it_has_and_nothing_is_run_again(folder: Path, forkserver: ForkServer) -> None:
    with Arena(folder, forkserver, nats=False, lease_s=CALM_LEASE_S) as arena:
        load = Load(arena)

        async def ends() -> None:
            for member in (arena.workers[0], arena.servers[0], arena.workers[1], arena.servers[1]):
                await asyncio.sleep(1.0)
                assert await asyncio.to_thread(member.end) in (0, 130, -signal.SIGTERM), member.said()
                member.start()

        async def campaign() -> None:
            await load.run(runs(0, 12))
            await start_slow(load, range(1000, 1006), 2.0)
            await asyncio.gather(load.run(runs(12, 80)), ends())
            await until(lambda: load.over(load.started.values()) == {*load.started.values()})

        asyncio.run(campaign())
        assert {state.status for state in load.states().values()} == {"completed"}
        again = {label: found for label, found in keys(load).items() if len(found) > 1}
        assert not again, f"run again: {again}"


@pytest.mark.slow
def test_what_a_worker_has_no_time_to_finish_goes_back_and_is_done_by_another(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False) as arena:
        load = Load(arena)
        hasty = arena.workers[0]
        hasty.kill()
        hasty.words[-1] = "0.2"
        hasty.start()
        arena.workers[1].kill()

        async def scenario() -> None:
            await start_slow(load, range(8), 600)
            await until(lambda: len(keys(load)) == 8)
            begun = len(load.ledger())
            hurry(load).touch()
            arena.workers[1].start()
            await asyncio.to_thread(hasty.end)
            await until(lambda: len(load.ledger()) > begun)
            await until(lambda: load.over(load.started.values()) == {*load.started.values()})

        asyncio.run(scenario())
        assert {state.status for state in load.states().values()} == {"completed"}
        assert all(len(set(found)) == 1 for found in keys(load).values()), "an effect has a second key"


@pytest.mark.slow
def test_a_pipeline_that_kills_its_workers_fails_with_its_reason_and_others_go_on(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False) as arena:
        load = Load(arena)

        async def revive() -> None:
            while True:
                for worker in arena.workers:
                    if not worker.lives:
                        worker.start()
                await asyncio.sleep(0.1)

        async def scenario() -> None:
            reviving = asyncio.create_task(revive())
            await load.run(runs(0, 12))
            async with load.session() as session:
                bad = await load.start(session, Run(500, "bad"), HEAD % ("bad", "bad") + POISON)
            await start_slow(load, range(600, 610), 1.0)
            await load.run(runs(12, 60))
            await until(lambda: load.over([bad, *load.started.values()]) == {bad, *load.started.values()})
            load.started[Run(500, "bad")] = bad
            reviving.cancel()

        asyncio.run(scenario())
        states = {run: load.states()[name] for run, name in load.started.items()}
        bad = states.pop(Run(500, "bad"))
        assert bad.status == "failed"
        error: Any = bad.error
        assert "given out" in error["message"], error
        assert {state.status for state in states.values()} == {"completed"}
        assert all(len(set(found)) == 1 for found in keys(load).values()), "an effect has a second key"


@pytest.mark.slow
def test_a_worker_whose_disk_is_full_says_so_and_goes_on_when_there_is_room_again(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False, servers=1, workers=1) as arena:
        load, worker = Load(arena), arena.workers[0]
        text = HEAD % ("big", "big") + BIG

        async def scenario() -> None:
            before = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
            async with load.session() as session:
                # No file may grow from now on: what a full disk looks like to one process.
                resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (0, before[1]))
                load.started[Run(0, "full")] = full = await load.start(session, Run(0, "full"), text)
                await until(lambda: load.over([full]))
                resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, before)
                load.started[Run(1, "room")] = room = await load.start(session, Run(1, "room"), text)
                await until(lambda: load.over([room]))

        asyncio.run(scenario())
        states = {run.kind: load.states()[name] for run, name in load.started.items()}
        error: Any = states["full"].error
        assert "disk" in str(error), error
        assert (states["room"].status, states["room"].output) == ("completed", "fits"), states["room"].error
