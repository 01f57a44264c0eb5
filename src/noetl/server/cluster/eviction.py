"""Eviction: executions that only wait for a time or a request leave memory, and are loaded again when due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from noetl.engine import check_idle
from noetl.errors import describe_error
from noetl.model.events import Event
from noetl.ports import Conflict, LogDamaged, StoreFailed
from noetl.server.core import ControlPlane, LiveExecution, OwnedElsewhere

# Executions that cannot be resumed now: retried after a while, and reported once for each reason.


#: seconds until one that could not be gone on with is tried again
LATER_S = 60.0
#: lines that are remembered
_MOST_REPORTED = 1_000


class RetryLater:
    """Those of one server; `warn` gets a line for each."""

    def __init__(self, clock: Callable[[], float], warn: Callable[[str], None]) -> None:
        self._clock, self._warn = clock, warn
        #: execution → when it is tried again
        self._until: dict[str, float] = {}
        self._reported: set[str] = set()

    def add(self, execution_id: str, error: BaseException) -> None:
        """Leave an execution alone for a while, unless it is not its own fault: then it may be gone on with at once."""
        store_is_away = isinstance(error, StoreFailed) and not isinstance(error, LogDamaged)
        if store_is_away or isinstance(error, OwnedElsewhere | Conflict):
            return
        self._until[execution_id] = self._clock() + LATER_S
        self.notify(f"{execution_id} cannot be gone on with, and is tried again every {LATER_S:g} s", error)

    def now(self) -> set[str]:
        """Those that are to be left alone."""
        now = self._clock()
        self._until = {name: until for name, until in self._until.items() if until > now}
        return set(self._until)

    def notify(self, what: str, error: BaseException) -> None:
        """Say what is wrong, the first time."""
        line = f"{what}: {describe_error(error)}"
        if line not in self._reported:
            if len(self._reported) >= _MOST_REPORTED:
                self._reported.clear()
            self._reported.add(line)
            self._warn(line)


#: seconds for which an execution must have been still; and what it waits for must be further away
_STILL_S, _FAR_S = 1.0, 5.0
#: seconds before it is due that one is woken, and how many at a time
_AHEAD_S, _MOST_DUE, _AT_ONCE = 0.5, 500, 32


class EvictionStore(Protocol):
    """Where it is kept who sleeps; the database of executions, which all servers share."""

    async def register_waker(self) -> None:
        """Be known as one who wakes executions: where there is nobody, those that sleep count as left."""

    async def evict(self, idle: list[tuple[str, float | None]]) -> None:
        """Keep executions with the seconds until they are due, if ever, and own them no longer."""

    def find_due(self, ahead_s: float, most: int) -> list[str]:
        """Those that are due within so many seconds, and those that somebody asks something of."""


class Eviction:
    """Evicts idle executions of a control plane, and loads those that are due."""

    def __init__(self, control_plane: ControlPlane, store: EvictionStore, retry_later: RetryLater) -> None:
        self._control_plane, self._store, self._retry_later = control_plane, store, retry_later
        #: executions of which something was heard → when
        self._touched: dict[str, float] = {}
        self._is_registered = False
        control_plane.service.watchers.append(self.on_events)

    def on_events(self, live: LiveExecution, _events: tuple[Event, ...]) -> None:
        """Something happened to an execution."""
        self._touched[live.id] = self._control_plane.clock()

    def note_takeover(self, execution_id: str) -> None:
        """An execution came into the memory without anything happening to it."""
        self._touched[execution_id] = self._control_plane.clock()

    async def evict(self) -> None:
        """Lay down all that have been still for a while."""
        now = self._control_plane.clock()
        still = [name for name, when in self._touched.items() if when <= now - _STILL_S]
        going: list[tuple[LiveExecution, int, float | None]] = []
        for name in still:
            live = self._control_plane.service.live.get(name)
            sleeps, due = _check_idle(live) if live is not None else (False, None)
            after_s = due - self._control_plane.service.now(live) if live is not None and due is not None else None
            if live is not None and sleeps and (after_s is None or after_s > _FAR_S):
                going.append((live, live.state.seq, after_s))
            else:
                del self._touched[name]
        if not going:
            return
        # If this fails, they are laid down again: nobody knows whether they lie there already.
        await self._store.evict([(live.id, after_s) for live, _, after_s in going])
        stirred: list[LiveExecution] = []
        for live, seq, _ in going:  # without a pause: what is still now is so no longer when another has been claimed
            if live.busy or live.inbox or live.state.seq != seq:
                self._touched[live.id] = now
                stirred.append(live)
            else:
                self._touched.pop(live.id, None)
                self._control_plane.service.release(live)
        for live in stirred:  # something came on the way: it is claimed again, and goes on
            if not await self._control_plane.log.claim(live.id):
                self._control_plane.service.give_up(live.id, OwnedElsewhere(f"another server goes on with {live.id}"))

    async def wake(self) -> None:
        """Wake those that are due."""
        if not self._is_registered:
            await self._store.register_waker()
            self._is_registered = True
        refused = self._retry_later.now()
        due = await asyncio.to_thread(self._store.find_due, _AHEAD_S, _MOST_DUE + len(refused))
        found = [name for name in due if name not in refused]
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._wake(name, gate) for name in found))

    async def _wake(self, execution_id: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                if execution_id not in self._control_plane.service.live:
                    await self._control_plane.resume(execution_id)
            except Exception as error:  # noqa: BLE001  it cannot be gone on with now, and must not keep others asleep
                self._retry_later.add(execution_id, error)


def _check_idle(live: LiveExecution) -> tuple[bool, float | None]:
    """Whether an execution may leave the memory, and until when; a child is waited for here."""
    if live.busy or live.inbox or live.state.parent is not None:
        return False, None
    return check_idle(live.state)
