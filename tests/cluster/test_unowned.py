"""Executions that a server has in memory, and that the database says are not its own: they still hear what is asked of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from fleet import serving, working
from servers import Database
from test_handing_out import marking, marks, start, until

from noetl.model.requests import Cancel, Signal, encode_request
from noetl.ports import StoreUnreachable
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

#: how often a server looks for what it has to do: three times in this time
SWEEP_S = 1.5
#: outlasts whatever holds this process up
LEASE_S = 60.0


class Unheard(PostgresLog):
    """A database whose answer is lost, once, when executions are laid down: they lie there, or they do not."""

    written = True
    asked = 0

    async def evict(self, sleepers: list[tuple[str, float | None]]) -> None:
        self.asked += 1
        if self.asked > 1 or self.written:
            await super().evict(sleepers)
        if self.asked == 1:
            raise StoreUnreachable("the connection was lost")


@pytest.mark.parametrize("written", [True, False])
async def test_one_that_was_laid_down_unheard_is_woken_by_a_signal(
    database: Database, tmp_path: Path, written: bool
) -> None:
    log, registry = Unheard(database.url, lease_s=LEASE_S), PgRegistry(database.url, LEASE_S)
    log.written = written
    async with (
        serving(log, registry, tmp_path, lease_s=SWEEP_S, cluster_store=log) as server,
        working([server.url], tmp_path),
    ):
        live = await start(server, tmp_path, "workflow:\n- {step: ask, tool: {kind: wait, signal: go}}\n")
        await until(lambda: log.asked > 0)
        await until(lambda: live.id not in server.station.service.live)
        await asyncio.to_thread(log.post, live.id, encode_request(Signal("go")))
        await until(lambda: (found := log.summary(live.id)) is not None and found.status == "completed")


async def test_one_whose_claim_a_crashed_database_has_lost_is_still_cancelled(
    database: Database, tmp_path: Path
) -> None:
    log, registry = PostgresLog(database.url, lease_s=LEASE_S), PgRegistry(database.url, LEASE_S)
    async with (
        serving(log, registry, tmp_path, lease_s=SWEEP_S, cluster_store=log) as server,
        working([server.url], tmp_path),
    ):
        live = await start(server, tmp_path, marking(tmp_path, 60))
        await until(lambda: marks(tmp_path) == ["begun"])
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("DELETE FROM noetl.ownership WHERE execution_id = %s", (live.id,))
        await asyncio.to_thread(log.post, live.id, encode_request(Cancel("stop")))
        await until(lambda: (found := log.summary(live.id)) is not None and found.status == "cancelled")
    assert marks(tmp_path) == ["begun"]
