"""The control plane of one process: starts, resumes and gives up executions, and runs their children.

Workers carry out what it decides: in this process (`app.local`), or in others (`server.cluster.server_node`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.dispatch import Dispatcher
from noetl.errors import ExecutionStuck, NoetlError, SignalRefused
from noetl.history import snapshot_of
from noetl.lru import TEXT, LruCache
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure
from noetl.model.requests import Cancel, OpenExecution, Pause, Resume, decode_request
from noetl.model.state import Execution
from noetl.model.wire import Key
from noetl.ports import OVER, Conflict, EventLog, HasSlots, ListenableLog, PlaybookSource, StoreFailed, Summary
from noetl.server.core.catalog import Catalog
from noetl.server.core.children import WITHOUT_PARENT, Children, OwnedElsewhere
from noetl.server.core.execution_ids import new_execution_id
from noetl.server.core.failure_notices import FailureNotices
from noetl.server.core.order_carrier import OrderCarrier
from noetl.server.core.pipeline_orders import Pipelines, WorkerSide
from noetl.server.core.service import SNAPSHOT_EVERY, ExecutionService, LiveExecution
from noetl.server.core.start_keys import StartKey, find_started
from noetl.server.core.watchdog import Watchdog

if TYPE_CHECKING:
    from noetl.history import Fork

#: how often requests from other processes are looked for, in seconds
POLL = 0.05
#: the same where the store says that there are some, which may be missed
HEARING_POLL = 1.0
#: ids that are drawn for an execution, should others have them
_TRIES = 100


class Effects(msgspec.Struct, frozen=True):
    """Time, ids and chance as a process gets them; tests bring their own."""

    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_execution_id: Callable[[float], str] = new_execution_id
    chance: Callable[[], float] = random.random
    #: 128 random bits
    new_secret: Callable[[], str] = partial(secrets.token_hex, 16)


def write_stderr(message: str) -> None:
    """A line for whoever looks on; nobody has to."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{message}\n")


class ControlPlane:
    """A log, the service that decides, and all that executions ask of the process that runs them but pipelines."""

    def __init__(
        self,
        log: EventLog,
        catalog: Catalog,
        side: WorkerSide,
        effects: Effects | None = None,
        *,
        local: str | None = None,
        alone: bool = False,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.log = log
        self.catalog = catalog
        self.effects = effects or Effects()
        clock, new_id = self.effects.clock, self.effects.new_id
        children = Children(self)
        slots = log.slots(clock) if isinstance(log, HasSlots) else None
        self.dispatcher = Dispatcher(
            self._reissue,
            name=secrets.token_hex(4),
            new_secret=self.effects.new_secret,
            local=local,
            keeps_slots=slots is not None,
        )
        self.pipelines = Pipelines(self.dispatcher, side, slots, children.ask)
        self.service = ExecutionService(
            log,
            OrderCarrier(self.pipelines, children, clock),
            catalog,
            clock=clock,
            new_id=new_id,
            watchdog=watchdog,
        )
        self.service.on_lost = self.on_lost
        #: hears what whoever looks after the process should know
        self.print_line: Callable[[str], None] = write_stderr
        self.notices = FailureNotices(clock, new_id, self.warn)
        if not alone:
            self.service.watchers.append(self.notices.on_events)
        #: nobody outside asks for anything, so nobody looks for it, or is told of anything
        self._alone = alone
        #: the playbooks that were run here lately, by their hash; the log has them all
        self._sources: LruCache[str, PlaybookSource] = LruCache(TEXT)
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._poller: asyncio.Task[None] | None = None
        #: asked for by other processes, of executions that are not in memory now
        self._requests: list[tuple[int, str, bytes]] = []
        #: when it is looked next whether these are over
        self._next_look = 0.0
        self._news = asyncio.Event()
        #: claimed, not loaded yet: requests for them have to wait
        self._coming: set[str] = set()

    def warn(self, message: str) -> None:
        """Say what is not as it should be."""
        self.print_line(f"warning: {message}")

    def open(self) -> None:
        """Begin to look for what others ask for."""
        if self._alone:
            return
        if isinstance(self.log, ListenableLog):
            loop = asyncio.get_running_loop()

            def forward(what: str) -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self.on_notification, what)

            self.log.listen(forward)
        self._poller = asyncio.create_task(self._poll())

    def on_notification(self, what: str) -> None:  # noqa: ARG002
        """Somebody says through the store that there is something."""
        self._news.set()

    def stop_polling(self) -> None:
        """Look no longer."""
        self.pipelines.close()
        if self._poller is not None:
            self._poller.cancel()

    def on_lost(self, execution_id: str, error: NoetlError) -> None:
        """Hear of an execution that was lost, given up or set aside."""
        if isinstance(error, ExecutionStuck):
            self.warn(f"{execution_id} is stuck: {error}; `noetl unpause {execution_id}` tries once more")

    def inherit(self, execution_id: str) -> None:
        """An execution is about to be taken over."""

    def on_takeover(self, execution_id: str) -> None:
        """It has been."""

    async def problem(
        self,
        execution_id: str,  # noqa: ARG002
        net: Net,  # noqa: ARG002
        source: PlaybookSource,  # noqa: ARG002
        payload: dict[str, Any],  # noqa: ARG002
    ) -> Failure | None:
        """Why an execution cannot begin here, as far as that can be known now."""
        return None

    def workers(self) -> list[dict[str, Any]]:
        """Those who carry out what is decided here, and are no part of this process."""
        return []

    def waits(self, execution_id: str) -> list[str]:
        """What an execution waits for that is no part of it, in words."""
        return self.pipelines.waits(execution_id)

    def dead_letters(self, paths: Sequence[str] = ()) -> list[dict[str, Any]]:  # noqa: ARG002
        """Pipelines that nobody brought to an end; where there are no workers apart, there are none."""
        return []

    # --- starting ----------------------------------------------------------------------------------------------------

    async def start(self, source: PlaybookSource, net: Net, payload: dict[str, Any], **more: Any) -> LiveExecution:
        """Start an execution; without an `execution_id` it gets one. Conflict: its key has started another one."""
        await self.keep(source)
        if (given := more.pop("execution_id", None)) is not None:
            return await self._open(given, source, net, payload, **more)
        for _ in range(_TRIES):
            execution_id = self.child_id()
            if execution_id in self._coming or execution_id in self.service.live:
                continue
            try:
                return await self._open(execution_id, source, net, payload, is_new=True, **more)
            except OwnedElsewhere:
                continue
            except Conflict:
                if await asyncio.to_thread(self.log.summary, execution_id) is None:
                    await self.abandon(execution_id)
                    raise
        raise NoetlError("no unused id was found for the execution: check the clock of this machine")

    async def start_once(
        self, key: StartKey, source: PlaybookSource, net: Net, payload: dict[str, Any], **more: Any
    ) -> LiveExecution | Summary:
        """Start the execution of a key, or return the one that it has started. KeyReused: by another request."""
        found = await asyncio.to_thread(find_started, self.log, key)
        if found is not None:
            return found
        try:
            return await self.start(source, net, payload, asked=key.describe(), **more)
        except Conflict:  # somebody else was faster
            found = await asyncio.to_thread(find_started, self.log, key)
            if found is None:
                raise
            return found

    async def _open(
        self,
        execution_id: str,
        source: PlaybookSource,
        net: Net,
        payload: dict[str, Any],
        *,
        is_new: bool = False,
        **more: Any,
    ) -> LiveExecution:
        self._coming.add(execution_id)
        try:
            if not await self.log.claim(execution_id) and is_new:
                raise OwnedElsewhere(f"another process has drawn the id {execution_id}, too")
            more["problem"] = more.get("problem") or await self.problem(execution_id, net, source, payload)
            return await self.service.start(
                net, OpenExecution(execution_id, source.hash, payload, file=source.file, **more)
            )
        finally:
            self._coming.discard(execution_id)

    async def abandon(self, execution_id: str) -> None:
        """Let go of what was prepared for an execution that did not start."""
        await self.log.forget(execution_id)

    async def keep(self, source: PlaybookSource) -> None:
        """Keep the text of a playbook that is run here, or called."""
        if self._sources.get(source.hash) != source:
            await self.log.keep_source(source)
            self._sources.put(source.hash, source, len(source.text))

    async def resume(self, execution_id: str) -> LiveExecution:
        """Go on with an execution that was interrupted."""
        summary = self.log.summary(execution_id)
        source = self.log.source(summary.playbook) if summary is not None else None
        if summary is None or source is None:
            raise NoetlError(f"there is no execution {execution_id}")
        net = self.catalog.net(source)
        if net is None:
            raise NoetlError(f"the playbook of {summary.execution_id} can no longer be read: {source.file}")
        self._sources.put(source.hash, source, len(source.text))
        while summary.execution_id in self._coming:  # noqa: ASYNC110  somebody here is about to do the same
            await asyncio.sleep(POLL)
        if (found := self.service.live.get(summary.execution_id)) is not None:
            return found
        self._coming.add(summary.execution_id)
        try:
            if not await self.log.claim(summary.execution_id):
                raise OwnedElsewhere(f"execution {summary.execution_id} is being run by another process")
            self.inherit(summary.execution_id)
            live = await self.service.take_over(summary.execution_id, net)
            self.on_takeover(summary.execution_id)
        finally:
            self._coming.discard(summary.execution_id)
        if is_orphan(self.log, summary):  # the process ended between the end of the parent and its own
            self.service.post(live.id, [Cancel(WITHOUT_PARENT)])
        return live

    async def adopt(self, fork: Fork, source: PlaybookSource, net: Net) -> LiveExecution:
        """Go on with an execution that begins as another one did; its log is written as a whole, or not at all."""
        execution_id = fork.state.execution_id
        await self.keep(source)
        self._coming.add(execution_id)
        try:
            await self.log.claim(execution_id)
            snapshot = snapshot_of(fork.state) if len(fork.events) >= SNAPSHOT_EVERY else None
            await self.log.append(fork.events, status=fork.state.shown_status, snapshot=snapshot)
            return await self.service.take_over(execution_id, net)
        finally:
            self._coming.discard(execution_id)

    # --- what workers ask for ------------------------------------------------------------------------------------------

    def _reissue(self, live: LiveExecution, order: RunPipeline) -> RunPipeline | None:
        return self.service.reissue(live, order)

    async def report(self, execution_id: str, facts: list[Fact], *, last: bool) -> None:  # noqa: ARG002
        """Hear facts of a pipeline."""
        await self.service.record(execution_id, facts)

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """The same, without waiting."""
        self.service.post(execution_id, facts)

    def read_recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of an order's pipeline."""
        return self.service.read_recorded(execution_id, order)

    def child_id(self) -> str:
        """The id of an execution that is to be started."""
        return self.effects.new_execution_id(self.effects.clock())

    def on_done(self, key: Key) -> None:
        """Hear that a pipeline has ended; what it had to say was said."""

    def on_broken(self, key: Key, error: BaseException) -> None:
        """Hear that a pipeline broke: a mistake of ours, or a store that does not write."""
        self.service.give_up(key[0], error)

    def spawn(self, coroutine: Any) -> None:
        """Do something beside, and hold on to it until it is done."""
        if self._closed:
            coroutine.close()
            return
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel_tasks(self) -> None:
        """End all that was spawned, and spawn nothing more: what it was for is found in the log."""
        self._closed = True
        self.service.watchdog.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def source(self, content_hash: str) -> PlaybookSource:
        """A playbook that was run here."""
        found = self._sources.get(content_hash) or self.log.source(content_hash)
        if found is None:
            raise NoetlError(f"there is no playbook {content_hash}")
        self._sources.put(content_hash, found, len(found.text))
        return found

    def file(self, state: Execution) -> Path:
        """The file of an execution's playbook."""
        # The same text may lie in several folders; the execution knows from which it was run.
        return Path(state.file or self.source(state.playbook).file).absolute()

    # --- other processes ---------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            # A store that cannot be read now may be able to later; whoever writes to it hears of it anyway.
            with contextlib.suppress(StoreFailed):
                self._requests += await self.collect()
                self._hand_on()
            await self._wait_for_news(waiting=bool(self._requests))

    def _hand_on(self) -> None:
        """Hand on what can be, in the order of numbers: one that comes behind a higher one is taken for handled."""
        now = asyncio.get_running_loop().time()
        look = bool(self._requests) and now >= self._next_look
        if look:
            self._next_look = now + HEARING_POLL
        asked, self._requests = sorted(self._requests), []
        try:
            while asked:
                if not self._try_hand_on(*asked[0], look=look):
                    self._requests.append(asked[0])
                del asked[0]
        finally:
            self._requests += asked  # the log gives them to nobody here a second time

    async def _wait_for_news(self, *, waiting: bool) -> None:
        """Wait until somebody says that there is something, or long enough that it could have been missed."""
        hears = isinstance(self.log, ListenableLog) and not waiting
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), HEARING_POLL if hears else POLL)
        self._news.clear()

    async def collect(self) -> list[tuple[int, str, bytes]]:
        """What others ask for."""
        return self.log.collect()

    def _try_hand_on(self, number: int, execution_id: str, body: bytes, *, look: bool) -> bool:
        """Hand a request on; False: its execution is not in memory, and may come. `look`: whether it is over."""
        if (live := self.service.live.get(execution_id)) is not None:
            if live.state.stuck is not None and not _steers(body, number):
                return False
            self.spawn(self._request(number, execution_id, body))
            return True
        summary = self.log.summary(execution_id) if look and execution_id not in self._coming else None
        if summary is not None and summary.status in OVER:
            self.log.settle(number)
            return True
        return False

    async def _request(self, number: int, execution_id: str, body: bytes) -> None:
        """Let a request take effect, and forget it when that is durable."""
        live = self.service.live.get(execution_id)
        try:
            request = decode_request(body, number)
        except msgspec.MsgspecError as error:  # left by a newer version, which may own the execution next
            self.warn(f"request {number} for {execution_id} cannot be read here and stays in the store: {error}")
            return
        with contextlib.suppress(NoetlError):
            # One that was refused has been dealt with, too: nobody may take it later.
            with contextlib.suppress(SignalRefused):
                try:
                    await self.service.record(execution_id, [request])
                except ExecutionStuck:  # asked again, it would take as long again
                    self.log.settle(number)
                    return
            if live is not None and not live.lost:
                self.log.settle(number)
                return
        # The execution has left the memory, with what was asked of it or before: it is asked again when it is back.
        self._requests.append((number, execution_id, body))


def _steers(body: bytes, number: int) -> bool:
    """Whether a request is for an execution that was set aside, too; others wait until it is resumed."""
    with contextlib.suppress(msgspec.MsgspecError):
        return isinstance(decode_request(body, number), Cancel | Pause | Resume)
    return False


def is_orphan(log: EventLog, summary: Summary) -> bool:
    """Whether an execution was started by one that is over."""
    parent = log.summary(summary.parent) if summary.parent is not None else None
    return parent is not None and parent.status in OVER


async def resume_unowned(control_plane: ControlPlane) -> list[tuple[str, NoetlError]]:
    """Go on with all executions that nobody runs; children are gone on with by their parents, if those are not over.

    Those that are paused come along: whoever lets one go on finds somebody to do so. Yields what could not be resumed.
    """
    unresumed: list[tuple[str, NoetlError]] = []
    found = await asyncio.to_thread(control_plane.log.summaries, limit=1_000_000, unfinished=True)
    for one in reversed(found):
        if not one.is_attended and (one.parent is None or is_orphan(control_plane.log, one)):
            try:
                await control_plane.resume(one.execution_id)
            except NoetlError as error:
                unresumed.append((one.execution_id, error))
    return unresumed
