"""Slots: what a store must do so that limits hold across executions, whichever process runs them.

A step run, or an iteration of its loop, that may go on at the same time as only so many others holds a slot of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from noetl.model.wire import Key

#: those who wait ask again after so many seconds, at the most
ASK_AGAIN_S = 0.1


class Cap(msgspec.Struct, frozen=True):
    """So many at a time."""

    key: str
    limit: int
    on_limit: Literal["queue", "cancel_new", "cancel_running"] = "queue"


class Pace(msgspec.Struct, frozen=True):
    """So many starts in any so many seconds."""

    key: str
    limit: int
    per_s: float


class Ask(msgspec.Struct, frozen=True):
    """Somebody wants to start, or to go on."""

    holder: Key
    cap: Cap | None = None
    pace: Pace | None = None
    #: it is under way already, where it cannot be held up: its slot is its own, however many there are
    sure: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What comes of it."""

    #: `granted`: it may go on, and what it has is its own until it is released; `wait`: ask again;
    #: `refused`: there are too many already; `displaced`: it had a slot, and has to leave it to another
    verdict: Literal["granted", "wait", "refused", "displaced"]
    #: seconds after which to ask again
    after: float = ASK_AGAIN_S
    #: those who have to leave, so that it may start: they must be told, again if it is not certain that they were
    victims: tuple[Key, ...] = ()


class Slots(Protocol):
    """Who holds which slot, and who has started when; by one clock for all processes. StoreFailed: that cannot be told now.

    Whoever asks again with a holder that has a slot keeps it. Slots of executions that are over, or that no process
    minds any more, are taken for free. A process that waits is not passed over for ever by others that are quicker.
    """

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """Judge asks, those first that came first: behind one that waits for a key, nobody else here is given that key."""

    async def release(self, holders: Collection[Key]) -> None:
        """Give slots back; those that nobody holds are no matter."""

    async def held(self, execution_id: str) -> list[Key]:
        """Those of an execution who hold slots."""


@runtime_checkable
class KeepsSlots(Protocol):
    """A log beside which slots are kept, for all who share it."""

    def slots(self, clock: Callable[[], float]) -> Slots:
        """The slots; a store with a clock of its own goes by that."""
