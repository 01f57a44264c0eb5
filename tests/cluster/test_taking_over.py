"""Several servers on one database: what one leaves, another goes on with."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import psycopg
from fleet import serving, working
from servers import Database
from test_handing_out import HEAD, marking, marks, start, until

from noetl.model.requests import Signal, encode_request
from noetl.model.wire import HeldPipeline
from noetl.ports import Summary
from noetl.server.core.service import LiveExecution
from noetl.server.core.start_keys import StartKey
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

WAITS = (
    "workflow:\n- {step: ask, tool: {kind: wait, signal: ok}, next: {arcs: [{step: end}]}}\n"
    "- {step: end, tool: {kind: noop}}\n"
)


def log_of(database: Database) -> PostgresLog:
    return PostgresLog(database.url, lease_s=20.0)


def registry_of(database: Database) -> PgRegistry:
    return PgRegistry(database.url, 60.0)


async def test_a_worker_goes_on_with_what_it_has_when_its_server_leaves(tmp_path: Path, database: Database) -> None:
    async with serving(log_of(database), registry_of(database), tmp_path, lease_s=1.0) as second:
        async with serving(log_of(database), registry_of(database), tmp_path, lease_s=1.0) as first:
            urls = [first.url, second.url]
            outpost = working(urls, tmp_path / "w")
            await outpost.__aenter__()
            live = await start(first, tmp_path, marking(tmp_path, 4))
            await until(lambda: marks(tmp_path) == ["begun"])
            await asyncio.sleep(1)
        await until(lambda: live.id in second.station.service.live or marks(tmp_path) == ["begun", "ended"])
        log = second.station.log
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]
        await outpost.__aexit__(None, None, None)
    assert marks(tmp_path) == ["begun", "ended"]


async def test_a_child_is_found_by_its_recorded_id_and_not_started_again_by_the_next_server(
    tmp_path: Path, database: Database
) -> None:
    """The caller's `task.started` has the id of the child before the child starts: that is the child's key."""
    (tmp_path / "child.yaml").write_text(HEAD.replace("it", "child") + WAITS)
    text = HEAD + "workflow:\n- {step: call, tool: {kind: playbook, path: child}}\n"
    key = StartKey("ann", "monday", "digest")
    async with (
        contextlib.AsyncExitStack() as stack,
        serving(log_of(database), registry_of(database), tmp_path, lease_s=1.0) as second,
    ):
        log = second.station.log
        async with serving(log_of(database), registry_of(database), tmp_path, lease_s=1.0) as first:
            await stack.enter_async_context(working([first.url, second.url], tmp_path / "w"))
            source, loaded = first.station.catalog.read(tmp_path / "it.yaml", text.encode())
            assert loaded.net is not None
            live = await first.station.start_once(key, source, loaded.net, {})
            assert isinstance(live, LiveExecution)
            await until(lambda: any(child.seq > 5 for child in log.summaries(parent=live.id)))
            (child,) = log.summaries(parent=live.id)
        await until(lambda: {live.id, child.execution_id} <= second.station.service.live.keys())
        (event,) = [event for event in log.read(live.id) if event.name == "task.started"]
        assert event.payload["wait"]["child"]["execution_id"] == child.execution_id
        assert log.execution_of_key("", child.execution_id) is None
        await asyncio.to_thread(log.post, child.execution_id, encode_request(Signal("ok")))
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]
        assert [one.execution_id for one in log.summaries(parent=live.id)] == [child.execution_id]
        again = await second.station.start_once(key, source, loaded.net, {})
        assert isinstance(again, Summary)
        assert again.execution_id == live.id


async def test_what_only_waits_leaves_the_memory_and_comes_back_for_a_signal(
    tmp_path: Path, database: Database
) -> None:
    log = log_of(database)
    async with (
        serving(log, registry_of(database), tmp_path, lease_s=1.0, cluster_store=log) as server,
        working([server.url], tmp_path / "w"),
    ):
        live = await start(server, tmp_path, WAITS)
        await until(lambda: live.id not in server.station.service.live)
        assert log.summary(live.id).status == "running"  # type: ignore[union-attr]
        assert log.find_unowned(10) == []
        log.post(live.id, encode_request(Signal("ok")))
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]


async def test_what_only_waits_is_woken_in_time_by_any_server(tmp_path: Path, database: Database) -> None:
    workflow = "workflow:\n- {step: nap, tool: {kind: wait, seconds: 7}}\n"
    log = log_of(database)
    async with (
        serving(log, registry_of(database), tmp_path, lease_s=1.0, cluster_store=log) as server,
        working([server.url], tmp_path / "w"),
    ):
        live = await start(server, tmp_path, workflow)
        await until(lambda: live.id not in server.station.service.live)
    log = log_of(database)
    async with (
        serving(log, registry_of(database), tmp_path, lease_s=1.0, cluster_store=log) as other,
        working([other.url], tmp_path / "w"),
    ):
        await until(lambda: log.summary(live.id).status == "completed")  # type: ignore[union-attr]
        events = {event.name: event.timestamp for event in log.read(live.id)}
    assert _between(events["task.started"], events["task.done"]) > 6.5


def _between(earlier: str, later: str) -> float:
    from noetl.model.events import epoch_seconds

    return epoch_seconds(later) - epoch_seconds(earlier)


async def test_a_worker_that_was_given_up_is_so_for_every_server(database: Database) -> None:
    log = log_of(database)
    one, other = registry_of(database), registry_of(database)
    for registry in (one, other):
        registry._trouble -= 3600  # it has been there for an hour
    assert await one.renew("w", {})
    assert await other.knows("w")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE noetl.worker SET until = now() - '1 second'::interval")
    assert (await one.give_up()).given_up == ["w"]
    assert "w" in (await other.give_up()).given_up
    assert not await other.renew("w", {})
    assert not await one.knows("w")
    await one.add_dead_letter(HeldPipeline("x", "s-1", "2.0", "", "w", 5), "it fell over", "crm/sync")
    assert other.list_dead_letters(paths=["crm", "crm/*x", "payroll/*"]) == []
    assert other.list_dead_letters(paths=["crm/*"]) == other.list_dead_letters()
    (letter,) = other.list_dead_letters()
    assert (letter["execution_id"], letter["iteration"], letter["why"]) == ("x", "2.0", "it fell over")
    for registry in (one, other):
        registry.close()
    await log.close()
