"""House: everything put together for one process. The only module that knows every adapter."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from noetl.config import Settings, settings
from noetl.errors import NoetlError
from noetl.model.events import Fact
from noetl.model.net import Net
from noetl.model.orders import StartChild
from noetl.model.output import Output, failed, failure, ok
from noetl.model.requests import Cancel, ChildEnded, Due, Open, Posted
from noetl.model.state import Execution
from noetl.pipeline.frame import Moment
from noetl.ports import Call, EventLog, Line, Source, StoreFailed
from noetl.server.catalog import Catalog
from noetl.server.service import Hot, Service
from noetl.tools.registry import Kinds
from noetl.worker.local import Running, Workshop
from noetl.worker.world import LocalWorld

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
#: how often requests from other processes are looked for, in seconds
POLL = 0.05


def new_execution_id(now: float) -> str:
    """Ten characters that order in time, six that tell apart."""
    number = (int(now * 1000) << 30) | secrets.randbits(30)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(75, -1, -5))


def open_log(settings: Settings) -> EventLog:
    """The event log of this machine."""
    from noetl.stores.sqlite import SqliteLog

    return SqliteLog(settings.home / "noetl.db", durability=settings.durability)


def open_house() -> House:
    """A house as the environment describes it."""
    found = settings()
    return House(found, open_log(found))


class House:
    """A log, the service that decides, and the workshop that carries out."""

    def __init__(self, settings: Settings, log: EventLog) -> None:
        self.settings = settings
        self.log = log
        self.kinds = Kinds()
        self.catalog = Catalog(self.kinds)
        self.shop = Workshop(log, self.kinds, self._world, clock=time.time, moment=self._moment)
        self.shop.office = self
        self.service = Service(log, self.shop, clock=time.time, new_id=lambda: str(uuid.uuid4()))
        self._sources: dict[str, Source] = {}
        self._kept: set[str] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._poller: asyncio.Task[None] | None = None
        #: claimed, not loaded yet: requests for them have to wait
        self._coming: set[str] = set()

    async def __aenter__(self) -> Self:
        self._poller = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._poller is not None:
            self._poller.cancel()
        await self.shop.close()
        await self.log.close()

    def kill(self) -> None:
        """End the processes that tools started, at once; the log stays as it is."""
        for world in self.shop.worlds.values():
            world.kill()

    # --- starting ----------------------------------------------------------------------------------------------------

    async def start(self, source: Source, net: Net, payload: dict[str, Any], **more: Any) -> Hot:
        """Start an execution."""
        if source.hash not in self._kept:
            self.log.keep_source(source)
            self._kept.add(source.hash)
        execution_id = more.pop("execution_id", None) or new_execution_id(time.time())
        self._sources[execution_id] = source
        await self.log.claim(execution_id)
        return await self.service.start(net, Open(execution_id, source.hash, payload, file=source.file, **more))

    async def resume(self, execution_id: str) -> Hot:
        """Go on with an execution that was interrupted."""
        summary = self.log.summary(execution_id)
        source = self.log.source(summary.playbook) if summary is not None else None
        if summary is None or source is None:
            raise NoetlError(f"there is no execution {execution_id}")
        net = self.catalog.net(source)
        if net is None:
            raise NoetlError(f"the playbook of {summary.execution_id} can no longer be read: {source.file}")
        self._sources[summary.execution_id] = source
        self._coming.add(summary.execution_id)
        try:
            if not await self.log.claim(summary.execution_id):
                raise NoetlError(f"execution {summary.execution_id} is being run by another process")
            return await self.service.take_over(summary.execution_id, net)
        finally:
            self._coming.discard(summary.execution_id)

    # --- what the workshop asks for ------------------------------------------------------------------------------------

    async def report(self, execution_id: str, facts: list[Fact]) -> None:
        """Hear facts of a pipeline."""
        await self.service.record(execution_id, facts)

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """The same, without waiting."""
        self.service.post(execution_id, facts)

    def due(self, execution_id: str) -> None:
        """Hear that a time has come."""
        self.service.post(execution_id, [Due()])

    def child_id(self) -> str:
        """The id of an execution that is to be started."""
        return new_execution_id(time.time())

    def broken(self, execution_id: str, error: BaseException) -> None:
        """Hear that a pipeline broke: a mistake of ours, or a store that does not write."""
        self.service.give_up(execution_id, error)

    def start_child(self, hot: Running, order: StartChild) -> None:
        """Start a child execution, or go on with it."""
        self._later(self._child(hot, order))

    def stop_child(self, execution_id: str) -> None:
        """Cancel a child execution."""
        self.service.post(execution_id, [Cancel("its parent was cancelled")])

    def _later(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _child(self, parent: Running, order: StartChild) -> None:
        child = order.child
        try:
            output = await self._childs_output(parent, child, order.task_run_id)
        except NoetlError as error:
            output = failed(failure("playbook", f"playbook `{child['path']}` could not be run: {error}"))
        with contextlib.suppress(NoetlError):  # a store that fails is heard of by whoever waits for the parent
            await self.service.record(parent.id, [ChildEnded(child["execution_id"], output)])

    async def _childs_output(self, parent: Running, child: dict[str, Any], task_run_id: str) -> Output:
        execution_id = child["execution_id"]
        if self.log.summary(execution_id) is not None:
            hot = self.service.hot.get(execution_id) or await self.resume(execution_id)
        else:
            near = self._file(parent)
            file = self.catalog.find(child["path"], near=near)
            if file is None:
                where = near.parent
                return failed(failure("playbook", f"there is no playbook `{child['path']}` in {where}"))
            source, loaded = self.catalog.read(file, legacy=self._sources[parent.id].legacy)
            if loaded.net is None:
                return failed(failure("playbook", f"the playbook {file} has errors: run `noetl validate {file}`"))
            hot = await self.start(
                source,
                loaded.net,
                child["payload"],
                execution_id=execution_id,
                entry_step=child.get("entry_step"),
                return_step=child.get("return_step"),
                parent={"execution_id": parent.id, "task_run_id": task_run_id},
                depth=parent.state.depth + 1,
            )
        await asyncio.shield(hot.finished)
        return output_of(hot.state)

    def _file(self, hot: Running) -> Path:
        # The same text may lie in several folders; the execution knows from which it was run.
        return Path(hot.state.file or self._sources[hot.id].file).absolute()

    def _world(self, hot: Running) -> LocalWorld:
        drafts = self.settings.home / "results" / "drafts"
        return LocalWorld(self._file(hot).parent, self.settings.environment, self._log_line, drafts)

    def _log_line(self, call: Call, stream: str, text: str) -> None:
        stamp = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        line = Line(stamp, call.step, call.task, call.iteration, stream, text)
        self.log.write_lines(call.execution_id, [line])

    def _moment(self) -> Moment:
        return Moment(time.time(), lambda: str(uuid.uuid4()), random.random())  # noqa: S311  jitter is no secret

    # --- other processes ---------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        waiting: list[tuple[int, str, bytes]] = []
        while True:
            # A store that cannot be read now may be able to later; whoever writes to it hears of it anyway.
            with contextlib.suppress(StoreFailed):
                waiting += self.log.collect()
            for number, execution_id, body in waiting:
                if execution_id not in self._coming:
                    self._later(self._request(number, execution_id, body))
            waiting = [one for one in waiting if one[1] in self._coming]
            await asyncio.sleep(POLL)

    async def _request(self, number: int, execution_id: str, body: bytes) -> None:
        """Let a request take effect, and forget it when that is durable."""
        with contextlib.suppress(NoetlError):
            await self.service.record(execution_id, [decode_request(body, number)])
            self.log.settle(number)


def output_of(state: Execution) -> Output:
    """What a child's end means to its caller."""
    if state.status == "completed":
        return ok(state.output)
    # Of a failure that has come up through several playbooks, the one at the bottom says what is wrong.
    error = state.error or {}
    error = error.get("cause") or error
    kind = "cancelled" if state.status == "cancelled" else "playbook"
    message = f"playbook `{state.path}` {state.status}: {error.get('message', '')}"
    return failed(failure(kind, message, child=state.execution_id, cause=error))


_posted = msgspec.json.Decoder(Posted)


def encode_request(request: Posted) -> bytes:
    """A request as it is left for another process."""
    return msgspec.json.encode(request)


def decode_request(body: bytes, number: int = 0) -> Posted:
    """A request that another process left, with its place in the inbox."""
    posted: Posted = msgspec.structs.replace(_posted.decode(body), number=number)
    return posted
