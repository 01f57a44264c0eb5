"""Processes in the background of this machine: started, stopped and told of by a file for each in the home."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec

from noetl.cli.output.printing import note, out
from noetl.errors import NoetlError, UsageError

#: seconds that a process is given to begin, and to end
_BEGIN_S, _END_S = 15.0, 40.0
_LOOK_S = 0.05
#: how the line begins by which each kind says that it is ready
_READY = {"server": "listening on ", "worker": "worker "}


class DaemonRecord(msgspec.Struct, frozen=True):
    """A process that was started here."""

    pid: int
    #: in clock ticks since the machine started: a number that is used again belongs to somebody else
    since: int
    arguments: list[str]
    log: str


class Daemons:
    """The processes of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def _folder(self) -> Path:
        from noetl.config import settings

        return settings().home / "run"

    def list_running(self) -> list[DaemonRecord]:
        """Those that live; what is left of others is cleared away."""
        found = []
        for path in sorted(self._folder.glob(f"{self.kind}-*.json")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                entry = msgspec.json.decode(path.read_bytes(), type=DaemonRecord)
                if _start_time(entry.pid) == entry.since:
                    found.append(entry)
                    continue
            path.unlink(missing_ok=True)
        return found

    def start(self, arguments: list[str], number: int = 1) -> None:
        """Start some, and wait until each says that it is ready."""
        begun = [self._launch(arguments) for _ in range(number)]
        troubles = [trouble for one in begun if (trouble := self._wait_until_ready(*one)) is not None]
        self.list_running()
        if troubles:
            raise NoetlError("\n".join(troubles))

    def _launch(self, arguments: list[str]) -> tuple[DaemonRecord, subprocess.Popen[bytes]]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = f"{self.kind}-{time.time_ns()}"
        log = self._folder / f"{stamp}.log"
        command = [sys.executable, "-m", "noetl", self.kind, *arguments]
        with log.open("wb") as file:
            log.chmod(0o600)
            process = subprocess.Popen(  # noqa: S603  our own program
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        entry = DaemonRecord(process.pid, _start_time(process.pid) or 0, arguments, str(log))
        path = self._folder / f"{stamp}.json"
        path.write_bytes(msgspec.json.encode(entry))
        path.chmod(0o600)
        return entry, process

    def _wait_until_ready(self, entry: DaemonRecord, process: subprocess.Popen[bytes]) -> str | None:
        """Wait until one is ready; what is wrong, if it is not."""
        end = time.monotonic() + _BEGIN_S  # of each in turn: many that start together take longer
        while True:
            ended = process.poll()  # before its log is read, which then is all that it said
            said = Path(entry.log).read_text(encoding="utf-8", errors="replace").splitlines()
            last = next((line.strip().removeprefix("noetl: ") for line in reversed(said) if line.strip()), "")
            if ended is not None:
                return f"the {self.kind} has ended: {last or f'exit code {ended}'}; it wrote to {entry.log}"
            ready = any(line.startswith(_READY[self.kind]) for line in said)
            if ready or time.monotonic() > end:
                break
            time.sleep(_LOOK_S)
        process.returncode = 0  # it lives on without us, which is no mistake
        if ready:
            note(f"{self.kind} {entry.pid} runs; it writes to {entry.log}")
            return None
        return f"{self.kind} {entry.pid} runs, but is not ready yet: {last or 'it has said nothing'}; it writes to {entry.log}"

    def stop(self, entries: list[DaemonRecord] | None = None, wait_s: float | None = _END_S) -> None:
        """Ask some of them to end, or all, and wait until they have."""
        ending = self.list_running() if entries is None else entries
        if not ending:
            note(f"no {self.kind} was started here")
        for entry in ending:
            with contextlib.suppress(ProcessLookupError):
                os.kill(entry.pid, signal.SIGTERM)
        end = time.monotonic() + wait_s if wait_s is not None else None
        for entry in ending:
            while _start_time(entry.pid) == entry.since:
                if end is not None and time.monotonic() > end:
                    raise NoetlError(f"{self.kind} {entry.pid} is still ending; see {entry.log}")
                time.sleep(0.05)
            note(f"{self.kind} {entry.pid} has ended")
        self.list_running()

    def scale(self, number: int, arguments: list[str]) -> None:
        """Have so many of them."""
        found = self.list_running()
        if len(found) > number:
            self.stop(found[number:], wait_s=None)
        self.start(arguments, number - len(found))

    def status(self, *, as_data: bool) -> int:
        """Tell of them; 1 when there are none."""
        found = self.list_running()
        for entry in found:
            told = {"kind": self.kind, **msgspec.to_builtins(entry)}
            line = f"{self.kind} {entry.pid}  {' '.join(entry.arguments)}  {entry.log}"
            out(f"{msgspec.json.encode(told).decode()}\n" if as_data else f"{line}\n")
        if not found and not as_data:
            note(f"no {self.kind} was started here")
        return 0 if found else 1


def add_verbs(group: click.Group, daemons: Daemons) -> None:
    """Give a command the verbs that start and stop it in the background."""

    @group.command("start", help=f"Start a {daemons.kind} in the background, with the options given before `start`.")
    @click.pass_obj
    def start(arguments: list[str]) -> None:
        if daemons.kind == "server":
            _check_conflicts(daemons.list_running(), arguments)
        daemons.start(arguments)

    @group.command("stop", help=f"End every {daemons.kind} that was started here, when it has finished what it does.")
    def stop() -> None:
        daemons.stop()

    @group.command("status", help=f"Tell which {daemons.kind} runs in the background; exit code 1 if there is none.")
    @click.option("--json", "as_data", is_flag=True, help="Print a JSON document a line.")
    def status(*, as_data: bool) -> int:
        return daemons.status(as_data=as_data)


def _check_conflicts(running: list[DaemonRecord], arguments: list[str]) -> None:
    """UsageError: such a server cannot run beside those that do."""
    from noetl.config import settings

    if running and settings().store is None:
        raise UsageError(
            "a server runs already; `noetl server stop` ends it. Servers share a PostgreSQL database, which NOETL_STORE names; "
            "one apart from it wants a NOETL_HOME of its own"
        )
    port = _port(arguments)
    if port != "0" and any(_port(entry.arguments) == port for entry in running):
        raise UsageError(
            f"a server runs already on port {port}; `noetl server stop` ends it, --port names another port"
        )


def _port(arguments: list[str]) -> str:
    return arguments[arguments.index("--port") + 1]


def _start_time(pid: int) -> int | None:
    """When a process began; None: it lives no longer."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return _liveness_mark(pid)
    return None if fields[0] == "Z" else int(fields[19])


def _liveness_mark(pid: int) -> int | None:
    """The same where there is no /proc: whether it lives, and no more."""
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return 0
