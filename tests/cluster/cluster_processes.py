"""Arena: a cluster of real processes on real services, in which anything may be killed, and a ledger that remembers effects."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from access_tokens import give_access
from forkserver import ForkedProcess, ForkServer

from noetl.services.servers import NatsServer, PostgresServer, free_port

LEASE_S = 2.0
#: for tests in which no process may be given up: one that a busy machine holds up for 20 s is not
CALM_LEASE_S = 30.0
#: what is lost with the power is of no interest here: an immediate stop of PostgreSQL keeps what was written
QUICK = {"fsync": "off", "shared_buffers": "64MB", "max_connections": "90"}
_HERE = Path(__file__).parent
_READY_S = 60.0
_END_S = 120.0


class Member:
    """A server or a worker: the same place again after each of its deaths, with a home and an environment of its own."""

    def __init__(self, arena: Arena, name: str, words: list[str], environment: dict[str, str]) -> None:
        self.arena, self.name, self.words, self.environment = arena, name, list(words), environment
        self.home = arena.folder / name
        self.process: ForkedProcess | None = None

    def start(self) -> None:
        """Start it, under the same address as before."""
        environment = {**self.arena.environment, "NOETL_HOME": str(self.home), **self.environment}
        self.process = self.arena.forkserver.start(*self.words, cwd=self.arena.folder, env=environment)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, what: signal.Signals) -> None:
        """Send it a signal; who has ended is waited for here alone, so that its number is not another's."""
        if self.lives:
            os.kill(self.pid, what)

    def kill(self) -> None:
        """End it as if the power had gone."""
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait(_END_S)

    def end(self) -> int:
        """End it in good order; what it says."""
        assert self.process is not None
        self.send(signal.SIGTERM)
        return self.process.wait(_END_S)

    def said(self) -> str:
        """What it has written since it was started."""
        assert self.process is not None
        return self.process.said()

    def descendants(self) -> list[int]:
        """The processes that its tools have started."""
        return _below(self.pid) if self.lives else []


class Arena:
    """PostgreSQL, NATS if it is wanted, servers and workers, and the ledger."""

    def __init__(
        self,
        folder: Path,
        forkserver: ForkServer,
        *,
        servers: int = 2,
        workers: int = 2,
        nats: bool = True,
        slots: int = 8,
        lease_s: float = LEASE_S,
    ) -> None:
        self.folder, self.forkserver = folder, forkserver
        # The database runs as a user of its own where tests run as root.
        for one in (folder, folder / "postgres"):
            one.mkdir(exist_ok=True)
            one.chmod(0o755)
        self.postgres = PostgresServer(folder / "postgres" / "data", settings=QUICK)
        self.nats = NatsServer(folder / "nats") if nats else None
        self.ports = [free_port() for _ in range(servers)]
        self._ledger: subprocess.Popen[bytes] | None = None
        self.ledger_port = 0
        keep = ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR")
        self.environment = {name: os.environ[name] for name in keep if name in os.environ}
        self.environment["NOETL_LEASE"] = f"{lease_s:g}"
        self.environment |= give_access(folder)
        # Workers have no database, and servers no tools: each gets only what it needs.
        self.servers = [Member(self, f"server{at}", ["server", "--port", str(port)], {}) for at, port in enumerate(self.ports)]  # fmt: skip
        words = ["worker", "--slots", str(slots), "--grace", "20"]
        self.workers = [Member(self, f"worker{at}", words, {}) for at in range(workers)]
        #: what workers call the servers
        self.worker_urls = self.urls

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    @property
    def members(self) -> list[Member]:
        return [*self.servers, *self.workers]

    @property
    def ledger_file(self) -> Path:
        return self.folder / "ledger"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.postgres.start()
            if self.nats is not None:
                self.nats.start()
            self._start_ledger()
            self.configure()
            for member in self.members:
                member.start()
            self.wait_ready()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_ledger(self) -> None:
        self._ledger = subprocess.Popen(
            [sys.executable, str(_HERE / "ledger.py"), str(self.ledger_file)], stdout=subprocess.PIPE
        )
        assert self._ledger.stdout is not None
        self.ledger_port = int(self._ledger.stdout.readline())

    def configure(self) -> None:
        """Tell each of them what it is to know."""
        bus = {"NOETL_BUS": self.nats.url()} if self.nats is not None else {}
        for server in self.servers:
            server.environment |= {"NOETL_STORE": self.postgres.url(), **bus}
        for worker in self.workers:
            worker.environment |= {"NOETL_SERVER": ",".join(self.worker_urls), **bus}

    def wait_ready(self) -> None:
        """Wait until every server answers."""
        until = time.monotonic() + _READY_S
        for url in self.urls:
            while not _answers(f"{url}/ready"):
                if time.monotonic() > until:
                    raise TimeoutError(f"{url} is not ready: {self.said()}")
                time.sleep(0.05)

    def close(self) -> None:
        """End all of them, at once."""
        for member in self.members:
            below = member.descendants()
            member.kill()
            _wait_gone(below)
        if self._ledger is not None:
            self._ledger.kill()
            self._ledger.communicate()
        if self.nats is not None:
            self.nats.kill()
        self.postgres.stop(at_once=True)

    def said(self) -> str:
        """What they have written, for those who have to find out what went wrong."""
        return "\n".join(f"{one.name}: {one.said()[-1500:]}" for one in self.members if one.process is not None)

    def fsck(self) -> bytes:
        """What the program itself finds wrong with the database."""
        found = subprocess.run(
            [sys.executable, "-m", "noetl", "fsck", "--json"],
            env={
                **self.environment,
                "NOETL_STORE": self.postgres.url(),
                "NOETL_HOME": str(self.folder / "fsck"),
            },
            cwd=self.folder,
            stdout=subprocess.PIPE,
            check=False,
        )
        return found.stdout


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_text().split())


def _below(pid: int) -> list[int]:
    found: list[int] = []
    for child in _children(pid):
        found += [child, *_below(child)]
    return found


def is_there(pid: int) -> bool:
    """Whether a process lives, or waits to be buried: that is somebody else's business."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_gone(pids: list[int], seconds: float = 60.0) -> None:
    """Tools end with their worker, whatever way it went; None may be left behind."""
    until = time.monotonic() + seconds
    while left := [pid for pid in pids if is_there(pid)]:
        if time.monotonic() > until:
            raise AssertionError(f"tool processes outlive their worker: {left}")
        time.sleep(0.02)
