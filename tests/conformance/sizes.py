#!/usr/bin/env python3
"""The conformance suite in all sizes of the product, each as real processes with environments of their own.

    python tests/conformance/sizes.py                      static, embedded, dev, cluster, cluster without NATS, without polling
    python tests/conformance/sizes.py dev cluster -k loops  some of them, and only cases whose area/name has the text

A cluster is two servers and two workers on PostgreSQL and NATS, which are started here from Python packages. A case that sets
variables of the environment gets processes of its own: they are where pipelines run, not where the command does.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from access_tokens import give_access  # noqa: E402
from supervisor import supervise  # noqa: E402

SIZES = ("static", "embedded", "dev", "cluster", "no-nats", "no-polling")
#: sizes without a server: one only validates and migrates, the other runs each case in its command
ALONE = ("static", "embedded")
#: cases that cannot pass, with the reason
NOT_OURS: dict[str, str] = {
    "legacy/output-select-is-configuration": "its name is in the migrated text, which must lack the word `output_select`",
}
#: cases of which nothing is to be looked at without running them, with the reason
NOT_STATIC: dict[str, str] = {
    "tools/playbook-version-unknown": "`noetl validate` reports the version too, and the suite expects nothing of it",
}
_START_S = 60


class Processes:
    """Processes of one size, and the command that acts on them."""

    def __init__(self, folder: Path, extra: dict[str, str]) -> None:
        self.folder = folder
        kept = {key: value for key, value in os.environ.items() if not key.startswith("NOETL_")}
        #: what makes servers admit commands and workers that do not share their homes
        self.access = give_access(folder)
        self.base = {**kept, **self.access, "NOETL_LEASE": "5", "NOETL_RESULTS": f"file://{folder}/results"}
        #: what pipelines see more than others
        self.extra = {**extra, "NOETL_CMD": str(folder / "noetl")}
        self._running: list[subprocess.Popen[bytes]] = []

    def command(self, servers: list[str]) -> Path:
        """The command under test, as a script."""
        path = self.folder / "noetl"
        token = f"export NOETL_TOKEN={self.access['NOETL_TOKEN']}\n"
        given = f"export NOETL_SERVER={','.join(servers)}\n{token}" if servers else ""
        path.write_text(f'#!/bin/sh\n{given}exec {sys.executable} -m noetl "$@"\n')
        path.chmod(0o755)
        return path

    def start(self, name: str, *arguments: str, **env: str) -> Path:
        """Start one; it writes to the file that is given back."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "noetl", *arguments],
                env={**self.base, "NOETL_HOME": str(self.folder / name), **env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        return log

    def listening(self, log: Path) -> str:
        """The address at which a process says that it listens."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            found = re.search(r"listening on (http://\S+?)[;\s]", log.read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise SystemExit(f"{log.name} did not start: {log.read_text()}")

    def end(self) -> None:
        """End all that was started."""
        for process in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextlib.contextmanager
def standing(size: str, extra: dict[str, str], services: dict[str, str]) -> Iterator[Path]:
    """A size of the product; the command that acts on it."""
    with tempfile.TemporaryDirectory(prefix="noetl-size-") as name:
        made = Processes(Path(name), extra)
        try:
            if size in ALONE:
                yield made.command([])
            elif size == "dev":
                yield made.command([made.listening(made.start("dev", "dev", "--port", "0", **made.extra))])
            else:
                yield _cluster(made, size, services)
        finally:
            made.end()


def _cluster(made: Processes, size: str, services: dict[str, str]) -> Path:
    bus = {} if size == "no-nats" else {"NOETL_BUS": services["NOETL_BUS"]}
    store = {"NOETL_STORE": services["NOETL_STORE"]}
    logs = [made.start(f"server-{at}", "server", "--port", "0", **store, **bus) for at in range(2)]
    servers = [made.listening(log) for log in logs]
    wake = {"NOETL_POLL": "off"} if size == "no-polling" else {}
    for at in range(2):
        made.start(f"worker-{at}", "worker", NOETL_SERVER=",".join(servers), **bus, **wake, **made.extra)
    return made.command(servers)


@contextlib.contextmanager
def running_services(folder: Path) -> Iterator[dict[str, str]]:
    """PostgreSQL and NATS."""
    from noetl.services.servers import NatsServer, PostgresServer

    with PostgresServer(folder / "postgres") as postgres, NatsServer(folder / "nats") as nats:
        yield {"NOETL_STORE": postgres.url(), "NOETL_BUS": nats.url()}


def case_id(path: Path) -> str:
    """A case's area/name."""
    return f"{path.parent.name}/{path.stem}"


def cases(wanted: str | None) -> dict[Path, dict[str, str]]:
    """The cases whose area/name has a text, with the variables that they set."""
    found = {}
    for path in sorted((HERE / "cases").rglob("*.yaml")):
        name = case_id(path)
        if name not in NOT_OURS and (wanted is None or wanted in name):
            case = yaml.safe_load(path.read_text(encoding="utf-8"))
            found[path] = {key: str(value) for key, value in (case.get("env") or {}).items()}
    return found


def suite(command: Path, jobs: int, chosen: list[Path], *, static: bool = False) -> int:
    """Some cases against a command."""
    words = [sys.executable, HERE / "run.py", "--noetl", command, "--jobs", str(jobs), *chosen]
    words += ["--static"] if static else []
    return subprocess.run(list(map(str, words)), check=False).returncode


def run(size: str, services: dict[str, str], wanted: str | None, jobs: int) -> int:
    """All cases in one size; those that set variables beside processes that have them."""
    found, failed = cases(wanted), 0
    found = {path: its for path, its in found.items() if size != "static" or case_id(path) not in NOT_STATIC}
    apart = {} if size in ALONE else {path: variables for path, variables in found.items() if variables}
    together = [path for path in found if path not in apart]
    if together:
        with standing(size, {}, services) as command:
            failed |= suite(command, jobs, together, static=size == "static")
    for path, variables in apart.items():
        with standing(size, variables, services) as command:
            failed |= suite(command, 1, [path])
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=list(SIZES), metavar="SIZE", help=", ".join(SIZES))
    parser.add_argument("-k", dest="wanted", metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    supervise()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="noetl-services-") as name, running_services(Path(name)) as services:
        for size in given.sizes:
            print(f"\n--- {size}", flush=True)
            failed += [size] if run(size, services, given.wanted, given.jobs) else []
    print(f"\n{'failed: ' + ', '.join(failed) if failed else 'all sizes passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
