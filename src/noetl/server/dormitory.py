"""Dormitory: executions that wait for nothing but a time or a word from outside leave the memory, and come back for it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from noetl.engine.react import slumber
from noetl.model.events import Event
from noetl.server.children import Taken
from noetl.server.office import Office
from noetl.server.refusals import Refusals
from noetl.server.service import Hot

#: seconds for which an execution must have been still; and what it waits for must be further away
_STILL_S, _FAR_S = 1.0, 5.0
#: seconds before it is due that one is woken, and how many at a time
_AHEAD_S, _MOST, _AT_ONCE = 0.5, 500, 32


class Beds(Protocol):
    """Where it is kept who sleeps; the database of executions, which all servers share."""

    async def attend(self) -> None:
        """Be known as one who wakes executions: where there is nobody, those that sleep count as left."""

    async def lay_down(self, sleepers: list[tuple[str, float | None]]) -> None:
        """Keep executions with the times at which they are due, and own them no longer."""

    def to_wake(self, ahead_s: float, most: int) -> list[str]:
        """Those that are due within so many seconds, and those that somebody asks something of."""


class Dormitory:
    """Lays executions of an office down, and wakes any that are due."""

    def __init__(self, office: Office, beds: Beds, refusals: Refusals) -> None:
        self._office, self._beds, self._refusals = office, beds, refusals
        #: executions of which something was heard → when
        self._touched: dict[str, float] = {}
        self._attends = False
        office.service.watchers.append(self.heard)

    def heard(self, hot: Hot, _events: tuple[Event, ...]) -> None:
        """Something happened to an execution."""
        self._touched[hot.id] = self._office.nature.clock()

    def taken_over(self, execution_id: str) -> None:
        """An execution came into the memory without anything happening to it."""
        self._touched[execution_id] = self._office.nature.clock()

    async def lay_down(self) -> None:
        """Lay down all that have been still for a while."""
        now = self._office.nature.clock()
        still = [name for name, when in self._touched.items() if when <= now - _STILL_S]
        going: list[tuple[Hot, int, float | None]] = []
        for name in still:
            hot = self._office.service.hot.get(name)
            sleeps, due = _slumber(hot) if hot is not None else (False, None)
            if hot is not None and sleeps and (due is None or due > now + _FAR_S):
                going.append((hot, hot.state.seq, due))
            else:
                del self._touched[name]
        if not going:
            return
        # If this fails, they are laid down again: nobody knows whether they lie there already.
        await self._beds.lay_down([(hot.id, due) for hot, _, due in going])
        stirred: list[Hot] = []
        for hot, seq, _ in going:  # without a pause: what is still now is so no longer when another has been claimed
            if hot.busy or hot.mail or hot.state.seq != seq:
                self._touched[hot.id] = now
                stirred.append(hot)
            else:
                self._touched.pop(hot.id, None)
                self._office.service.let_go(hot)
        for hot in stirred:  # something came on the way: it is claimed again, and goes on
            if not await self._office.log.claim(hot.id):
                self._office.service.give_up(hot.id, Taken(f"another server goes on with {hot.id}"))

    async def wake(self) -> None:
        """Wake those that are due."""
        if not self._attends:
            await self._beds.attend()
            self._attends = True
        refused = self._refusals.now()
        due = await asyncio.to_thread(self._beds.to_wake, _AHEAD_S, _MOST + len(refused))
        found = [name for name in due if name not in refused]
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._wake(name, gate) for name in found))

    async def _wake(self, execution_id: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                if execution_id not in self._office.service.hot:
                    await self._office.resume(execution_id)
            except Exception as error:  # noqa: BLE001  it cannot be gone on with now, and must not keep others asleep
                self._refusals.add(execution_id, error)


def _slumber(hot: Hot) -> tuple[bool, float | None]:
    """Whether an execution may leave the memory, and until when; a child is waited for here."""
    if hot.busy or hot.mail or hot.state.parent is not None:
        return False, None
    return slumber(hot.state)
