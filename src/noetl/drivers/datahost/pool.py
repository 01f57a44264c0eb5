"""The engine's end of data hosts: starting them, calling them, interrupting a call, ending them.

Databases in files are opened in one host for the whole execution, because a file belongs to one process at a time;
its tasks work side by side in there. Whatever needs no database file gets a host of its own while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import marshal
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.drivers.confinement import SOURCES, Bounds, Confinement, bounds_of, enforcement_failure
from noetl.drivers.exhaustion import check_machine
from noetl.drivers.processes import ChildProcess, describe_exit, end
from noetl.errors import describe_os_error
from noetl.model.output import Failure, failure
from noetl.ports import World

#: how long an interrupted call is given to end by itself
_LEAVING_S = 3.0
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from noetl.drivers.datahost.host import main; "
    "main(int(sys.argv[2]), sys.argv[3])"
)


class CallFailed(Exception):
    """A call came to a failure; it is in `failure`."""

    def __init__(self, found: Failure) -> None:
        super().__init__(found["message"])
        self.failure = found


class HostReply(msgspec.Struct):
    """What a host answers: a small value, and bytes that are handed on as they are."""

    value: Any
    blob: bytes


class DataHosts:
    """The hosts of one execution."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._folder = world.folder
        #: where hosts put what does not fit into memory
        self._scratch = world.draft(".scratch")
        self._places = asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1)))
        self._numbers = itertools.count()
        #: by bounds: a process that is within some stays there
        self._shared: dict[Bounds, DataHost] = {}
        self._sharing = asyncio.Lock()
        self._idle: list[DataHost] = []
        self._all: set[DataHost] = set()

    @classmethod
    async def of(cls, world: World) -> DataHosts:
        """The hosts of an execution, made at the first question."""

        async def make() -> DataHosts:
            return cls(world)

        return await world.resource("data hosts", make, cls.close)

    @contextlib.asynccontextmanager
    async def lease(self, *, shared: bool, spec: Mapping[str, Any]) -> AsyncIterator[DataHost]:
        """A host within the bounds of a task: the one for database files, or one that nobody else uses meanwhile.

        CallFailed: this machine cannot keep a process within them.
        """
        bounds = Bounds(network=bounds_of(spec).network)  # what else is strict, DuckDB keeps: see `databases`
        if (problem := enforcement_failure(bounds)) is not None:
            raise CallFailed(problem)
        if shared:
            async with self._sharing:  # two who come at once must not get two processes for the same files
                known = self._shared.get(bounds)
                if known is None or not known.usable:
                    known = self._shared[bounds] = await self._start(bounds)
            yield known
            return
        async with self._places:
            self._idle = [host for host in self._idle if host.usable]
            host = next((one for one in reversed(self._idle) if one.bounds == bounds), None)
            if host is None:
                host = await self._start(bounds)
            else:
                self._idle.remove(host)
            try:
                yield host
            finally:
                if host.usable:
                    self._idle.append(host)
                else:
                    await host.end()

    async def _start(self, bounds: Bounds) -> DataHost:
        try:
            host = await DataHost.start(
                Confinement(bounds, self._world), self._folder, self._scratch / str(next(self._numbers))
            )
        except OSError as error:
            check_machine(error, starting=True)
            found = failure("tool-crashed", f"no process for the task: {describe_os_error(error)}", retryable=True)
            raise CallFailed(found) from None
        gone = {one for one in self._all if not one.usable}
        self._all = (self._all - gone) | {host}
        for one in gone:
            await one.end()
        return host

    def kill(self) -> None:
        """Kill all hosts, without waiting."""
        for host in self._all:
            host.child.kill_group()

    async def close(self) -> None:
        """End all hosts, and remove what they left."""
        import shutil

        everyone, self._all, self._idle, self._shared = list(self._all), set(), [], {}
        await end([host.child for host in everyone])
        for host in everyone:
            await host.end()
        shutil.rmtree(self._scratch, ignore_errors=True)


class DataHost:
    """One host."""

    def __init__(
        self, child: ChildProcess, bounds: Bounds, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.child = child
        self.bounds = bounds
        #: whether another call may be made
        self.usable = True
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[HostReply]] = {}
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def start(cls, place: Confinement, folder: Path, scratch: Path) -> DataHost:
        """A new process. OSError: there can be none."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                arguments = [SOURCES, str(theirs.fileno()), str(scratch)]
                child = ChildProcess(
                    place.command([sys.executable, "-P", "-X", "utf8", "-c", _START, *arguments]),
                    folder=folder,
                    environment=place.environment,
                    files=(theirs.fileno(),),
                )
            except OSError:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(child, place.bounds, reader, writer)

    async def call(self, function: str, given: Mapping[str, Any]) -> HostReply:
        """Call a function of the host, `module:name`. CallFailed: it failed, or the host is gone."""
        number = next(self._numbers)
        answer: asyncio.Future[HostReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"id": number, "do": function, "given": given})
            return await answer
        except asyncio.CancelledError:
            await self._interrupt(number)
            raise
        finally:
            self._waiting.pop(number, None)

    def _send(self, message: dict[str, Any]) -> None:
        if not self.usable:
            raise CallFailed(failure("tool-crashed", "the data host is gone", retryable=True))
        body = marshal.dumps(message)
        self._writer.write(len(body).to_bytes(8, "big"))
        self._writer.write(body)

    async def _interrupt(self, number: int) -> None:
        """Have a call stop; what does not is killed, and everybody else's calls in there with it."""
        ended = self._waiting[number] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(CallFailed):
            self._send({"id": number, "do": "interrupt"})
            stopping = asyncio.ensure_future(asyncio.wait([ended], timeout=_LEAVING_S))
            await asyncio.shield(stopping)
        if not ended.done():
            await self.end()
        elif not ended.cancelled():
            ended.exception()  # nobody wants to know

    async def _listen(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await self._reader.readexactly(16)
                sizes = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:], "big")
                said = msgspec.json.decode(await self._reader.readexactly(sizes[0]))
                blob = await self._reader.readexactly(sizes[1])
                self._handle_reply(said, blob)
        self.usable = False
        if self._waiting:
            await asyncio.wait([self.child.ended], timeout=_LEAVING_S)
        found = self._crash_failure()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(CallFailed(found))

    def _handle_reply(self, said: dict[str, Any], blob: bytes) -> None:
        answer = self._waiting.get(said["id"])
        if answer is None or answer.done():
            return
        if "error" in said:
            answer.set_exception(CallFailed({"retryable": False, **said["error"]}))
        else:
            answer.set_result(HostReply(said.get("value"), blob))

    def _crash_failure(self) -> Failure:
        if not self.child.ended.done():
            return failure("tool-crashed", "the data host cut its connection", retryable=True)
        message = f"the process that worked on the data {describe_exit(self.child.ended.result())}"
        return failure("tool-crashed", message, retryable=True)

    async def end(self) -> None:
        """Kill it with all that it started."""
        self.usable = False
        try:
            await self.child.end()
        finally:
            self._writer.close()
            await asyncio.wait([self._listening], timeout=_LEAVING_S)
