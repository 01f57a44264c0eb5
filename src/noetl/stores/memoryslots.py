"""Slots in memory, beside a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from noetl.model.limits import Answer, Ask
from noetl.model.wire import Key
from noetl.slots import Slots
from noetl.stores.admitting import FRESH_S, Books, admit


class Ledger:
    """What several of them may share, as processes share a file."""

    def __init__(self) -> None:
        #: in the order in which they were given: holder → key, and whether it has been displaced
        self.slots: dict[Key, tuple[str, bool]] = {}
        self.starts: dict[str, list[float]] = {}
        #: key → process → since when it waits, and when it last asked
        self.turns: dict[str, dict[str, tuple[float, float]]] = {}


class MemorySlots(Slots, Books):
    """`Slots`, and their own books: nobody else runs while one asks."""

    def __init__(self, ledger: Ledger, me: str, minded: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._ledger, self._me, self._clock = ledger, me, clock
        #: whether an execution is under way in a process that lives
        self._minded = minded

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """See the port."""
        return admit(asks, self)

    async def release(self, holders: Collection[Key]) -> None:
        """See the port."""
        for holder in holders:
            self._ledger.slots.pop(holder, None)

    async def held(self, execution_id: str) -> list[Key]:
        """See the port."""
        return [holder for holder in self._ledger.slots if holder[0] == execution_id]

    # --- books -------------------------------------------------------------------------------------------------------

    def place(self, holder: Key) -> bool | None:
        """See `Books`."""
        found = self._ledger.slots.get(holder)
        return found[1] if found is not None else None

    def holders(self, key: str) -> list[tuple[Key, bool]]:
        """See `Books`."""
        return [(holder, displaced) for holder, (of, displaced) in self._ledger.slots.items() if of == key]

    def forget_dead(self, key: str) -> None:
        """See `Books`."""
        for holder, _ in self.holders(key):
            if not self._minded(holder[0]):
                del self._ledger.slots[holder]

    def add(self, holder: Key, key: str) -> None:
        """See `Books`."""
        self._ledger.slots[holder] = key, False

    def displace(self, holders: Iterable[Key]) -> None:
        """See `Books`."""
        for holder in holders:
            self._ledger.slots[holder] = self._ledger.slots[holder][0], True

    def ages(self, key: str, per_s: float) -> list[float]:
        """See `Books`."""
        now = self._clock()
        kept = self._ledger.starts[key] = [at for at in self._ledger.starts.get(key, ()) if at > now - per_s]
        return [now - at for at in reversed(kept)]

    def start(self, key: str, per_s: float) -> None:  # noqa: ARG002
        """See `Books`."""
        self._ledger.starts.setdefault(key, []).append(self._clock())

    def ahead(self, key: str) -> int:
        """See `Books`."""
        turns, now = self._ledger.turns.get(key, {}), self._clock()
        mine = turns[self._me][0] if self._me in turns else now
        return sum(
            1 for who, (since, seen) in turns.items() if who != self._me and seen > now - FRESH_S and since < mine
        )

    def wait(self, key: str) -> None:
        """See `Books`."""
        turns, now = self._ledger.turns.setdefault(key, {}), self._clock()
        turns[self._me] = turns.get(self._me, (now, now))[0], now

    def served(self, key: str) -> None:
        """See `Books`."""
        turns = self._ledger.turns.get(key, {})
        turns.pop(self._me, None)
        if not turns:
            self._ledger.turns.pop(key, None)
