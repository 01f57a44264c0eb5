"""Offers: pipelines that are to be run by workers elsewhere, and the workers as a server sees them."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.errors import TemplateError
from noetl.expr.assign import render
from noetl.model.orders import RunPipeline
from noetl.model.wire import Key
from noetl.server.service import Hot

#: the pool of steps that name none
DEFAULT_POOL = "default"
#: of a worker that has not said how many it runs at once
MOST_SLOTS = 1000


class Offer:
    """A pipeline that is to be run, or is being run by a worker."""

    __slots__ = ("fence", "hot", "key", "next", "order", "pool", "priority", "since", "tries", "ways", "worker")

    def __init__(self, hot: Hot, key: Key, order: RunPipeline) -> None:
        self.hot, self.key, self.order = hot, key, order
        self.pool = str(_wish(hot, order, "pool") or DEFAULT_POOL)
        wished = _wish(hot, order, "priority")
        self.priority = wished if isinstance(wished, int) else 0
        self.worker: str | None = None
        self.fence = ""
        #: how many workers have died with it since it last came on
        self.tries = 0
        #: how often it did not reach its worker
        self.ways = 0
        #: when it was given out
        self.since = 0.0
        #: what has been ordered while it was under way
        self.next: RunPipeline | None = None


def _wish(hot: Hot, order: RunPipeline, key: str) -> Any:
    """What a step's spec says of where and when it is to run; what cannot be told is not heeded."""
    layer = hot.net.steps[order.step].spec.get(key)
    try:
        return render(layer.value, order.scopes) if layer is not None else None
    except TemplateError:
        return None


class Worker:
    """A worker that has asked for something."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pools: list[str] = []
        #: how many pipelines of this server it may have
        self.room = 0
        #: how many it runs at once, in the order in which it got them
        self.slots = MOST_SLOTS
        self.held: dict[Key, Offer] = {}
        #: executions it has spoken of, so that it need not be told again what they are
        self.knows: set[str] = set()
        self.stops: list[Key] = []
        self.ended: list[str] = []
        #: set when there is something for it, while it waits
        self.bell: asyncio.Future[None] | None = None

    @property
    def has_mail(self) -> bool:
        """Whether it should hear of something that is no work."""
        return bool(self.stops or self.ended)

    @property
    def free(self) -> int:
        """How many more it may have."""
        return self.room - len(self.held)

    @property
    def waits(self) -> bool:
        """Whether it has asked for work and has not been answered."""
        return self.bell is not None and not self.bell.done()

    def ring(self) -> bool:
        """Wake it, if it waits; whether it did."""
        if self.bell is None or self.bell.done():
            return False
        self.bell.set_result(None)
        return True
