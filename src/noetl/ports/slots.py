"""Slots: what a store must do so that limits hold across executions, whichever process runs them.

A step run, or an iteration of its loop, that may go on at the same time as only so many others holds a slot of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from noetl.model.limits import Answer, Ask
from noetl.model.wire import Key


class Slots(Protocol):
    """Who holds which slot, and who has started when; by one clock for all processes. StoreFailed: that cannot be told now.

    Whoever asks again with a holder that has a slot keeps it. Slots of executions that are over, or that no process
    minds any more, are taken for free. A process that waits is not passed over for ever by others that are quicker.
    """

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """Judge asks, those first that came first: behind one that waits for a key, nobody else here is given that key."""

    async def release(self, holders: Collection[Key]) -> None:
        """Give slots back; those that nobody holds are no matter."""

    async def list_holders(self, execution_id: str) -> list[Key]:
        """Those of an execution who hold slots."""


@runtime_checkable
class HasSlots(Protocol):
    """A log beside which slots are kept, for all who share it."""

    def slots(self, clock: Callable[[], float]) -> Slots:
        """The slots; a store with a clock of its own goes by that."""
