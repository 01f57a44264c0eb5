"""Executions that a server runs, followed from here: their events are read as they come, and folded as they are there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from noetl.cli.executions import catalog, net_of
from noetl.cli.printing import note
from noetl.client.log import RemoteLog
from noetl.client.replies import EventPage
from noetl.engine.fold import apply
from noetl.engine.outlook import Outlook
from noetl.errors import NoetlError, RequestConflict, ServerUnavailable
from noetl.model.state import Execution
from noetl.ports import EventLog
from noetl.server.service import Hot

if TYPE_CHECKING:
    from noetl.cli.progress import Watcher
    from noetl.client.api import Client
    from noetl.model.events import Event
    from noetl.model.net import Net

#: seconds that the server is asked to wait for something new
_WAIT = 5
#: seconds in which a server that has gone may come back
_PATIENCE = 60.0
_AGAIN = 0.5
#: seconds between two looks at executions that were started by the one that is followed
_BELOW = 0.3


class Elsewhere:
    """The executions of a server that somebody here looks at."""

    def __init__(self, client: Client) -> None:
        self._remote = RemoteLog(client)
        #: called with the events of an execution as they come
        self.watchers: list[Watcher] = []
        #: those that were started by the ones that are followed, and are not over
        self._below: dict[str, Hot | None] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._turn = asyncio.Lock()
        #: what was said of executions that do not come on
        self._said: set[str] = set()

    @property
    def log(self) -> EventLog:
        """The server's."""
        return self._remote

    @property
    def is_elsewhere(self) -> bool:
        """They go on when this process ends."""
        return True

    def cancel(self, execution_id: str, why: str) -> None:
        """End one for good."""
        self._later(self._cancel(execution_id, why))

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

    async def output(self, hot: Hot) -> Any:
        """What an execution yielded: in full as far as `max_payload_bytes` goes, else its reference."""
        if hot.state.output_ref is None:
            return hot.state.output
        return await asyncio.to_thread(self._remote.client.output, hot.id)

    # --- following ---------------------------------------------------------------------------------------------------

    def follow(self, execution_id: str, net: Net) -> Hot:
        """Follow an execution until it is over."""
        hot = Hot(Execution(execution_id), Outlook(net, catalog()))
        self._later(self._follow(hot))
        self._later(self._follow_below(hot))
        return hot

    def _later(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, hot: Hot) -> None:
        try:
            over = False
            while not over:
                page = await self._page(hot)
                # What children did comes before what followed from it.
                await self._look_below()
                self._told(hot, page.events)
                over = page.over
                if not page.events and not over:
                    await self._say_why(hot)
            hot.finished.set_result(None)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody may wait for ever
            hot.finished.set_exception(error)

    async def _say_why(self, hot: Hot) -> None:
        """Nothing has happened for a while: say what is waited for, if that is nothing of the execution's own."""
        for said in await asyncio.to_thread(self._remote.waits, hot.id):
            if said not in self._said:
                self._said.add(said)
                note(said)

    async def _page(self, hot: Hot) -> EventPage:
        """The next events; a server that is started anew is waited for."""
        since = time.monotonic()
        while True:
            try:
                return await asyncio.to_thread(self._remote.page, hot.id, after=hot.state.seq, wait_s=_WAIT)
            except ServerUnavailable as error:
                if time.monotonic() - since > _PATIENCE:
                    raise NoetlError(f"{error}; what becomes of {hot.id} is known there alone") from None
                await asyncio.sleep(_AGAIN)

    def _told(self, hot: Hot, events: list[Event]) -> None:
        for event in events:
            apply(hot.state, event)
            child = (event.payload.get("wait") or {}).get("child") if event.name == "task.started" else None
            if child is not None:
                self._below.setdefault(child["execution_id"])
        for watch in tuple(self.watchers) if events else ():
            try:
                watch(hot, tuple(events))
            except Exception:  # noqa: BLE001  who only looks on, at a screen that has gone, must not end this
                self.watchers.remove(watch)

    async def _follow_below(self, hot: Hot) -> None:
        while not hot.finished.done():
            await asyncio.sleep(_BELOW)
            await self._look_below()

    async def _look_below(self) -> None:
        if not self.watchers:
            return  # nobody looks
        async with self._turn:
            for execution_id in list(self._below):
                try:
                    await self._look_at(execution_id)
                except ServerUnavailable:
                    return

    async def _look_at(self, execution_id: str) -> None:
        hot = self._below.get(execution_id)
        if hot is None:
            summary = await asyncio.to_thread(self._remote.summary, execution_id)
            net = await asyncio.to_thread(net_of, self._remote, summary) if summary is not None else None
            if net is None:
                return
            hot = self._below[execution_id] = Hot(Execution(execution_id), Outlook(net, catalog()))
        page = await asyncio.to_thread(self._remote.page, execution_id, after=hot.state.seq)
        self._told(hot, page.events)
        if page.over:
            hot.finished.set_result(None)
            del self._below[execution_id]
