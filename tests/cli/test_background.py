"""Servers and workers in the background of this machine."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from servers import Database

from cli.conftest import Noetl
from noetl.cli.commands.serve import daemons


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def background(noetl: Noetl, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Noetl]:
    """The command line; what it has started is ended."""
    monkeypatch.setattr(daemons, "_BEGIN_S", 120.0)
    monkeypatch.setattr(daemons, "_END_S", 120.0)
    yield noetl
    for kind in ("worker", "server"):
        noetl(kind, "stop")
    assert not list((home / "run").glob("*.json"))


def test_a_server_is_started_when_it_answers(background: Noetl, port: int) -> None:
    said = background("server", "--port", str(port), "start")
    assert (said.code, "runs; it writes to" in said.err) == (0, True)
    with urlopen(f"http://127.0.0.1:{port}/ready") as answer:
        assert answer.status == 200
    assert background("server", "status").code == 0


def test_a_server_that_cannot_start_says_why(background: Noetl) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = background("server", "--port", str(taken.getsockname()[1]), "start")
    assert (said.code, "noetl: the server has ended: cannot listen on" in said.err) == (1, True)
    assert "runs;" not in said.err
    assert background("server", "status").code == 1


def test_a_server_that_is_not_ready_yet_tells_what_it_waits_for(
    background: Noetl, home: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken: list[bool] = []

    def now() -> float:
        """All the time there is passes as soon as it has been seen that it said something."""
        late = any(spoken)
        spoken.append(any("does not answer" in log.read_text() for log in (home / "run").glob("*.log")))
        return 1e9 if late else 0.0

    monkeypatch.setattr(daemons, "time", SimpleNamespace(monotonic=now, sleep=time.sleep, time_ns=time.time_ns))
    monkeypatch.setattr(sys, "executable", str(home.parent / "slow"))
    slow = Path(sys.executable)
    slow.write_text("#!/bin/sh\necho the database does not answer\nexec sleep 60\n")
    slow.chmod(0o700)
    said = background("server", "--port", str(port), "start")
    monkeypatch.setattr(daemons, "time", time)
    assert (said.code, "is not ready yet: the database does not answer; it writes to" in said.err) == (1, True)
    assert background("server", "status").code == 0


def test_workers_are_started_together_and_each_has_spoken(background: Noetl, home: Path) -> None:
    assert background("--server", "http://127.0.0.1:1", "worker", "--slots", "2", "scale", "2").code == 0
    logs = list((home / "run").glob("worker-*.log"))
    assert len(logs) == 2
    assert all("2 slots, servers http://127.0.0.1:1\n" in log.read_text() for log in logs)
    assert background("worker", "scale", "0").code == 0


def test_a_worker_that_ends_before_it_speaks_says_why(background: Noetl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POLL", "off")
    said = background("worker", "start")
    assert (said.code, "the worker has ended: NOETL_POLL is off" in said.err) == (1, True)


def test_servers_of_one_home_share_a_database_and_not_a_port(
    background: Noetl, database: Database, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_STORE", database.url)
    for _ in range(2):
        assert background("server", "--port", "0", "start").code == 0
    assert background("server", "--port", str(port), "start").code == 0
    said = background("server", "--port", str(port), "start")
    assert (said.code, f"runs already on port {port}" in said.err) == (2, True)
    listed = background("server", "status").out
    assert (listed.count("--port 0 "), listed.count(f"--port {port} ")) == (2, 1)


def test_a_second_server_without_a_database_says_what_it_wants(background: Noetl) -> None:
    assert background("server", "--port", "0", "start").code == 0
    said = background("server", "--port", "0", "start")
    assert (said.code, "NOETL_STORE" in said.err, "NOETL_HOME" in said.err) == (2, True, True)
