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

from noetl.cli.printing import note, out
from noetl.errors import NoetlError, UsageError

#: seconds that a process is given to begin, and to end
_BEGIN_S, _END_S = 1.0, 40.0


class Entry(msgspec.Struct, frozen=True):
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

    def running(self) -> list[Entry]:
        """Those that live; what is left of others is cleared away."""
        found = []
        for path in sorted(self._folder.glob(f"{self.kind}-*.json")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                entry = msgspec.json.decode(path.read_bytes(), type=Entry)
                if _since(entry.pid) == entry.since:
                    found.append(entry)
                    continue
            path.unlink(missing_ok=True)
        return found

    def start(self, arguments: list[str]) -> Entry:
        """Start one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = f"{self.kind}-{time.time_ns()}"
        log = self._folder / f"{stamp}.log"
        command = [sys.executable, "-m", "noetl", self.kind, *arguments]
        with log.open("wb") as file:
            log.chmod(0o600)
            process = subprocess.Popen(  # noqa: S603  our own program
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        since = _since(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_BEGIN_S)
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise NoetlError(f"the {self.kind} ended at once: {said[-500:] or f'exit code {process.returncode}'}")
        entry = Entry(process.pid, since or 0, arguments, str(log))
        path = self._folder / f"{stamp}.json"
        path.write_bytes(msgspec.json.encode(entry))
        path.chmod(0o600)
        process.returncode = 0  # it lives on without us, which is no mistake
        note(f"{self.kind} {process.pid} runs; it writes to {log}")
        return entry

    def stop(self, entries: list[Entry] | None = None, wait_s: float | None = _END_S) -> None:
        """Ask some of them to end, or all, and wait until they have."""
        ending = self.running() if entries is None else entries
        if not ending:
            note(f"no {self.kind} was started here")
        for entry in ending:
            with contextlib.suppress(ProcessLookupError):
                os.kill(entry.pid, signal.SIGTERM)
        end = time.monotonic() + wait_s if wait_s is not None else None
        for entry in ending:
            while _since(entry.pid) == entry.since:
                if end is not None and time.monotonic() > end:
                    raise NoetlError(f"{self.kind} {entry.pid} is still ending; see {entry.log}")
                time.sleep(0.05)
            note(f"{self.kind} {entry.pid} has ended")
        self.running()

    def scale(self, number: int, arguments: list[str]) -> None:
        """Have so many of them."""
        found = self.running()
        if len(found) > number:
            self.stop(found[number:], wait_s=None)
        for _ in range(number - len(found)):
            self.start(arguments)

    def status(self, *, as_data: bool) -> int:
        """Tell of them; 1 when there are none."""
        found = self.running()
        for entry in found:
            told = {"kind": self.kind, **msgspec.to_builtins(entry)}
            out(f"{msgspec.json.encode(told).decode()}\n" if as_data else f"{self.kind} {entry.pid}  {entry.log}\n")
        if not found and not as_data:
            note(f"no {self.kind} was started here")
        return 0 if found else 1


def verbs(group: click.Group, daemons: Daemons) -> None:
    """Give a command the verbs that start and stop it in the background."""

    @group.command("start", help=f"Start a {daemons.kind} in the background, with the options given before `start`.")
    @click.pass_obj
    def start(arguments: list[str]) -> None:
        if daemons.kind == "server" and daemons.running():
            raise UsageError("a server runs already; `noetl server stop` ends it")
        daemons.start(arguments)

    @group.command("stop", help=f"End every {daemons.kind} that was started here, when it has finished what it does.")
    def stop() -> None:
        daemons.stop()

    @group.command("status", help=f"Tell which {daemons.kind} runs in the background; exit code 1 if there is none.")
    @click.option("--json", "as_data", is_flag=True, help="Print a JSON document a line.")
    def status(*, as_data: bool) -> int:
        return daemons.status(as_data=as_data)


def _since(pid: int) -> int | None:
    """When a process began; None: it lives no longer."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return _somehow(pid)
    return None if fields[0] == "Z" else int(fields[19])


def _somehow(pid: int) -> int | None:
    """The same where there is no /proc: whether it lives, and no more."""
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return 0
