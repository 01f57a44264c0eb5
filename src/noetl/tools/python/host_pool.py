"""The hosts of one execution: processes that run python tasks, kept warm, one task at a time each."""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, Any, Literal

import msgspec

from noetl.drivers.confinement import SOURCES, Bounds, Confinement, bounds_of, enforcement_failure
from noetl.drivers.exhaustion import check_machine
from noetl.drivers.processes import (
    GRACE_S,
    OUT_OF_TIME,
    Capture,
    ChildProcess,
    ProcessCounter,
    describe_exit,
    end,
    kill_trees,
    signal_name,
)
from noetl.drivers.spilled_data import draft_write_error, output_limit, over_limit
from noetl.model.output import Output, Spilled, failed, failure, ok
from noetl.ports import Call, World

#: what `context` may show: never `keychain`, whose values go nowhere but into a task's own fields
_SCOPES = ("workload", "ctx", "step", "iter", "input", "output", "steps", "execution_id", "_prev", "_task", "_attempt")
#: how long a host that hung up is given to end by itself
_LEAVING_S = 1.0
#: a message says a little more than the result in it
_FRAME = 65_536
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from noetl.tools.python.host import main; del sys.path[0]; "
    "main(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), sys.argv[5])"
)


class HostGone(Exception):
    """The host is gone, or says what it should not."""


def _plain(value: Any) -> Any:
    """What templates see may be a map of another class."""
    return dict(value) if isinstance(value, Mapping) else str(value)


class PythonPool:
    """At most as many hosts as make sense on this machine; tasks beyond that wait in line."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._most = max(4, 2 * (os.cpu_count() or 1))
        self._places = asyncio.Semaphore(self._most)
        self._idle: list[PythonHost] = []
        self._busy: set[PythonHost] = set()

    async def run(self, call: Call, world: World) -> Output:
        """Run one task."""
        bounds = bounds_of(call.spec)
        problem = enforcement_failure(bounds)
        if problem is not None:
            return failed(problem)
        async with self._places:
            try:
                host = await self._host(bounds, float(call.spec.get("limits.memory_mb") or 0))
            except OSError as error:
                check_machine(error, starting=True)
                return failed(failure("tool-crashed", f"no process for the code: {error}", retryable=True))
            self._busy.add(host)
            try:
                output = await host.run(call, world)
            except BaseException:  # cancelled: the code may be in the midst of anything
                await host.end(grace_s=GRACE_S)
                raise
            finally:
                self._busy.discard(host)
            if host.usable:
                self._idle.append(host)
            else:
                await host.end()
            return output

    async def _host(self, bounds: Bounds, memory_mb: float) -> PythonHost:
        """The host that was used last, whose memory is likely to be cached, or a new one."""
        for host in reversed(self._idle):
            if host.place.bounds == bounds and host.memory_mb == memory_mb and not host.child.ended.done():
                self._idle.remove(host)
                return host
        while len(self._idle) >= self._most:
            await self._idle.pop(0).end()
        return PythonHost(self._world, bounds, memory_mb)

    def kill(self) -> None:
        """Kill all hosts with all that they started, without waiting."""
        kill_trees([host.child for host in (*self._idle, *self._busy)])

    async def close(self) -> None:
        """End all hosts."""
        idle, self._idle = self._idle, []
        try:
            await end([host.child for host in idle])
        finally:
            for host in idle:
                host.disconnect()


class PythonHost:
    """The engine's end of one host."""

    def __init__(self, world: World, bounds: Bounds, memory_mb: float) -> None:
        self.place = Confinement(bounds, world)
        self.memory_mb = memory_mb
        #: whether another task may be given to it
        self.usable = True
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._socket.settimeout(0)
            folder = str(world.folder.absolute())
            arguments = [SOURCES, str(theirs.fileno()), folder, str(memory_mb), self.place.serialized]
            try:
                self.child = ChildProcess(
                    # no folder on the path that nobody asked for, and UTF-8 whatever the locale
                    [sys.executable, "-P", "-X", "utf8", "-c", _START, *arguments],
                    folder=world.folder,
                    environment=self.place.environment,
                    files=(theirs.fileno(),),
                )
            except OSError:
                self.disconnect()
                raise
        # Its end of the socket may live on in a process that it forked.
        self.child.ended.add_done_callback(lambda _: self._shut_down_reads())

    def _shut_down_reads(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RD)  # what was sent before can still be read
        except OSError:  # closed already
            return

    async def run(self, call: Call, world: World) -> Output:
        """Have it run a task. When this is cancelled, it has to be ended."""
        capture = self.child.capture = Capture(call, world)
        census = ProcessCounter(self.child, call)
        files = ExitStack()
        try:
            with census:
                reply, file = await self._reply(call, world, files)
            if file is not None and "unwritten" in reply:
                raise draft_write_error(world, reply["unwritten"])
            spilled = await _adopt_spill(reply, file, world)
        except (HostGone, OSError) as error:
            crowded = f"the code has more than {census.limit} processes" if census.exceeded else ""
            return await self._crash_output(call, capture, crowded or str(error))
        finally:
            files.close()
        self.child.drain()
        capture.finish()
        if capture.exceeded:
            return await self._crash_output(call, capture, "")
        return self._output(call, reply, spilled)

    async def _reply(self, call: Call, world: World, files: ExitStack) -> tuple[dict[str, Any], IO[bytes] | None]:
        """What the host has to say in the end, and the file that it wrote to; before that it may ask for things."""
        file: IO[bytes] | None = None
        limit = output_limit(call)
        most = (limit if call.spill is None else max(limit, call.spill)) + _FRAME
        await self._send(_request(call, limit))
        while "ask" in (reply := await self._receive(most)):
            if reply["ask"] == "scopes":
                await self._send({name: call.scopes[name] for name in _SCOPES if name in call.scopes})
            elif call.spill is not None and file is None:  # a second time it fails, and so does the task
                file = files.enter_context(world.open_unnamed())
                socket.send_fds(self._socket, [b"f"], [file.fileno()])
            else:
                raise HostGone
        return reply, file

    def _output(self, call: Call, reply: dict[str, Any], spilled: Spilled | None) -> Output:
        # A limit of processor time counts from the process's start and cannot be raised again.
        self.usable = call.spec.get("limits.cpu_s") is None
        error = reply.get("error")
        if error is None:
            return ok(reply.get("data") if spilled is None else spilled)
        self.usable = self.usable and error["kind"] not in ("limit", "isolation")
        helpers = {"py": reply["py"]} if "py" in reply else {}
        return failed({"retryable": False, **error}, **helpers)

    async def _crash_output(self, call: Call, capture: Capture, said: str) -> Output:
        """It ended, or must end, without a result."""
        self.usable = False
        await asyncio.wait([self.child.ended], timeout=_LEAVING_S)
        alive = not self.child.ended.done()
        self.child.drain()
        await self.end()
        capture.finish()
        if capture.exceeded:
            return failed(failure("limit", over_limit("what the code wrote", capture.limit)))
        if said:
            return failed(failure("limit", said))
        code = self.child.ended.result() if self.child.ended.done() else -9
        if code == OUT_OF_TIME:
            limit = call.spec.get("limits.cpu_s")
            return failed(failure("limit", f"the code used more than {limit} s of processor time"))
        if alive:
            return failed(failure("tool-crashed", "the code's process cut its connection to the engine"))
        how = {"exit_code": code} if code >= 0 else {"signal": signal_name(code)}
        message = f"the code's process {describe_exit(code)} before it gave a result"
        return failed(failure("tool-crashed", message, **how))

    async def _send(self, message: dict[str, Any]) -> None:
        body = marshal.dumps(msgspec.to_builtins(message, enc_hook=_plain, str_keys=True))
        await self._loop.sock_sendall(self._socket, len(body).to_bytes(4, "big") + body)

    async def _receive(self, most: int) -> dict[str, Any]:
        size = int.from_bytes(await self._read(4), "big")
        if size > most:
            raise HostGone(over_limit("the result", most - _FRAME))
        try:
            reply: dict[str, Any] = msgspec.json.decode(await self._read(size), type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):  # the code has written to the socket itself
            raise HostGone from None
        return reply

    async def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            part = await self._loop.sock_recv(self._socket, min(size - len(data), 1 << 20))
            if not part:
                raise HostGone
            data += part
        return data

    async def end(self, *, grace_s: float = 0.0) -> None:
        """Kill it with all that it started; with a `grace_s` the code is told first, and may put things in order."""
        self.usable = False
        try:
            await self.child.end(grace_s=grace_s)
        finally:
            self.disconnect()
            if self.child.capture is not None:
                self.child.capture.finish()

    def disconnect(self) -> None:
        """Let go of the socket, and of its place."""
        self._socket.close()
        self.place.close()


class _SpillReport(msgspec.Struct, frozen=True):
    """What a host says of a result that it has written to the draft. The code may have said it, too."""

    spilled: int
    rows: int | None
    columns: dict[str, Literal["BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "JSON"]] | None


async def _adopt_spill(reply: dict[str, Any], file: IO[bytes] | None, world: World) -> Spilled | None:
    if "spilled" not in reply:
        return None
    try:
        said = msgspec.convert(reply, _SpillReport)
    except msgspec.ValidationError:
        raise HostGone from None
    if file is None or os.fstat(file.fileno()).st_size != said.spilled:
        raise HostGone
    columns = {name: str(kind) for name, kind in said.columns.items()} if said.columns is not None else None
    return await world.adopt_spill(file, rows=said.rows, columns=columns, compact=True)


def _request(call: Call, limit: int) -> dict[str, Any]:
    """What the host is told about a task."""
    return {
        "name": f"<{call.step}.{call.task}>",
        "code": call.config.get("code"),
        "module": call.config.get("module"),
        "callable": call.config.get("callable"),
        "input": call.input if call.auth is None else {"auth": call.auth, **call.input},
        "limit": limit,
        "over_limit": over_limit("the result, as JSON,", limit),
        "spill": call.spill,
        "cpu_s": call.spec.get("limits.cpu_s"),
        "memory_mb": call.spec.get("limits.memory_mb"),
        "bounds": bounds_of(call.spec).words,
    }
