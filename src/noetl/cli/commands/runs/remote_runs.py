"""Sending a playbook to a server, with those that it calls, and following it there."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

from noetl.cli.catalog_folders import catalog
from noetl.cli.commands.runs.follow import follow, load_runnable, report_end
from noetl.cli.executions import net_of
from noetl.cli.output.printing import note, out
from noetl.client import EventPage, RemoteLog
from noetl.engine import NetIndex, apply
from noetl.errors import ExecutionStuck, NoetlError, RequestConflict, ServerUnavailable, UsageError
from noetl.model.state import Execution
from noetl.ports import EventLog
from noetl.server.core import LiveExecution

if TYPE_CHECKING:
    from noetl.cli.commands.runs.run_request import RunRequest
    from noetl.cli.output.progress import Watcher
    from noetl.client import Client, StartedExecution
    from noetl.model.events import Event
    from noetl.model.net import Net


# Executions that a server runs, followed from here: their events are read as they come, and folded as they are there.


#: seconds that the server is asked to wait for something new
_WAIT = 5
#: seconds in which a server that has gone may come back
_TIMEOUT_S = 60.0
_AGAIN = 0.5
#: seconds between two looks at executions that were started by the one that is followed
_BELOW = 0.3


class RemoteRuns:
    """The executions of a server that somebody here looks at."""

    def __init__(self, client: Client) -> None:
        self._remote = RemoteLog(client)
        #: called with the events of an execution as they come
        self.watchers: list[Watcher] = []
        #: those that were started by the ones that are followed, and are not over
        self._descendants: dict[str, LiveExecution | None] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._turn = asyncio.Lock()
        #: what was said of executions that do not come on
        self._said: set[str] = set()

    @property
    def log(self) -> EventLog:
        """The server's."""
        return self._remote

    @property
    def is_remote(self) -> bool:
        """They go on when this process ends."""
        return True

    def cancel(self, execution_id: str, why: str) -> None:
        """End one for good."""
        self._spawn(self._cancel(execution_id, why))

    async def _cancel(self, execution_id: str, why: str) -> None:
        with contextlib.suppress(RequestConflict):  # it was over by then
            await asyncio.to_thread(self._remote.client.cancel, execution_id, why)

    async def settle(self) -> None:
        """Whoever runs them minds that."""

    def kill(self) -> None:
        """Nothing of them runs here."""

    async def close(self) -> None:
        """Follow nothing any more."""
        for task in self._tasks:
            task.cancel()
        # What a thread has asked for comes back before its connection is closed.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()
        self._remote.client.close()

    async def output(self, live: LiveExecution) -> Any:
        """What an execution yielded: in full as far as `max_payload_bytes` goes, else its reference."""
        if live.state.output_ref is None:
            return live.state.output
        return await asyncio.to_thread(self._remote.client.output, live.id)

    # --- following ---------------------------------------------------------------------------------------------------

    def follow(self, execution_id: str, net: Net) -> LiveExecution:
        """Follow an execution until it is over."""
        live = LiveExecution(Execution(execution_id), NetIndex(net, catalog()))
        self._spawn(self._follow(live))
        self._spawn(self._follow_descendants(live))
        return live

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, live: LiveExecution) -> None:
        try:
            over = False
            while not over and live.state.stuck is None:
                page = await self._page(live)
                # What children did comes before what followed from it.
                await self._poll_descendants()
                self._apply_events(live, page.events)
                over = page.over
                if not page.events and not over:
                    await self._report_waits(live)
            if live.state.stuck is None:
                live.finished.set_result(None)
            else:
                live.finished.set_exception(ExecutionStuck(live.state.stuck))
        except Exception as error:  # noqa: BLE001  whatever it is, nobody may wait for ever
            live.finished.set_exception(error)

    async def _report_waits(self, live: LiveExecution) -> None:
        """Nothing has happened for a while: say what is waited for, if that is nothing of the execution's own."""
        for said in await asyncio.to_thread(self._remote.waits, live.id):
            if said not in self._said:
                self._said.add(said)
                note(said)

    async def _page(self, live: LiveExecution) -> EventPage:
        """The next events; a server that is started anew is waited for."""
        since = time.monotonic()
        while True:
            try:
                return await asyncio.to_thread(self._remote.page, live.id, after=live.state.seq, wait_s=_WAIT)
            except ServerUnavailable as error:
                if time.monotonic() - since > _TIMEOUT_S:
                    raise NoetlError(f"{error}; what becomes of {live.id} is known there alone") from None
                await asyncio.sleep(_AGAIN)

    def _apply_events(self, live: LiveExecution, events: list[Event]) -> None:
        for event in events:
            apply(live.state, event)
            child = (event.payload.get("wait") or {}).get("child") if event.name == "task.started" else None
            if child is not None:
                self._descendants.setdefault(child["execution_id"])
        for watch in tuple(self.watchers) if events else ():
            try:
                watch(live, tuple(events))
            except Exception:  # noqa: BLE001  who only looks on, at a screen that has gone, must not end this
                self.watchers.remove(watch)

    async def _follow_descendants(self, live: LiveExecution) -> None:
        while not live.finished.done():
            await asyncio.sleep(_BELOW)
            await self._poll_descendants()

    async def _poll_descendants(self) -> None:
        if not self.watchers:
            return  # nobody looks
        async with self._turn:
            for execution_id in list(self._descendants):
                try:
                    await self._poll_descendant(execution_id)
                except ServerUnavailable:
                    return

    async def _poll_descendant(self, execution_id: str) -> None:
        live = self._descendants.get(execution_id)
        if live is None:
            summary = await asyncio.to_thread(self._remote.summary, execution_id)
            net = await asyncio.to_thread(net_of, self._remote, summary) if summary is not None else None
            if net is None:
                return
            live = self._descendants[execution_id] = LiveExecution(Execution(execution_id), NetIndex(net, catalog()))
        page = await asyncio.to_thread(self._remote.page, execution_id, after=live.state.seq)
        self._apply_events(live, page.events)
        if page.over:
            live.finished.set_result(None)
            del self._descendants[execution_id]


async def send(client: Client, wish: RunRequest, *, detach: bool, as_document: bool) -> int:
    """Run a playbook on a server, as `noetl run` does here; the exit code."""
    from noetl.cli.output.progress import progress

    _, net = load_runnable(catalog(), wish, as_document=as_document)
    execution_id = _start(client, wish, net)
    if detach:
        client.close()
        out(f'{{"execution_id": "{execution_id}"}}\n' if as_document else f"{execution_id}\n")
        return 0
    there = RemoteRuns(client)
    try:
        with progress(there.watchers, quiet=as_document) as shown:
            shown.roots.append(there.follow(execution_id, net))
            interrupted = await follow(there, shown)
        return await report_end(there, shown.roots, interrupted=interrupted, as_document=as_document)
    finally:
        await there.close()


def _start(client: Client, wish: RunRequest, net: Net) -> str:
    # Should the answer get lost, the same is asked for again and started once.
    key = wish.key or str(uuid.uuid4())
    try:
        started = _submit(client, wish, net, key)
    except RequestConflict as error:
        where = error.problem.get("execution_id")
        raise UsageError(
            f"the key {key!r} was used for another request, which started {where}; use another key"
        ) from None
    if started.repeated and wish.key is not None:
        note(f"{started.execution_id} was started with this key before")
    return started.execution_id


def _submit(client: Client, wish: RunRequest, net: Net, key: str) -> StartedExecution:
    if wish.path is not None:
        return client.start(net.playbook.path, wish.payload, key=key)
    return client.start(
        payload=wish.payload,
        text=wish.data.decode("utf-8-sig", "replace"),
        file=wish.file,
        calls=wish.collect_calls(net),
        legacy=wish.legacy,
        key=key,
    )
