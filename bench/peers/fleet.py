"""Fleet: a cluster of real processes on loopback: PostgreSQL, NATS, servers and workers, and what is asked of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import aiohttp

from noetl.services.servers import NatsServer, PostgresServer, free_port

SOURCES = Path(__file__).resolve().parents[2] / "src"
_START_S = 60.0
_ENDED = ("completed", "failed", "cancelled")


class Process:
    """A `noetl` in a process of its own."""

    def __init__(
        self, folder: Path, name: str, words: Sequence[str], environment: dict[str, str], checkout: Path | None
    ) -> None:
        self.log = folder / f"{name}.log"
        home = folder / name
        home.mkdir(exist_ok=True)
        sources = checkout / "src" if checkout else SOURCES
        env = {**os.environ, "PYTHONPATH": str(sources), "NOETL_HOME": str(home), **environment}
        python = str(checkout / ".venv/bin/python") if checkout else sys.executable
        command = [python, "-m", "noetl", *words]
        if os.environ.get("BENCH_PROFILE"):
            command[1:1] = ["-m", "cProfile", "-o", f"{os.environ['BENCH_PROFILE']}/{name}-{time.time():.0f}.prof"]
        with self.log.open("ab") as out:
            self._popen = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=home)
        self.pid = self._popen.pid

    def wait_for(self, text: str) -> None:
        """Wait until it has said something."""
        until = time.monotonic() + _START_S
        while text not in self.log.read_text():
            assert self._popen.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"{self.log.name} did not say {text!r}: {self.log.read_text()}"
            time.sleep(0.02)

    def cpu(self) -> float:
        """Seconds of a core that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        """The most memory that it has had."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return float(text.partition("VmHWM:")[2].split()[0]) / 1024

    def end(self, *, at_once: bool = False) -> None:
        """End it, in good order or not."""
        (self._popen.kill if at_once else self._popen.terminate)()
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


class Services:
    """PostgreSQL and NATS, for as many fleets as come after another."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path()
        self._numbers = 0

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="noetl-bench-")))
        self.postgres = self._stack.enter_context(PostgresServer(self.folder / "pg"))
        self.nats = self._stack.enter_context(NatsServer(self.folder / "nats"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def database(self) -> str:
        """The address of a database with nothing in it."""
        import psycopg

        self._numbers += 1
        name = f"bench{self._numbers}"
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.postgres.url(name)


#: what clients and workers show to servers, which find its hash in a file
TOKEN = f"noetl_{secrets.token_urlsafe(32)}"


def _give_access(folder: Path) -> dict[str, str]:
    """The variables that make servers admit the token; its calls are not limited."""
    kept = {"name": "bench", "role": "admin", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "hint": TOKEN[-4:]}
    path = folder / "tokens.json"
    path.write_text(json.dumps([{**kept, "created_at": "2026-01-01T00:00:00+00:00"}]))
    limits = {"NOETL_TOKEN_RATE": "0", "NOETL_ADDRESS_RATE": "0"}
    return {"NOETL_TOKENS": str(path), "NOETL_TOKEN": TOKEN, **limits}


class Fleet:
    """A server and some workers over a database of their own; of this build, or of another checkout's."""

    def __init__(
        self,
        services: Services,
        *,
        workers: int = 2,
        slots: int = 8,
        polls: bool = True,
        checkout: Path | None = None,
    ) -> None:
        self._checkout = checkout
        self._services, self._workers, self._slots = services, workers, slots
        self.url = f"http://127.0.0.1:{free_port()}"
        self.database = services.database()
        self._environment = {
            "NOETL_STORE": self.database,
            "NOETL_BUS": services.nats.url(f"bench{free_port()}"),
            "NOETL_SERVER": self.url,
            "NOETL_POLL": "on" if polls else "off",
        }
        self.folder = Path(tempfile.mkdtemp(dir=services.folder))
        self._environment |= _give_access(self.folder)
        self.processes: list[Process] = []
        self.server: Process

    def __enter__(self) -> Self:
        try:
            self.serve()
            for number in range(self._workers):
                self.work(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.end()
        self.processes.clear()

    def serve(self) -> None:
        """Start the server, or start it again."""
        port = self.url.rpartition(":")[2]
        # What tells workers where a server is would make it one of its own clients.
        environment = {**self._environment, "NOETL_SERVER": ""}
        words = ["server", "--port", port]
        self.server = Process(self.folder, f"server{len(self.processes)}", words, environment, self._checkout)
        self.processes.append(self.server)
        self.server.wait_for("listening on")

    def work(self, number: int) -> None:
        """Start a worker."""
        words = ["worker", "--slots", str(self._slots)]
        worker = Process(self.folder, f"worker{number}", words, self._environment, self._checkout)
        self.processes.append(worker)
        worker.wait_for("slots, servers")

    def cpu(self) -> str:
        """Seconds of a core that each has used, for a look at where the time goes."""
        return " ".join(f"{one.log.stem} {one.cpu():.1f} s" for one in self.processes)


class Client:
    """Who asks a fleet for something."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=64, keepalive_timeout=3)
        self._session = aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Bearer {TOKEN}"})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(self, path: str, body: Any) -> Any:
        """Ask for something to be done."""
        async with self._session.post(self._url + path, json=body) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def get(self, path: str) -> Any:
        """Look at something."""
        async with self._session.get(self._url + path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def start(self, playbook: str, payload: dict[str, Any] | None = None) -> str:
        """Start an execution; its id."""
        started = await self.post("/api/executions", {"playbook": playbook, "payload": payload or {}})
        return str(started["execution_id"])

    async def end(self, execution_id: str, every: float = 0.05) -> float:
        """Wait for the end of an execution; when that was, by its own record."""
        found = await self.get(f"/api/executions/{execution_id}?view=summary")
        while found["status"] not in _ENDED:
            await asyncio.sleep(every)
            found = await self.get(f"/api/executions/{execution_id}?view=summary")
        assert found["status"] == "completed", found
        return datetime.fromisoformat(found["updated_at"]).timestamp()

    async def run(self, playbook: str, payload: dict[str, Any] | None = None) -> float:
        """Seconds from the request for an execution to its end."""
        before = time.time()
        return await self.end(await self.start(playbook, payload)) - before
