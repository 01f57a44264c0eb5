"""Processes of tasks: each in a session of its own, watched by the event loop, ended with all its descendants.

Nothing outlives its task, nor the engine. When the engine dies, however it dies, the kernel itself kills the group: a
pipe, whose only writer is the engine, is told to send SIGKILL when it is closed. Descendants that left the group are
found by a marker in their environment, which every process has from its parent. To look for them takes a walk through
all processes of the machine: so it is done where a task is ended by force, and otherwise once for a whole execution.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from noetl.drivers.spilled_data import IN_MEMORY, TextSpool, output_limit
from noetl.drivers.text import WholeLines
from noetl.ports import Call, StoreFailed, World

#: the exit code of a process that used up its processor time
OUT_OF_TIME = -signal.SIGXCPU
_MARK = "NOETL_CHILD"
_CHUNK = 65_536
_PATIENCE_S = 5.0
#: how long what is cancelled or out of time has to put things in order, from SIGTERM to SIGKILL
GRACE_S = 2.0
#: how often the processes of a task are counted, where there may be only so many
_COUNT_S = 0.05
_HAS_PROC = Path("/proc/self").exists()
#: the parent of the kernel's own threads
_KERNEL = b"2"


class Capture:
    """What one task writes: decoded, handed to the log, counted against a limit, and kept if somebody wants it."""

    def __init__(self, call: Call, world: World, spools: Mapping[str, TextSpool] | None = None) -> None:
        self.limit = output_limit(call) if spools else int(call.spec.get("limits.output_bytes") or IN_MEMORY)
        self.exceeded = False
        #: why it could not be kept
        self.broken: OSError | StoreFailed | None = None
        self._call = call
        self._world = world
        #: stdout and stderr, where they are the result
        self._spools = spools or {}
        self._bytes = 0
        #: what is kept with the result in a file is not kept a second time among the lines
        self._lines = call.spill if spools else None
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in ("stdout", "stderr")}
        self._whole = {stream: WholeLines() for stream in self._decoders}

    def take(self, stream: str, data: bytes, *, final: bool = False) -> None:
        """Some bytes of a stream; those beyond the limit are dropped."""
        room = self.limit - self._bytes
        self._bytes += len(data)
        self.exceeded = self.exceeded or len(data) > room
        if text := self._decoders[stream].decode(data[: max(0, room)], final):
            self._log(stream, self._whole[stream].feed(text))
            if stream in self._spools and self.broken is None:
                try:
                    self._spools[stream].add(text)
                except (OSError, StoreFailed) as error:
                    self.broken = error

    def _log(self, stream: str, text: str) -> None:
        if not text:
            return
        if self._lines is None:
            self._world.log(self._call, stream, text)
        elif self._lines > 0:
            self._lines -= len(text)
            self._world.log(self._call, stream, text if self._lines > 0 else f"{text}\n… the rest is in the result\n")

    def finish(self) -> None:
        """No more comes."""
        for stream in self._decoders:
            self.take(stream, b"", final=True)
            self._log(stream, self._whole[stream].finish())


class ExecutionProcesses:
    """All processes that were started for one execution: what is left of them ends with it."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)

    @classmethod
    async def open(cls) -> ExecutionProcesses:
        """One without members."""
        return cls()

    def kill(self) -> bool:
        """Kill all there is of it; False: there was nothing."""
        try:
            return _kill(_descendants([(f"{_MARK}={self.token}-".encode(), None)]))
        except OSError:  # no open files are left to look with
            return True

    async def close(self) -> None:
        """Kill them, and see that they are gone."""
        give_up = asyncio.get_running_loop().time() + _PATIENCE_S
        while self.kill() and asyncio.get_running_loop().time() < give_up:  # noqa: ASYNC110  nobody tells of deaths
            await asyncio.sleep(0.002)


class ChildProcess:
    """A process, from its start to the end of everything it started. OSError: it cannot be started."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        files: Sequence[int] = (),
        family: ExecutionProcesses | None = None,
    ) -> None:
        self.capture: Capture | None = None
        self._loop = asyncio.get_running_loop()
        #: the exit code; negative: the signal that ended it
        self.ended: asyncio.Future[int] = self._loop.create_future()
        token = f"{(family or ExecutionProcesses()).token}-{secrets.token_hex(8)}"
        self._marker = f"{_MARK}={token}".encode()
        reader, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603  to run what the author says is what this is for
                arguments,
                cwd=folder,
                env={**environment, _MARK: token},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(reader, *files),
            )
            _kill_group_when_closed(reader, self._process.pid)
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(reader)
        self._streams: dict[str, int] = {}
        self._listen()
        self._watch()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = {"stdout": self._process.stdout.fileno(), "stderr": self._process.stderr.fileno()}
        for stream, descriptor in self._streams.items():
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._read, stream)

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old one
            self._pidfd = -1
            self._on_exit()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _on_exit(self) -> None:
        code = self._process.poll()
        if code is None:
            if self._pidfd < 0:
                self._loop.call_later(0.02, self._on_exit)
            return
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        if not self.ended.done():
            self.ended.set_result(code)

    def _read(self, stream: str) -> bool:
        """Take what waits in a pipe; False: nothing does."""
        descriptor = self._streams.get(stream)
        if descriptor is None:
            return False
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(descriptor)
            del self._streams[stream]
            return False
        if self.capture is not None:
            self.capture.take(stream, data)
            if self.capture.exceeded or self.capture.broken is not None:
                self.kill_group()
        return True

    async def wait(self) -> int:
        """The exit code, when there is one."""
        return await asyncio.shield(self.ended)

    def drain(self) -> None:
        """Take all that was written up to now. Whoever writes on and on is not waited for."""
        for stream in tuple(self._streams):
            for _ in range(32):
                if not self._read(stream):
                    break

    def kill_group(self) -> None:
        """Kill it and all that stayed in its group."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._life >= 0:  # also reaches the group when its leader is gone, and never anybody else
            os.close(self._life)
            self._life = -1

    def close(self) -> None:
        """Kill the group, and let go of the pipes."""
        self.kill_group()
        for descriptor in self._streams.values():
            self._loop.remove_reader(descriptor)
        self._streams = {}
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def terminate(self) -> None:
        """Tell it and all that stayed in its group to put things in order and end."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    async def end(self, *, grace_s: float = 0.0) -> None:
        """Kill it and everything it started, wherever that has gone, and see that it is gone."""
        await end([self], grace_s=grace_s)

    @property
    def identity(self) -> tuple[bytes, int | None]:
        """What its descendants can be known by: the marker, and its number while that is surely its own."""
        return self._marker, self._process.pid if self._process.returncode is None else None


async def end(children: Sequence[ChildProcess], *, grace_s: float = 0.0) -> None:
    """End them all, looking through the processes of the machine as few times as possible.

    With a `grace_s` they are asked first, and killed when that time is over.
    """
    loop = asyncio.get_running_loop()
    try:
        if children and grace_s:
            await _terminate(children, grace_s)
        give_up = loop.time() + _PATIENCE_S
        while children and kill_trees(children) and loop.time() < give_up:  # noqa: ASYNC110  nobody tells of deaths
            await asyncio.sleep(0.002)
        if children:
            await asyncio.wait([child.ended for child in children], timeout=_PATIENCE_S)
    finally:
        for child in children:
            child.close()


async def _terminate(children: Sequence[ChildProcess], grace_s: float) -> None:
    """Ask them to end, and give them the time; their descendants are known by them no longer when they have."""
    descendants = [_pidfd_of(pid) for pid in _descendants([child.identity for child in children])]
    try:
        for child in children:
            child.terminate()
        await asyncio.wait([child.ended for child in children], timeout=grace_s)
        for child in children:
            child.drain()
    finally:
        for handle in filter(None, descendants):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def _pidfd_of(pid: int) -> int | None:
    """What stands for this very process, and for no later one of the same number."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def kill_trees(children: Sequence[ChildProcess]) -> bool:
    """Kill all there is of them; False: there was nothing."""
    found = _descendants([child.identity for child in children])
    for child in children:
        child.kill_group()
    return _kill(found)


def _kill(found: set[int]) -> bool:
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


class ProcessCounter:
    """Counts the processes that a child has started while a task runs in it, and ends it when there are too many.

    The kernel's own limit counts all processes of a user, and holds nobody who is root. This one is no wall against
    those who become more faster than they are counted; it ends what goes wrong by mistake.
    """

    def __init__(self, child: ChildProcess, call: Call) -> None:
        self.limit: int | None = call.spec.get("limits.processes")
        self.exceeded = False
        self._child = child
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self.limit is not None:
            self._timer = asyncio.get_running_loop().call_later(_COUNT_S / 2, self._count, self.limit)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _count(self, limit: int) -> None:
        found = _descendants([self._child.identity])
        if len(found) - 1 > limit:
            self.exceeded = True
            self._child.kill_group()  # first, and at one blow: they may be quick to become more
            _kill(found)
        else:
            self._timer = asyncio.get_running_loop().call_later(_COUNT_S, self._count, limit)


def _kill_group_when_closed(reader: int, group: int) -> None:
    """Have the kernel send SIGKILL to a process group when the other end of this pipe is closed, by whatever cause."""
    if not hasattr(fcntl, "F_SETSIG"):  # only Linux can; elsewhere an engine that is killed may leave processes
        return
    fcntl.fcntl(reader, fcntl.F_SETOWN, -group)
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)


def _descendants(kin: Sequence[tuple[bytes, int | None]]) -> set[int]:
    """The living processes that have one of the markers, or are of a root's session, or descend from one of these."""
    roots = {root for _, root in kin if root is not None}
    parents: dict[int, int] = {}
    found: set[int] = set()
    for name in os.listdir("/proc") if _HAS_PROC else ():  # noqa: PTH208  a path object for each costs more than the rest
        if not name.isdigit():
            continue
        try:
            state, parent, _, session = _read_file(f"/proc/{name}/stat").rpartition(b")")[2].split()[:4]
            environment = b"" if parent == _KERNEL else _read_file(f"/proc/{name}/environ")
        except OSError:  # it has ended meanwhile, or is not ours
            continue
        if state in b"ZX":
            continue
        pid = int(name)
        parents[pid] = int(parent)
        if pid in roots or int(session) in roots or any(marker in environment for marker, _ in kin):
            found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _read_file(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code}"
    return f"was killed by {signal_name(code)}"


def signal_name(code: int) -> str:
    """The name of the signal of a negative exit code."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
