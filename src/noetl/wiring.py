"""House: everything put together for one process. The only module that knows every adapter."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from noetl.config import Settings, settings
from noetl.errors import NoetlError
from noetl.model.events import Fact
from noetl.model.net import Net
from noetl.model.orders import StartChild
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.requests import Cancel, ChildEnded, Due, Open, Pause, Resume, decode_request
from noetl.model.scope import merged
from noetl.model.state import Execution
from noetl.pipeline.frame import Moment
from noetl.ports import OVER, Call, EventLog, Line, ResultDamaged, ResultGone, Source, StoreFailed, Summary
from noetl.results.opening import open_payloads
from noetl.results.store import PayloadStore
from noetl.secrets.household import Keychains, open_store, stored
from noetl.server.catalog import Catalog
from noetl.server.history import snapshot_of
from noetl.server.notices import Notices
from noetl.server.service import SNAPSHOT_EVERY, Hot, Service, shown_status
from noetl.tools.registry import Kinds
from noetl.worker.drafts import sweep
from noetl.worker.local import Running, Workshop
from noetl.worker.world import LocalWorld

if TYPE_CHECKING:
    from noetl.server.fork import Fork

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
#: how many executions may come of one that was started, where playbooks call themselves
RECURSIONS = 10_000
#: how often requests from other processes are looked for, in seconds
POLL = 0.05
#: after how many new containers the collector looks around: data makes many, and none of it goes round in circles
_LOOK_FOR_GARBAGE = 10_000
_WITHOUT_PARENT = "its parent was cancelled"


def new_execution_id(now: float) -> str:
    """Ten characters that order in time, six that tell apart."""
    number = (int(now * 1000) << 30) | secrets.randbits(30)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(75, -1, -5))


def open_log(settings: Settings) -> EventLog:
    """The event log: a file of this machine, or a database."""
    if settings.store is not None:
        from noetl.stores.postgres import PostgresLog

        return PostgresLog(settings.store.reveal())
    from noetl.stores.sqlite import SqliteLog

    return SqliteLog(settings.home / "noetl.db", durability=settings.durability)


def open_results(settings: Settings, clock: Callable[[], float] = time.time) -> PayloadStore:
    """The result store, wherever it is."""
    credentials = open_store(settings, clock)
    return open_payloads(settings, lambda name: stored(credentials, name), clock)


def open_house() -> House:
    """A house as the environment describes it."""
    found = settings()
    return House(found, open_log(found))


class Nature(msgspec.Struct, frozen=True):
    """Time, ids and chance as a process gets them; trials bring their own."""

    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_execution_id: Callable[[float], str] = new_execution_id
    chance: Callable[[], float] = random.random


class House:
    """A log, the service that decides, and the workshop that carries out."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        *,
        kinds: Kinds | None = None,
        catalog: Catalog | None = None,
        nature: Nature | None = None,
        alone: bool = False,
    ) -> None:
        self.settings = settings
        self.log = log
        self.kinds = kinds or Kinds()
        self.catalog = catalog or Catalog(self.kinds)
        self.nature = nature or Nature()
        clock, new_id = self.nature.clock, self.nature.new_id
        self.results = open_results(settings, clock)
        self.shop = Workshop(log, self.kinds, self._world, clock=clock, moment=self._moment)
        self.shop.office = self
        self.service = Service(log, self.shop, self.catalog, clock=clock, new_id=new_id)
        self.keychains = Keychains(settings, clock=clock, new_id=new_id)
        self.notices = Notices(clock, new_id)
        self.service.watchers += [] if alone else [self.notices.heard]
        #: nobody outside asks for anything, so nobody looks for it, or is told of anything
        self._alone = alone
        #: the playbooks that were run here, by their hash
        self._sources: dict[str, Source] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._poller: asyncio.Task[None] | None = None
        #: the execution that was started → how many came of it because a playbook calls itself
        self._recursions: dict[str, int] = {}
        #: claimed, not loaded yet: requests for them have to wait
        self._coming: set[str] = set()
        #: children on their way, and whether they are to be cancelled when they are there
        self._starting: dict[str, bool] = {}

    async def __aenter__(self) -> Self:
        gc.set_threshold(_LOOK_FOR_GARBAGE)
        sweep(self.results.drafts)
        if not self._alone:
            self._poller = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._poller is not None:
            self._poller.cancel()
        await self.shop.close()
        await self.notices.settle()
        await self.keychains.close()
        self.results.close()
        await self.log.close()

    def kill(self) -> None:
        """End the processes that tools started, at once; the log stays as it is."""
        for world in self.shop.worlds.values():
            world.kill()

    # --- starting ----------------------------------------------------------------------------------------------------

    async def start(self, source: Source, net: Net, payload: dict[str, Any], **more: Any) -> Hot:
        """Start an execution."""
        await self._keep(source)
        execution_id = more.pop("execution_id", None) or self.child_id()
        self._coming.add(execution_id)
        try:
            await self.log.claim(execution_id)
            more["problem"] = more.get("problem") or await self.keychains.check(execution_id, net, source, payload)
            hot = await self.service.start(net, Open(execution_id, source.hash, payload, file=source.file, **more))
        finally:
            self._coming.discard(execution_id)
        if hot.state.over:
            self.keychains.forget(execution_id)
        return hot

    async def _keep(self, source: Source) -> None:
        if source.hash not in self._sources:
            await self.log.keep_source(source)
            self._sources[source.hash] = source

    async def resume(self, execution_id: str) -> Hot:
        """Go on with an execution that was interrupted."""
        summary = self.log.summary(execution_id)
        source = self.log.source(summary.playbook) if summary is not None else None
        if summary is None or source is None:
            raise NoetlError(f"there is no execution {execution_id}")
        net = self.catalog.net(source)
        if net is None:
            raise NoetlError(f"the playbook of {summary.execution_id} can no longer be read: {source.file}")
        self._sources[source.hash] = source
        self._coming.add(summary.execution_id)
        try:
            if not await self.log.claim(summary.execution_id):
                raise NoetlError(f"execution {summary.execution_id} is being run by another process")
            hot = await self.service.take_over(summary.execution_id, net)
        finally:
            self._coming.discard(summary.execution_id)
        if is_orphan(self.log, summary):  # the process ended between the end of the parent and its own
            self.service.post(hot.id, [Cancel(_WITHOUT_PARENT)])
        return hot

    async def output(self, hot: Hot) -> Any:
        """What an execution yielded: in full as far as `max_payload_bytes` goes, else its reference."""
        state, most = hot.state, hot.net.playbook.max_payload
        if state.output_ref is None:
            return state.output
        with contextlib.suppress(ResultGone, ResultDamaged):
            if (found := await self.results.read_small(state.output_ref, most)) is not None:
                return found[0]
        return state.output

    async def adopt(self, fork: Fork, source: Source, net: Net) -> Hot:
        """Go on with an execution that begins as another one did; its log is written as a whole, or not at all."""
        execution_id = fork.state.execution_id
        await self._keep(source)
        self._coming.add(execution_id)
        try:
            await self.log.claim(execution_id)
            snapshot = snapshot_of(fork.state) if len(fork.events) >= SNAPSHOT_EVERY else None
            await self.log.append(fork.events, status=shown_status(fork.state), snapshot=snapshot)
            return await self.service.take_over(execution_id, net)
        finally:
            self._coming.discard(execution_id)

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
        return self.nature.new_execution_id(self.nature.clock())

    def broken(self, execution_id: str, error: BaseException) -> None:
        """Hear that a pipeline broke: a mistake of ours, or a store that does not write."""
        self.service.give_up(execution_id, error)

    def start_child(self, hot: Running, order: StartChild) -> None:
        """Start a child execution, or go on with it."""
        self._starting[order.child["execution_id"]] = False
        self._later(self._child(hot, order))

    def stop_child(self, execution_id: str) -> None:
        """Cancel a child execution, now or as soon as it is there."""
        if execution_id in self._starting:
            self._starting[execution_id] = True
        else:
            self.service.post(execution_id, [Cancel(_WITHOUT_PARENT)])

    def hold_child(self, execution_id: str, *, paused: bool) -> None:
        """Pause a child execution with its parent, or let it go on; one that is as it should be is left alone."""
        request = Pause(with_parent=True) if paused else Resume(with_parent=True)
        self.service.post(execution_id, [request])

    def _later(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _child(self, parent: Running, order: StartChild) -> None:
        execution_id = order.child["execution_id"]
        try:
            found = await self._childs_run(parent, order.child, order.task_run_id)
            if self._starting.pop(execution_id):
                self.stop_child(execution_id)
            if isinstance(found, Hot):
                # What the parent was told while the child was on its way has not reached it.
                self.hold_child(execution_id, paused=parent.state.paused)
                await asyncio.shield(found.finished)
                found = output_of(found.state)
            await self.service.record(parent.id, [ChildEnded(execution_id, found)])
        except Exception as error:  # noqa: BLE001  as of a pipeline that breaks: nobody may wait for ever
            # That the child has not ended is no failure of it: both can be gone on with.
            self.broken(parent.id, error)
        finally:
            self._starting.pop(execution_id, None)

    async def _childs_run(self, parent: Running, child: dict[str, Any], task_run_id: str) -> Hot | Output:
        """The child as it runs; or why there is none."""
        execution_id = child["execution_id"]
        if self.log.summary(execution_id) is not None:
            return self.service.hot.get(execution_id) or await self.resume(execution_id)
        near = self._file(parent)
        file = self.catalog.find(child["path"], near=near)
        if file is None:
            return failed(failure("playbook", f"there is no playbook `{child['path']}` in {near.parent}"))
        try:
            source, loaded = self.catalog.read(file, legacy=self._sources[parent.state.playbook].legacy)
        except OSError as error:
            return failed(failure("playbook", f"the playbook {file} cannot be read: {error.strerror}"))
        if loaded.net is None:
            return failed(failure("playbook", f"the playbook {file} has errors: run `noetl validate {file}`"))
        if self._runs_away(parent, source):
            said = (
                f"playbook `{child['path']}` calls itself; more than {RECURSIONS:,} runs came of one that was started"
            )
            return failed(failure("limit", said))
        return await self.start(
            source,
            loaded.net,
            child["payload"],
            execution_id=execution_id,
            entry_step=child.get("entry_step"),
            return_step=child.get("return_step"),
            parent={"execution_id": parent.id, "task_run_id": task_run_id},
            depth=parent.state.depth + 1,
            restrict=child.get("restrict", {}),
            problem=_payload_problem(loaded.net, child["payload"]),
        )

    def _runs_away(self, parent: Running, source: Source) -> bool:
        """Whether a playbook that calls itself has done so too often: several calls at each level soon fill a disk."""
        state, above = parent.state, {parent.state.playbook}
        while state.parent is not None and (around := self.service.hot.get(state.parent["execution_id"])) is not None:
            state = around.state
            above.add(state.playbook)
        if source.hash not in above:
            return False
        self._recursions[state.execution_id] = count = self._recursions.get(state.execution_id, 0) + 1
        return count > RECURSIONS

    def _file(self, hot: Running) -> Path:
        # The same text may lie in several folders; the execution knows from which it was run.
        return Path(hot.state.file or self._sources[hot.state.playbook].file).absolute()

    def _world(self, hot: Running) -> LocalWorld:
        folder = self._file(hot).parent
        keychain = self.keychains.of(hot.id, hot.net.playbook, hot.state.workload, folder)
        seen, hidden = self.keychains.environment, [self.settings.home]
        restrict = hot.state.restrict
        return LocalWorld(folder, seen, self._log_line, self.results, keychain, hidden=hidden, restrict=restrict)

    def _log_line(self, call: Call, stream: str, text: str) -> None:
        stamp = datetime.fromtimestamp(self.nature.clock(), UTC).isoformat(timespec="milliseconds")
        line = Line(stamp, call.step, call.task, call.iteration, stream, text)
        self.log.write_lines(call.execution_id, [line])

    def _moment(self) -> Moment:
        return Moment(self.nature.clock(), self.nature.new_id, self.nature.chance())

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


def _payload_problem(net: Net, payload: dict[str, Any]) -> Failure | None:
    """Why a child cannot start with what it is given, as `noetl run` would tell it."""
    schema = net.playbook.metadata.get("schema")
    if schema is None:
        return None
    from noetl.lang.workload import misfits

    wrong = [f"{one.name}: {one.said}" for one in misfits(merged(net.playbook.workload, payload), schema)]
    return failure("schema", f"its payload does not fit its schema: {'; '.join(wrong[:5])}") if wrong else None


def is_orphan(log: EventLog, summary: Summary) -> bool:
    """Whether an execution was started by one that is over."""
    parent = log.summary(summary.parent) if summary.parent is not None else None
    return parent is not None and parent.status in OVER


def output_of(state: Execution) -> Output:
    """What a child's end means to its caller."""
    if state.status == "completed":
        if state.output_ref is not None:
            return {**ok(), "ref": state.output_ref, "external": True}
        return ok(state.output)
    # Of a failure that has come up through several playbooks, the one at the bottom says what is wrong.
    error = state.error or {}
    error = error.get("cause") or error
    kind = "cancelled" if state.status == "cancelled" else "playbook"
    message = f"playbook `{state.path}` {state.status}: {error.get('message', '')}"
    return failed(failure(kind, message, child=state.execution_id, cause=error))
