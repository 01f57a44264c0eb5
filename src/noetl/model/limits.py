"""Concurrency and rate limits as data: what a pipeline asks of the store of slots, and the store's answer."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.model.wire import Key

#: seconds after which a pipeline that waits asks again, at most
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
