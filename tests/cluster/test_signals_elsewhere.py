"""Signals that are sent to another server than the one that owns the execution: who may answer, and with what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psycopg
import pytest
from fleet import OWNER, Server, serving, working
from servers import Database
from test_handing_out import start, until

from noetl.model.access import ApiToken, Role
from noetl.model.requests import Signal, encode_request
from noetl.server.core.service import LiveExecution
from noetl.server.http.access import new_token
from noetl.server.http.access.tokens import hash_token
from noetl.stores.postgres.postgres_log import PostgresLog
from noetl.stores.postgres.worker_registry import PgRegistry

NUMBER = "workflow:\n- {step: ask, tool: {kind: wait, signal: ok, schema: {type: number}}}\n"
ANN = "workflow:\n- {step: ask, tool: {kind: wait, signal: ok, assignees: [ann]}}\n"


class Pair:
    """Two servers that share a database, and an execution of the first that waits for a signal."""

    def __init__(self, owner: Server, other: Server, live: LiveExecution, log: PostgresLog) -> None:
        self.owner, self.other, self.live, self.log = owner, other, live, log

    async def send(self, data: Any, token: str | None = None) -> tuple[int, dict[str, Any]]:
        """Send a signal to the other server."""
        url = f"{self.other.url}/api/executions/{self.live.id}/signal"
        headers = {"Authorization": f"Bearer {token or OWNER}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={"name": "ok", "data": data}, headers=headers) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    def names(self) -> list[str]:
        return [event.name for event in self.log.read(self.live.id)]

    async def completed(self) -> Any:
        await until(lambda: (found := self.log.summary(self.live.id)) is not None and found.status == "completed")
        (done,) = [event for event in self.log.read(self.live.id) if event.name == "step.done"]
        return done.payload["output"]["data"]


def has_posted(database: Database) -> bool:
    with psycopg.connect(database.url, autocommit=True) as connection:
        return bool(connection.execute("SELECT is_called FROM noetl.inbox_number_seq").fetchall()[0][0])


@contextlib.asynccontextmanager
async def waiting(database: Database, folder: Path, workflow: str, *, asleep: bool = False) -> AsyncIterator[Pair]:
    logs = [PostgresLog(database.url, lease_s=60.0) for _ in range(2)]
    stores = logs if asleep else [None, None]
    async with (
        serving(logs[0], PgRegistry(database.url, 60.0), folder, cluster_store=stores[0]) as owner,
        serving(logs[1], PgRegistry(database.url, 60.0), folder, cluster_store=stores[1]) as other,
        working([owner.url, other.url], folder / "w"),
    ):
        live = await start(owner, folder, workflow)
        pair = Pair(owner, other, live, logs[1])
        await until(lambda: "task.started" in pair.names())
        if asleep:
            await until(lambda: live.id not in owner.station.service.live)
        yield pair


@pytest.mark.parametrize("asleep", [False, True], ids=["owned", "asleep"])
async def test_data_that_does_not_fit_is_refused_and_the_wait_continues(
    database: Database, tmp_path: Path, *, asleep: bool
) -> None:
    async with waiting(database, tmp_path, NUMBER, asleep=asleep) as pair:
        before = pair.names()
        status, said = await pair.send("many")
        assert (status, "does not fit its schema" in said["detail"]) == (422, True)
        assert pair.names() == before
        assert await asyncio.to_thread(pair.log.summary, pair.live.id) is not None
        status, said = await pair.send(5)
        assert (status, said["event"]) == (200, "signal.received")
        assert said["seq"] == pair.names().index("signal.received") + 1
        assert await pair.completed() == 5


async def test_only_those_who_are_asked_may_answer_whichever_server_they_ask(
    database: Database, tmp_path: Path
) -> None:
    ann, bob = new_token(), new_token()
    operator: Role = "operator"
    kept = [
        ApiToken(name, operator, hash_token(one), one[-4:], "2026-01-01T00:00:00+00:00")
        for name, one in (("ann", ann), ("bob", bob))
    ]
    (tmp_path / "tokens.json").touch(0o600)
    (tmp_path / "tokens.json").write_bytes(msgspec.json.encode(kept))
    async with waiting(database, tmp_path, ANN) as pair:
        before = pair.names()
        status, said = await pair.send("me", bob)
        assert (status, "ann" in said["detail"]) == (422, True)
        assert pair.names() == before
        assert (await pair.send("yes", ann))[0] == 200
        assert await pair.completed() == "yes"
        (received,) = [event for event in pair.log.read(pair.live.id) if event.name == "signal.received"]
        assert received.payload["by"] == "ann"


async def test_one_that_the_owner_refuses_is_dealt_with_and_nobody_takes_it_later(
    database: Database, tmp_path: Path
) -> None:
    """The wait may have begun after the other server looked."""
    async with waiting(database, tmp_path, NUMBER) as pair:
        before = pair.names()
        number = await asyncio.to_thread(pair.log.post, pair.live.id, encode_request(Signal("ok", "many")))
        await asyncio.to_thread(pair.log.post, pair.live.id, encode_request(Signal("ok", 7)))
        assert await pair.completed() == 7
        requests = [event.payload.get("request") for event in pair.log.read(pair.live.id, after=len(before))]
        assert number not in requests
        assert number + 1 in requests


async def test_a_sender_is_not_told_of_the_signal_of_another_as_if_it_were_its_own(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both passed the first look; the owner takes one and refuses the other, for which a wait began meanwhile."""
    from noetl.server.http import executions

    two = NUMBER.replace("}}\n", "}, next: {arcs: [{step: more}]}}\n") + NUMBER.partition("\n")[2].replace(
        "ask", "more"
    )
    looks = 0
    judge = executions._check_signal

    async def look(*given: Any) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:  # the first was before the wait began
            await judge(*given)

    async with waiting(database, tmp_path, two) as pair:
        monkeypatch.setattr(executions, "_check_signal", look)
        monkeypatch.setattr(executions, "_TIMEOUT_S", 1.0)
        sending = asyncio.create_task(pair.send("many"))
        await until(lambda: has_posted(database))
        await asyncio.to_thread(pair.log.post, pair.live.id, encode_request(Signal("ok", 1)))
        status, said = await sending
        assert (status, "does not fit its schema" in said["detail"]) == (422, True)
        assert pair.names().count("signal.received") == 1
