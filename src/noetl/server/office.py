"""Office: the control plane of one process. Executions are started, gone on with and given up here, and have children.

What it decides is carried out by a crew: in this process (`wiring.House`), or in workers elsewhere (`server.board`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.errors import NoetlError
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline, StartChild
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.requests import Cancel, ChildEnded, Due, Open, Pause, Posted, Resume, decode_request, encode_request
from noetl.model.scope import merged
from noetl.model.state import Execution
from noetl.model.wire import Key
from noetl.ports import OVER, EventLog, Source, StoreFailed, Summary
from noetl.server.catalog import Catalog
from noetl.server.errands import Crew, Errands
from noetl.server.history import snapshot_of, state_at
from noetl.server.notices import Notices
from noetl.server.service import SNAPSHOT_EVERY, Hot, Service, shown_status

if TYPE_CHECKING:
    from noetl.server.fork import Fork

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
#: how many executions may come of one that was started, where playbooks call themselves
RECURSIONS = 10_000
#: how often requests from other processes are looked for, in seconds
POLL = 0.05
#: how often it is looked whether an execution that another process runs is over, in seconds
ELSEWHERE = 0.2
_WITHOUT_PARENT = "its parent was cancelled"


def new_execution_id(now: float) -> str:
    """Ten characters that order in time, six that tell apart."""
    number = (int(now * 1000) << 30) | secrets.randbits(30)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(75, -1, -5))


class Taken(NoetlError):
    """Another process runs the execution."""


def keyed_id(key: str) -> str:
    """The id of the one execution that a key stands for; as long as any other, but without a time in it."""
    number = int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:10])
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(75, -1, -5))


class Nature(msgspec.Struct, frozen=True):
    """Time, ids and chance as a process gets them; trials bring their own."""

    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_execution_id: Callable[[float], str] = new_execution_id
    chance: Callable[[], float] = random.random


class Office:
    """A log, the service that decides, and all that executions ask of the process that runs them but pipelines."""

    def __init__(
        self, log: EventLog, catalog: Catalog, crew: Crew, nature: Nature | None = None, *, alone: bool = False
    ) -> None:
        self.log = log
        self.catalog = catalog
        self.nature = nature or Nature()
        clock, new_id = self.nature.clock, self.nature.new_id
        self.errands = Errands(crew, self, clock)
        self.service = Service(log, self.errands, catalog, clock=clock, new_id=new_id)
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

    def open(self) -> None:
        """Begin to look for what others ask for."""
        if not self._alone:
            self._poller = asyncio.create_task(self._poll())

    def shut(self) -> None:
        """Look no longer."""
        if self._poller is not None:
            self._poller.cancel()

    def inherit(self, execution_id: str) -> None:
        """An execution is about to be taken over."""

    def inherited(self, execution_id: str) -> None:
        """It has been."""

    async def problem(self, execution_id: str, net: Net, source: Source, payload: dict[str, Any]) -> Failure | None:  # noqa: ARG002
        """Why an execution cannot begin here, as far as that can be known now."""
        return None

    def workers(self) -> list[dict[str, Any]]:
        """Those who carry out what is decided here, and are no part of this process."""
        return []

    # --- starting ----------------------------------------------------------------------------------------------------

    async def start(self, source: Source, net: Net, payload: dict[str, Any], **more: Any) -> Hot:
        """Start an execution."""
        await self.keep(source)
        execution_id = more.pop("execution_id", None) or self.child_id()
        self._coming.add(execution_id)
        try:
            await self.log.claim(execution_id)
            more["problem"] = more.get("problem") or await self.problem(execution_id, net, source, payload)
            hot = await self.service.start(net, Open(execution_id, source.hash, payload, file=source.file, **more))
        finally:
            self._coming.discard(execution_id)
        return hot

    async def keep(self, source: Source) -> None:
        """Keep the text of a playbook that is run here, or called."""
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
        while summary.execution_id in self._coming:  # noqa: ASYNC110  somebody here is about to do the same
            await asyncio.sleep(POLL)
        if (found := self.service.hot.get(summary.execution_id)) is not None:
            return found
        self._coming.add(summary.execution_id)
        try:
            if not await self.log.claim(summary.execution_id):
                raise Taken(f"execution {summary.execution_id} is being run by another process")
            self.inherit(summary.execution_id)
            hot = await self.service.take_over(summary.execution_id, net)
            self.inherited(summary.execution_id)
        finally:
            self._coming.discard(summary.execution_id)
        if is_orphan(self.log, summary):  # the process ended between the end of the parent and its own
            self.service.post(hot.id, [Cancel(_WITHOUT_PARENT)])
        return hot

    async def adopt(self, fork: Fork, source: Source, net: Net) -> Hot:
        """Go on with an execution that begins as another one did; its log is written as a whole, or not at all."""
        execution_id = fork.state.execution_id
        await self.keep(source)
        self._coming.add(execution_id)
        try:
            await self.log.claim(execution_id)
            snapshot = snapshot_of(fork.state) if len(fork.events) >= SNAPSHOT_EVERY else None
            await self.log.append(fork.events, status=shown_status(fork.state), snapshot=snapshot)
            return await self.service.take_over(execution_id, net)
        finally:
            self._coming.discard(execution_id)

    # --- what crews ask for --------------------------------------------------------------------------------------------

    async def report(self, execution_id: str, facts: list[Fact], *, last: bool) -> None:  # noqa: ARG002
        """Hear facts of a pipeline."""
        await self.service.record(execution_id, facts)

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """The same, without waiting."""
        self.service.post(execution_id, facts)

    def recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of an order's pipeline."""
        return self.service.recorded(execution_id, order)

    def due(self, execution_id: str) -> None:
        """Hear that a time has come."""
        self.service.post(execution_id, [Due()])

    def child_id(self) -> str:
        """The id of an execution that is to be started."""
        return self.nature.new_execution_id(self.nature.clock())

    def done(self, key: Key) -> None:
        """Hear that a pipeline has ended; what it had to say was said."""

    def broken(self, key: Key, error: BaseException) -> None:
        """Hear that a pipeline broke: a mistake of ours, or a store that does not write."""
        self.service.give_up(key[0], error)

    def start_child(self, hot: Hot, order: StartChild) -> None:
        """Start a child execution, or go on with it."""
        self._starting[order.child["execution_id"]] = False
        self._later(self._child(hot, order))

    def stop_child(self, execution_id: str) -> None:
        """Cancel a child execution, now or as soon as it is there."""
        if execution_id in self._starting:
            self._starting[execution_id] = True
        else:
            self._ask(execution_id, Cancel(_WITHOUT_PARENT))

    def _ask(self, execution_id: str, request: Posted) -> None:
        """Ask something of an execution, wherever it is run."""
        if execution_id in self.service.hot:
            self.service.post(execution_id, [request])
            return
        summary = self.log.summary(execution_id)
        if summary is not None and summary.status not in OVER:
            self.log.post(execution_id, encode_request(request))

    def hold_child(self, execution_id: str, *, paused: bool) -> None:
        """Pause a child execution with its parent, or let it go on; one that is as it should be is left alone."""
        self._ask(execution_id, Pause(with_parent=True) if paused else Resume(with_parent=True))

    def _later(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _child(self, parent: Hot, order: StartChild) -> None:
        execution_id = order.child["execution_id"]
        try:
            found = await self._childs_run(parent, order.child, order.task_run_id)
            if self._starting.pop(execution_id):
                self.stop_child(execution_id)
            if isinstance(found, Hot):
                # What the parent was told while the child was on its way has not reached it.
                self.hold_child(execution_id, paused=parent.state.paused)
                found = await self._childs_end(found)
            await self.service.record(parent.id, [ChildEnded(execution_id, found)])
        except Exception as error:  # noqa: BLE001  as of a pipeline that breaks: nobody may wait for ever
            # That the child has not ended is no failure of it: both can be gone on with.
            self.service.give_up(parent.id, error)
        finally:
            self._starting.pop(execution_id, None)

    async def _childs_end(self, child: Hot) -> Output:
        """What a child yields, though another server may take it over on the way."""
        try:
            await asyncio.shield(child.finished)
        except NoetlError:
            if not await self._ends_elsewhere(child.id):
                raise
            return output_of(state_at(self.log, child.id))
        return output_of(child.state)

    async def _ends_elsewhere(self, execution_id: str) -> bool:
        """Wait for the end of an execution that another process runs; whether there is one that does."""
        while True:
            summary = await asyncio.to_thread(self.log.summary, execution_id)
            if summary is not None and summary.status in OVER:
                return True
            if summary is None or not summary.alive or summary.owner == self.log.me:
                return False
            await asyncio.sleep(ELSEWHERE)

    async def _childs_run(self, parent: Hot, child: dict[str, Any], task_run_id: str) -> Hot | Output:
        """The child as it runs; or why there is none."""
        execution_id = child["execution_id"]
        if self.log.summary(execution_id) is not None:
            return await self._child_again(execution_id)
        found = self._called(parent.state, child["path"])
        if not isinstance(found, tuple):
            return failed(found)
        source, net = found
        if self._runs_away(parent, source):
            said = (
                f"playbook `{child['path']}` calls itself; more than {RECURSIONS:,} runs came of one that was started"
            )
            return failed(failure("limit", said))
        return await self.start(
            source,
            net,
            child["payload"],
            execution_id=execution_id,
            entry_step=child.get("entry_step"),
            return_step=child.get("return_step"),
            parent={"execution_id": parent.id, "task_run_id": task_run_id},
            depth=parent.state.depth + 1,
            restrict=child.get("restrict", {}),
            calls=parent.state.calls,
            problem=_payload_problem(net, child["payload"]),
        )

    async def _child_again(self, execution_id: str) -> Hot | Output:
        """A child that was started before: it runs here, or elsewhere, or nowhere and is gone on with here."""
        while True:
            found = self.service.hot.get(execution_id)
            if found is not None:
                return found
            if await self._ends_elsewhere(execution_id):
                return output_of(state_at(self.log, execution_id))
            with contextlib.suppress(Taken):
                return self.service.hot.get(execution_id) or await self.resume(execution_id)

    def _called(self, caller: Execution, path: str) -> tuple[Source, Net] | Failure:
        """The playbook that another one calls: of those that came with its request, else of its folder."""
        near = self.file(caller)
        came = caller.calls.get(f"{near.parent}/{path}") or caller.calls.get(path)
        if came is not None:
            source = self.log.source(came)
            net = self.catalog.net(source) if source is not None else None
            if source is None or net is None:
                return failure("playbook", f"the playbook `{path}`, which came with the request, has errors")
            return source, net
        file = self.catalog.find(path, near=near)
        if file is None:
            return failure("playbook", f"there is no playbook `{path}` in {near.parent}")
        try:
            source, loaded = self.catalog.read(file, legacy=self._sources[caller.playbook].legacy)
        except OSError as error:
            return failure("playbook", f"the playbook {file} cannot be read: {error.strerror}")
        if loaded.net is None:
            return failure("playbook", f"the playbook {file} has errors: run `noetl validate {file}`")
        return source, loaded.net

    def _runs_away(self, parent: Hot, source: Source) -> bool:
        """Whether a playbook that calls itself has done so too often: several calls at each level soon fill a disk."""
        state, above = parent.state, {parent.state.playbook}
        while state.parent is not None and (around := self.service.hot.get(state.parent["execution_id"])) is not None:
            state = around.state
            above.add(state.playbook)
        if source.hash not in above:
            return False
        self._recursions[state.execution_id] = count = self._recursions.get(state.execution_id, 0) + 1
        return count > RECURSIONS

    def file(self, state: Execution) -> Path:
        """The file of an execution's playbook."""
        # The same text may lie in several folders; the execution knows from which it was run.
        return Path(state.file or self._sources[state.playbook].file).absolute()

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


async def resume_left(office: Office) -> list[tuple[str, NoetlError]]:
    """Go on with all executions that nobody runs; children are gone on with by their parents, if those are not over.

    Those that are paused come along: whoever lets one go on finds somebody to do so. Yields what could not be resumed.
    """
    unresumed: list[tuple[str, NoetlError]] = []
    found = await asyncio.to_thread(office.log.summaries, limit=1_000_000, unfinished=True)
    for one in reversed(found):
        if not one.alive and (one.parent is None or is_orphan(office.log, one)):
            try:
                await office.resume(one.execution_id)
            except NoetlError as error:
                unresumed.append((one.execution_id, error))
    return unresumed
