"""Executions that wait in a database that servers share: who runs them, also when nobody has them in memory."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from servers import Database

from cli.conftest import Noetl, Running
from noetl.stores.postgres.postgres_log import PostgresLog

pytestmark = pytest.mark.usefixtures("playbooks")


class Asleep:
    """An execution that waits for a signal, and the server that would wake it."""

    def __init__(self, log: PostgresLog, execution_id: str) -> None:
        self._log, self.id = log, execution_id

    def server_goes(self) -> None:
        asyncio.run(self._log.close())


async def lay_down(log: PostgresLog, execution_id: str) -> None:
    await log.register_waker()
    assert await log.claim(execution_id)
    await log.evict([(execution_id, None)])


@pytest.fixture
def running(start: Callable[..., Running], database: Database, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("NOETL_STORE", database.url)
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal")
    return running


@pytest.fixture
def asleep(noetl: Noetl, running: Running, database: Database) -> Iterator[Asleep]:
    execution_id = json.loads(noetl("ps", "--json").out)[0]["execution_id"]
    running.kill()
    with psycopg.connect(database.url) as connection:  # who was killed is believed to live for a while
        connection.execute("UPDATE noetl.owner SET until = clock_timestamp()")
    log = PostgresLog(database.url)
    asyncio.run(lay_down(log, execution_id))
    yield Asleep(log, execution_id)
    asyncio.run(log.close())


def test_who_runs_it_is_told_with_its_machine_until_it_is_over(noetl: Noetl, running: Running) -> None:
    who = f"process {running.process.pid} on {socket.gethostname()}"
    assert f"run by     {who}\n" in noetl("show", "last").out
    assert f"by {who};" in noetl("signal", "last", "ok").err
    assert running.end().code == 0
    assert "run by" not in noetl("show", "last").out


def test_one_that_servers_let_sleep_is_shown_as_one_that_waits(noetl: Noetl, asleep: Asleep) -> None:
    listed = json.loads(noetl("ps", "--json").out)[0]
    assert (listed["status"], listed["alive"], listed["dormant"]) == ("running", False, True)
    assert json.loads(noetl("show", "last", "--json").out)["dormant"]
    assert "run by     a server, when what it waits for comes\n" in noetl("show", "last").out
    for said in (noetl("ps"), noetl("show", "last"), noetl("why", "last")):
        assert "running" in said.out
        assert "interrupted" not in said.out
        assert "resume" not in said.out + said.err


@pytest.mark.parametrize("command", ["events", "logs"])
def test_one_that_servers_let_sleep_is_followed_until_there_is_no_server(
    start: Callable[..., Running], asleep: Asleep, command: str
) -> None:
    following = start(command, asleep.id, "--follow")
    time.sleep(1.5)
    assert following.process.poll() is None
    asleep.server_goes()
    code, _, told = following.end()
    assert (code, f"run `noetl resume {asleep.id}` to continue it" in told) == (1, True)


def test_a_signal_to_one_that_sleeps_is_left_for_the_server_that_wakes_it(noetl: Noetl, asleep: Asleep) -> None:
    assert "left for the server that wakes it, which has not answered yet" in noetl("signal", "last", "ok").err
    listed = json.loads(noetl("ps", "--json").out)[0]
    assert (listed["dormant"], listed["owner"]) == (True, None)


def test_one_that_servers_let_sleep_is_not_taken_from_them(noetl: Noetl, asleep: Asleep) -> None:
    refused = noetl("resume", asleep.id)
    assert refused.code == 2
    assert f"{asleep.id} is not interrupted: it only waits" in refused.err
    nothing = noetl("resume", "--all")
    assert (nothing.code, "nothing to resume" in nothing.err) == (0, True)
    assert json.loads(noetl("ps", "--json").out)[0]["dormant"]


def test_one_that_sleeps_without_a_server_is_resumed_like_any_other(noetl: Noetl, asleep: Asleep) -> None:
    asleep.server_goes()
    assert "interrupted" in noetl("ps").out
    assert "`noetl resume" in noetl("signal", "last", "ok").err
    assert noetl("resume", asleep.id).code == 0
