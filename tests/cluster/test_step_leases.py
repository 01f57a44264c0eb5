"""The lease of a step in a cluster: heartbeats as often as it asks for, and another worker when they stay away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from cluster_processes import CALM_LEASE_S, LEASE_S, Arena
from fleet import serving, working
from forkserver import ForkServer
from killer import none_left
from load import HEAD, Load, Run
from servers import Database
from test_handing_out import gated, marks, start, until, vanish
from test_worker_faults import until as until_elsewhere

from noetl.model.events import Fact
from noetl.model.wire import PROTOCOL, Heartbeat, HeldPipeline, PipelineReport, WorkerMessage
from noetl.ports import WorkerRegistry
from noetl.server.cluster.workers import MemoryRegistry
from noetl.stores.memory import MemoryLog
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry


def leased(workflow: str, lease: str) -> str:
    """The same workflow, with a lease of its first step."""
    return workflow.replace("  tool:", f"  spec: {{lease: {lease}}}\n  tool:", 1)


@pytest.fixture
def tables(database: Database) -> str:
    """The address of a database with its tables."""
    asyncio.run(PostgresLog(database.url).close())
    return database.url


ONE_STEP = leased("workflow:\n- step: only\n  tool: {kind: noop}\n", "{ttl_s: 60}")


# --- heartbeats --------------------------------------------------------------------------------------------------------


async def test_a_worker_beats_as_often_as_the_shortest_lease_of_what_it_has_asks_for(tmp_path: Path) -> None:
    """Its own lease is 60 s: without the order, the next beat would come after 20 s."""
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "w", beat_s=600) as outpost,
    ):
        live = await start(server, tmp_path, leased(gated(tmp_path), "{ttl_s: 30, heartbeat_s: 0.1}"))
        await until(lambda: marks(tmp_path) == ["begun"])
        (entry,) = server.station.dispatcher.leased.values()
        heard = {entry.heard}
        await until(lambda: heard.add(entry.heard) or len(heard) > 5)
        assert outpost._heartbeat_interval() == 0.1
        (tmp_path / "go").touch()
        await live.finished
        await until(lambda: not outpost.agent.held)
        assert outpost._heartbeat_interval() == 20
    assert live.state.status == "completed"
    assert marks(tmp_path) == ["begun", "ended"]


async def test_a_worker_that_gets_a_longer_lease_says_so_at_once(tmp_path: Path) -> None:
    registry = MemoryRegistry(60.0)
    async with (
        serving(MemoryLog(), registry, tmp_path) as server,
        working([server.url], tmp_path / "w", beat_s=600) as outpost,
    ):
        await start(server, tmp_path, leased(gated(tmp_path), "{ttl_s: 3600}"))
        await until(lambda: registry._kept.get(outpost.agent.name) == 3540)
        (tmp_path / "go").touch()
        await until(lambda: not outpost.agent.held)


async def test_a_worker_that_no_server_hears_lets_go_of_each_pipeline_when_its_lease_is_over(tmp_path: Path) -> None:
    async with (
        serving(MemoryLog(), MemoryRegistry(60.0), tmp_path) as server,
        working([server.url], tmp_path / "w", beat_s=600) as outpost,
    ):
        await start(server, tmp_path, leased(gated(tmp_path), "{ttl_s: 600}"))
        await until(lambda: marks(tmp_path) == ["begun"])
        beats, name = outpost._heartbeats, outpost.agent.name
        assert beats is not None
        for silence_s in (61, 599):  # beyond the lease of the cluster, and within that of the pipeline
            beats._last -= silence_s - beats.silence_s
            outpost._on_silence()
            assert (len(outpost.agent.queue.heartbeat()), outpost.agent.name) == (1, name)
        beats._last -= 601 - beats.silence_s
        outpost._on_silence()
        assert outpost.agent.queue.heartbeat() == []
        assert outpost.agent.name != name
        assert beats.silence_s < 600
        await until(lambda: not outpost.agent.held)
    assert marks(tmp_path) == ["begun"]


# --- servers -----------------------------------------------------------------------------------------------------------


async def test_a_pipeline_whose_lease_runs_out_is_run_by_another_though_its_worker_is_registered(
    tmp_path: Path,
) -> None:
    registry = MemoryRegistry(3600.0)
    async with (
        serving(MemoryLog(), registry, tmp_path) as server,
        working([server.url], tmp_path / "a") as first,
    ):
        said: list[str] = []
        server.station.worker_api.roster.print_line = said.append
        live = await start(server, tmp_path, leased(gated(tmp_path), "{ttl_s: 1}"))
        await until(lambda: marks(tmp_path) == ["begun"])
        await vanish(first)
        async with working([server.url], tmp_path / "b"):
            await until(lambda: marks(tmp_path) == ["begun"] * 2)
            assert first.agent.name in {row["worker"] for row in registry.workers()}
            (tmp_path / "go").touch()
            await live.finished
    assert live.state.status == "completed"
    assert marks(tmp_path) == ["begun", "begun", "ended"]
    expected = f"worker {first.agent.name} sent no heartbeat in time for a lease; a pipeline was given out again"
    assert expected in said


async def test_a_report_under_a_lease_that_ran_out_is_refused_and_noted(tmp_path: Path) -> None:
    log, registry = MemoryLog(), MemoryRegistry(3600.0)
    async with serving(log, registry, tmp_path) as server:
        station, hours = server.station, 0.0
        clock, station.remote.now = station.remote.now, lambda: clock() + 3600 * hours
        await registry.renew("frozen", {})
        await registry.renew("other", {})
        live = await start(server, tmp_path, ONE_STEP)
        asks = WorkerMessage("frozen", pools=["default"], room=5, wait=20, protocol=PROTOCOL)
        (given,) = (await station.worker_api.serve(asks)).assignments
        assert given.lease is not None
        assert (given.lease.ttl_s, given.lease.heartbeat_s) == (60, 20)
        held = [HeldPipeline(*given.key, given.fence)]
        for _ in range(100):  # a minute and a half goes by, a second at each look, and it is heard all the time
            hours += 1 / 3600
            await station.worker_api.alive(Heartbeat("frozen", held))
            station.worker_api.expire_leases()
        (entry,) = station.dispatcher.list_held()
        assert entry.fence == given.fence
        for _ in range(70):
            hours += 1 / 3600
            await station.worker_api.alive(Heartbeat("frozen"))
            station.worker_api.expire_leases()
        other = WorkerMessage("other", pools=["default"], room=5, wait=20, protocol=PROTOCOL)
        (again,) = (await station.worker_api.serve(other)).assignments
        assert again.key == given.key
        fact = Fact("step.started", given.order.step_run_id, {}, "in_progress")
        late = PipelineReport(*given.key, given.fence, [fact])
        seq = live.state.seq
        reply = await station.worker_api.serve(WorkerMessage("frozen", [late], pools=["default"]))
        assert reply.refused == [0]
        assert live.state.seq == seq
        assert any("fence" in line.text and "is stale" in line.text for _, line in log.lines(live.id))
        reply = await station.worker_api.alive(Heartbeat("frozen", held))
        assert list(zip(reply.stops, reply.stop_fences, strict=True)) == [(given.key, given.fence)]


async def test_while_the_database_is_away_heartbeats_keep_their_leases(tmp_path: Path, tables: str) -> None:
    registry = PgRegistry(tables, 3600.0)
    async with serving(MemoryLog(), registry, tmp_path) as server:
        station, seconds = server.station, 0.0
        clock, station.remote.now = station.remote.now, lambda: clock() + seconds
        await registry.renew("w", {})
        await start(server, tmp_path, ONE_STEP)
        asks = WorkerMessage("w", pools=["default"], room=5, wait=20, protocol=PROTOCOL)
        (given,) = (await station.worker_api.serve(asks)).assignments
        registry.close()
        registry._url, registry._renewed = "postgresql://127.0.0.1:1/none", {}
        for _ in range(70):
            seconds += 1
            with pytest.raises(Exception, match=r"127\.0\.0\.1"):
                await station.worker_api.alive(Heartbeat("w", [HeldPipeline(*given.key, given.fence)]))
            station.worker_api.expire_leases()
        (entry,) = station.dispatcher.list_held()
        assert entry.fence == given.fence


# --- registries --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "postgres"])
def registry(request: pytest.FixtureRequest) -> Iterator[WorkerRegistry]:
    if request.param == "memory":
        yield MemoryRegistry(20.0)
        return
    made = PgRegistry(request.getfixturevalue("tables"), 20.0)
    made._trouble -= 3600  # the database has been there for an hour
    yield made
    made.close()


def grow_silent(registry: WorkerRegistry, worker: str, seconds: float) -> None:
    """Nobody has heard of a worker for so long."""
    if isinstance(registry, MemoryRegistry):
        registry._until[worker] -= seconds
        return
    assert isinstance(registry, PgRegistry)
    with psycopg.connect(registry._url, autocommit=True) as connection:
        connection.execute(
            "UPDATE noetl.worker SET until = until - %s * interval '1 second' WHERE worker = %s", (seconds, worker)
        )


async def test_a_registry_keeps_a_silent_worker_for_its_longest_lease(registry: WorkerRegistry) -> None:
    assert await registry.renew("long", {"slots": 1}, 3600.0)
    assert await registry.renew("short", {"slots": 1}, 1.0)
    assert await registry.give_up() == ([], [])
    for name in ("long", "short"):
        grow_silent(registry, name, 60)
    lost = await registry.give_up()
    assert (lost.given_up, lost.silent) == (["short"], ["long"])
    assert [row["worker"] for row in registry.workers()] == [], "neither is believed to live"
    assert await registry.knows("long")
    assert not await registry.knows("short")
    assert not await registry.renew("short", {}, 0.0)
    grow_silent(registry, "long", 3600)
    lost = await registry.give_up()
    assert "long" in lost.given_up
    assert lost.silent == []
    assert not await registry.knows("long")


async def test_a_silent_worker_that_is_heard_again_is_as_it_was(registry: WorkerRegistry) -> None:
    assert await registry.renew("w", {}, 3600.0)
    grow_silent(registry, "w", 60)
    assert (await registry.give_up()).silent == ["w"]
    assert await registry.renew("w", {}, 0.0)
    assert await registry.give_up() == ([], [])
    assert [row["worker"] for row in registry.workers()] == ["w"]


async def test_frequent_heartbeats_are_not_all_written(tables: str) -> None:
    registry = PgRegistry(tables, 3600.0)
    with psycopg.connect(tables, autocommit=True) as connection:
        written = []
        for longest_s in (0.0, 0.0, 0.0, 7200.0, 7200.0, 0.0):
            assert await registry.renew("w", {}, longest_s)
            (row,) = connection.execute("SELECT xmin::text FROM noetl.worker").fetchall()
            written.append(row)
    registry.close()
    assert [at for at in range(1, 6) if written[at] != written[at - 1]] == [3, 5], "only what changes what is believed"


# --- processes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="noetl-arena-") as name:
        yield Path(name)


#: an effect, and then its task is under way until there is a file
GATED = """
- step: only
  tool:
    kind: python
    input: {key: "{{ task_key }}", url: "{{ workload.ledger }}/{{ workload.run }}/only", go: "GO"}
    code: |
      import os, time, urllib.request
      def main(key, url, go):
          request = urllib.request.Request(url, b"", {"Idempotency-Key": key}, method="POST")
          urllib.request.urlopen(request).read()
          while not os.path.exists(go):
              time.sleep(0.05)
          return 1
- {step: end}
"""


async def start_gated(load: Load, run: Run, lease: str | None) -> str:
    """Start an execution whose only task waits for the file, under a lease."""
    text = HEAD % (run.kind, run.kind) + GATED.replace("GO", str(load.arena.folder / "go"))
    async with load.session() as session:
        load.started[run] = await load.start(session, run, leased(text, lease) if lease else text)
    return load.started[run]


def begins(load: Load, run: Run) -> list[str]:
    """The keys under which a run's task has begun, each as often as it has."""
    return [key for label, key, _ in load.ledger() if label == f"{run.number}/only"]


def ask(arena: Arena, query: str) -> list[Any]:
    with psycopg.connect(arena.postgres.url(), autocommit=True) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def ends(arena: Arena, execution_id: str) -> int:
    log = PostgresLog(arena.postgres.url())
    try:
        return [event.name for event in log.read(execution_id)].count("task.done")
    finally:
        asyncio.run(log.close())


@pytest.mark.slow
def test_a_worker_that_stands_still_loses_an_order_with_a_short_lease_long_before_it_counts_as_dead(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False, servers=1, lease_s=10 * CALM_LEASE_S) as arena:
        load, short, next_one = Load(arena), Run(0, "short"), Run(1, "next")
        frozen, other = arena.workers
        other.kill()

        async def scenario() -> None:
            await start_gated(load, short, "{ttl_s: 2}")
            await until_elsewhere(lambda: begins(load, short))
            frozen.send(signal.SIGSTOP)
            tools = frozen.descendants()
            assert tools, "it has nothing to do"
            other.start()
            await until_elsewhere(lambda: len(begins(load, short)) == 2)
            # What the first one ran ends, too, and its worker reports that as soon as it can.
            (arena.folder / "go").touch()
            await until_elsewhere(lambda: load.over([load.started[short]]))
            assert not any(ask(arena, "SELECT given_up FROM noetl.worker")), "it was not the lease of the cluster"
            other.kill()
            frozen.send(signal.SIGCONT)
            await until_elsewhere(lambda: none_left(tools))
            await start_gated(load, next_one, None)
            await until_elsewhere(lambda: load.over([load.started[next_one]]))

        asyncio.run(scenario())
        assert len(set(begins(load, short))) == 1, "the effect has a second key"
        assert {state.status for state in load.states().values()} == {"completed"}
        assert ends(arena, load.started[short]) == 1, "what it said under its old fence counted"


@pytest.mark.slow
def test_a_worker_that_stands_still_keeps_an_order_with_a_long_lease_when_the_others_are_given_away(
    folder: Path, forkserver: ForkServer
) -> None:
    with Arena(folder, forkserver, nats=False, lease_s=LEASE_S) as arena:
        load, kept, lost = Load(arena), Run(0, "kept"), Run(1, "lost")
        frozen, other = arena.workers
        other.kill()

        async def scenario() -> None:
            await start_gated(load, kept, "{ttl_s: 3600}")
            await start_gated(load, lost, None)
            await until_elsewhere(lambda: begins(load, kept) and begins(load, lost))
            await until_elsewhere(
                lambda: ask(arena, "SELECT 1 FROM noetl.worker WHERE (about->>'keep_s')::float8 > 3000")
            )
            frozen.send(signal.SIGSTOP)
            (arena.folder / "go").touch()
            other.start()
            await until_elsewhere(lambda: load.over([load.started[lost]]))
            assert not load.over([load.started[kept]])
            frozen.send(signal.SIGCONT)
            await until_elsewhere(lambda: load.over([load.started[kept]]))

        asyncio.run(scenario())
        assert {state.status for state in load.states().values()} == {"completed"}
        assert len(begins(load, lost)) > 1, "nobody took over what has no lease of its own"
        assert len(begins(load, kept)) == 1, "it was given away before its lease was over"
