"""Children: the executions that executions start, wherever they are run; and times, which like them are no pipelines."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Protocol

from noetl.errors import ExecutionStuck, NoetlError
from noetl.history import state_at
from noetl.model.net import Net
from noetl.model.orders import StartChild
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.requests import Cancel, ChildEnded, Due, Pause, Posted, Resume, encode_request
from noetl.model.scope import merge_maps
from noetl.model.state import Execution
from noetl.ports import OVER, EventLog, PlaybookSource
from noetl.server.core.catalog import Catalog
from noetl.server.core.service import ExecutionService, LiveExecution

#: how many executions may come of one that was started, where playbooks call themselves
RECURSIONS = 10_000
#: how often it is looked whether an execution that another process runs is over, in seconds
ELSEWHERE = 0.2
WITHOUT_PARENT = "its parent was cancelled"


class OwnedElsewhere(NoetlError):
    """Another process runs the execution."""


class ChildHost(Protocol):
    """Who starts executions, and goes on with them."""

    log: EventLog
    service: ExecutionService
    catalog: Catalog

    async def start(self, source: PlaybookSource, net: Net, payload: dict[str, Any], **more: Any) -> LiveExecution:
        """Start an execution."""

    async def resume(self, execution_id: str) -> LiveExecution:
        """Go on with one; Taken: another process runs it."""

    def file(self, state: Execution) -> Path:
        """The file of an execution's playbook."""

    def source(self, content_hash: str) -> PlaybookSource:
        """A playbook that was run here."""

    def spawn(self, coroutine: Any) -> None:
        """Do something beside."""


class Children:
    """The children of a control plane's executions."""

    def __init__(self, control_plane: ChildHost) -> None:
        self._host = control_plane
        #: the execution that was started → how many came of it because a playbook calls itself
        self._recursions: dict[str, int] = {}
        #: children on their way, and whether they are to be cancelled when they are there
        self._starting: dict[str, bool] = {}

    def start_child(self, live: LiveExecution, order: StartChild) -> None:
        """Start a child execution, or go on with it."""
        self._starting[order.child["execution_id"]] = False
        self._host.spawn(self._child(live, order))

    def await_child(self, live: LiveExecution, execution_id: str) -> None:
        """Report the end of a child that was told to end before this process had its parent."""
        self._host.spawn(self._ended_child(live, execution_id))

    async def _ended_child(self, parent: LiveExecution, execution_id: str) -> None:
        try:
            found: LiveExecution | Output = failed(failure("cancelled", WITHOUT_PARENT))
            if self._host.log.summary(execution_id) is not None:
                self.ask(execution_id, Cancel(WITHOUT_PARENT))
                found = await self._resume_child(execution_id)
            if isinstance(found, LiveExecution):
                self.ask(execution_id, Cancel(WITHOUT_PARENT))
                found = await self._wait_for_child(found)
            await self._host.service.record(parent.id, [ChildEnded(execution_id, found)])
        except Exception as error:  # noqa: BLE001  as of a child that is started: nobody may wait for ever
            self._host.service.give_up(parent.id, error)

    def stop_child(self, execution_id: str) -> None:
        """Cancel a child execution, now or as soon as it is there."""
        if execution_id in self._starting:
            self._starting[execution_id] = True
        else:
            self.ask(execution_id, Cancel(WITHOUT_PARENT))

    def ask(self, execution_id: str, request: Posted) -> None:
        """Ask something of an execution, wherever it is run."""
        if execution_id in self._host.service.live:
            self._host.service.post(execution_id, [request])
            return
        summary = self._host.log.summary(execution_id)
        if summary is not None and summary.status not in OVER:
            self._host.log.post(execution_id, encode_request(request))

    def hold_child(self, execution_id: str, *, paused: bool) -> None:
        """Pause a child execution with its parent, or let it go on; one that is as it should be is left alone."""
        self.ask(execution_id, Pause(with_parent=True) if paused else Resume(with_parent=True))

    def due(self, execution_id: str) -> None:
        """Hear that a time has come."""
        self._host.service.post(execution_id, [Due()])

    async def _child(self, parent: LiveExecution, order: StartChild) -> None:
        execution_id = order.child["execution_id"]
        try:
            found = await self._run_child(parent, order.child, order.task_run_id)
            if self._starting.pop(execution_id):
                self.stop_child(execution_id)
            if isinstance(found, LiveExecution):
                # What the parent was told while the child was on its way has not reached it.
                self.hold_child(execution_id, paused=parent.state.paused)
                found = await self._wait_for_child(found)
            await self._host.service.record(parent.id, [ChildEnded(execution_id, found)])
        except Exception as error:  # noqa: BLE001  as of a pipeline that breaks: nobody may wait for ever
            # That the child has not ended is no failure of it: both can be gone on with.
            self._host.service.give_up(parent.id, error)
        finally:
            self._starting.pop(execution_id, None)

    async def _wait_for_child(self, child: LiveExecution) -> Output:
        """What a child yields, though another server may take it over on the way."""
        try:
            await asyncio.shield(child.finished)
        except ExecutionStuck:
            aside = self._host.service.live.get(child.id)
            if aside is None:
                raise
            return await self._wait_for_child(aside)
        except NoetlError:
            if not await self._wait_elsewhere(child.id):
                raise
            return output_of(state_at(self._host.log, child.id))
        return output_of(child.state)

    async def _wait_elsewhere(self, execution_id: str) -> bool:
        """Wait for the end of an execution that another process runs; whether there is one that does."""
        while True:
            summary = await asyncio.to_thread(self._host.log.summary, execution_id)
            if summary is not None and summary.status in OVER:
                return True
            if summary is None or not summary.alive or summary.owner == self._host.log.me:
                return False
            await asyncio.sleep(ELSEWHERE)

    async def _run_child(
        self, parent: LiveExecution, child: dict[str, Any], task_run_id: str
    ) -> LiveExecution | Output:
        """The child as it runs; or why there is none."""
        execution_id = child["execution_id"]
        if (there := self._host.log.summary(execution_id)) is not None:
            if there.parent != parent.id and parent.state.origin is None:  # a fork waits for children of its original
                return failed(failure("playbook", f"{execution_id} is another execution: try again", retryable=True))
            return await self._resume_child(execution_id)
        if child.get("version") is not None:
            text = f"revision `{child['version']}` of the playbook `{child['path']}` is unknown: no catalog keeps revisions"
            return failed(failure("playbook", text))
        found = self._resolve_call(parent.state, child["path"])
        if not isinstance(found, tuple):
            return failed(found)
        source, net = found
        if self._is_runaway(parent, source):
            text = (
                f"playbook `{child['path']}` calls itself; more than {RECURSIONS:,} runs came of one that was started"
            )
            return failed(failure("limit", text))
        return await self._host.start(
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

    async def _resume_child(self, execution_id: str) -> LiveExecution | Output:
        """A child that was started before: it runs here, or elsewhere, or nowhere and is gone on with here."""
        while True:
            found = self._host.service.live.get(execution_id)
            if found is not None:
                return found
            if await self._wait_elsewhere(execution_id):
                return output_of(state_at(self._host.log, execution_id))
            with contextlib.suppress(OwnedElsewhere):
                return self._host.service.live.get(execution_id) or await self._host.resume(execution_id)

    def _resolve_call(self, caller: Execution, path: str) -> tuple[PlaybookSource, Net] | Failure:
        """The playbook that another one calls: of those that came with its request, else of its folder."""
        near = self._host.file(caller)
        came = caller.calls.get(f"{near.parent}/{path}") or caller.calls.get(path)
        if came is not None:
            source = self._host.log.source(came)
            net = self._host.catalog.runnable(source) if source is not None else None
            if source is None or net is None:
                where = f" {source.file}" if source is not None else ""
                return failure("playbook", f"the playbook{where}, which came with the request as `{path}`, has errors")
            return source, net
        file = self._host.catalog.find(path, near=near)
        if file is None:
            return failure("playbook", f"there is no playbook `{path}` in {near.parent}")
        try:
            source, loaded = self._host.catalog.read(file, legacy=self._host.source(caller.playbook).legacy)
        except OSError as error:
            return failure("playbook", f"the playbook {file} cannot be read: {error.strerror}")
        if loaded.net is None:
            return failure("playbook", f"the playbook {file} has errors: run `noetl validate {file}`")
        return source, loaded.net

    def _is_runaway(self, parent: LiveExecution, source: PlaybookSource) -> bool:
        """Whether a playbook that calls itself has done so too often: several calls at each level soon fill a disk."""
        state, above = parent.state, {parent.state.playbook}
        while (
            state.parent is not None
            and (around := self._host.service.live.get(state.parent["execution_id"])) is not None
        ):
            state = around.state
            above.add(state.playbook)
        if source.hash not in above:
            return False
        self._recursions[state.execution_id] = count = self._recursions.get(state.execution_id, 0) + 1
        return count > RECURSIONS


def _payload_problem(net: Net, payload: dict[str, Any]) -> Failure | None:
    """Why a child cannot start with what it is given, as `noetl run` would tell it."""
    schema = net.playbook.metadata.get("schema")
    if schema is None:
        return None
    from noetl.lang import workload_violations

    wrong = [
        f"{one.name}: {one.said}" for one in workload_violations(merge_maps(net.playbook.workload, payload), schema)
    ]
    return failure("schema", f"its payload does not fit its schema: {'; '.join(wrong[:5])}") if wrong else None


def output_of(state: Execution) -> Output:
    """What a child's end means to its caller."""
    if state.stalled and (state.status == "completed" or (state.error or {}).get("kind") == "stalled"):
        message = f"playbook `{state.path}` stalled: tokens were left at {', '.join(state.stalled)}"
        return failed(failure("stalled", message, child=state.execution_id, stalled=list(state.stalled)))
    meta = {"execution_id": state.execution_id}
    if state.status == "completed":
        if state.return_step is not None and not state.output_final:
            return failed(_no_result(state, state.return_step))
        if state.output_ref is not None:
            return {**ok(meta=meta), "ref": state.output_ref, "external": True}
        return ok(state.output, meta=meta)
    # Of a failure that has come up through several playbooks, the one at the bottom says what is wrong.
    error = state.error or {}
    error = error.get("cause") or error
    kind = "cancelled" if state.status == "cancelled" else "playbook"
    message = f"playbook `{state.path}` {state.status}: {error.get('message', '')}"
    return failed(failure(kind, message, child=state.execution_id, cause=error))


def _no_result(state: Execution, step: str) -> Failure:
    """The error of a child whose result was to come from a step that did not end."""
    info = state.steps.get(step)
    how = "was cancelled" if info is not None and info.runs else "did not run"
    message = f"playbook `{state.path}` completed, but its step `{step}`, which `return_step` names, {how}"
    return failure("result", message, child=state.execution_id)
