"""SIGTERM ends a server within its grace, whatever its database does."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from forkserver import ForkedProcess, ForkServer
from servers import Database
from waiting import wait_until

from noetl.services.servers import free_port


class Hole:
    """Stands between a server and its database, and may swallow what they say without closing anything."""

    def __init__(self, database: Database) -> None:
        self._target = (database.server.host, database.server.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.swallows = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with one:
            try:
                while data := one.recv(65_536):
                    if not self.swallows.is_set():
                        other.sendall(data)
                other.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def hole(database: Database) -> Iterator[Hole]:
    made = Hole(database)
    yield made
    made.close()


def ask(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=300) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def started(forkserver: ForkServer, folder: Path, url: str, *words: str) -> tuple[ForkedProcess, str]:
    port = free_port()
    environment = {**os.environ, "NOETL_STORE": url, "NOETL_HOME": str(folder / "home")}
    process = forkserver.start(*words, "--port", str(port), "--grace", "1", cwd=folder, env=environment)
    address = f"http://127.0.0.1:{port}"
    wait_until(lambda: ask(f"{address}/ready") == 200)
    return process, address


@pytest.mark.parametrize("words", ["server", "dev"])
def test_a_server_whose_database_does_not_answer_ends_all_the_same(
    database: Database, hole: Hole, forkserver: ForkServer, tmp_path: Path, words: str
) -> None:
    url = database.url.replace(f":{database.server.port}/", f":{hole.port}/")
    process, address = started(forkserver, tmp_path, url, words)
    hole.swallows.set()
    asking = [threading.Thread(target=ask, args=(f"{address}/api/executions",)) for _ in range(3)]
    for one in asking:
        one.start()
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    said = process.said()
    for one in asking:
        one.join()
    assert code in (0, 1), said
    assert "ended" in said
    assert "Traceback" not in said


def test_a_server_whose_database_answers_ends_in_good_order(
    database: Database, forkserver: ForkServer, tmp_path: Path
) -> None:
    process, _ = started(forkserver, tmp_path, database.url, "server")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert "ended; what is unfinished" in process.said()
