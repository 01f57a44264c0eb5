"""The two queues of a dispatcher: pipelines that wait for a slot, and pipelines that wait for a worker."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator

from noetl.dispatch.entry import READY, Entry
from noetl.model.limits import Ask

#: how many pipelines that wait for the same keys ask at the same time
ASK_AT_ONCE = 32


class SlotQueue:
    """Pipelines with an unanswered request for a slot, first come first served for each pair of keys."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._queues: dict[tuple[str | None, str | None], dict[int, Entry]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, entry: Entry, ask: Ask) -> None:
        """Let an entry ask."""
        entry.ask, entry.number = ask, next(self._numbers)
        self._queues.setdefault(_keys(ask), {})[entry.number] = entry

    def remove(self, entry: Entry) -> None:
        """Let it ask no longer; an answer that is under way is then for nobody."""
        if entry.ask is None:
            return
        keys = _keys(entry.ask)
        queue = self._queues[keys]
        del queue[entry.number]
        if not queue:
            del self._queues[keys]
        entry.ask, entry.number = None, 0

    def batch(self) -> list[Entry]:
        """The entries whose turn it may be, in the order in which they came."""
        firsts = (itertools.islice(queue.items(), ASK_AT_ONCE) for queue in self._queues.values())
        return [entry for _, entry in sorted(itertools.chain.from_iterable(firsts), key=lambda one: one[0])]

    def __iter__(self) -> Iterator[Entry]:
        return itertools.chain.from_iterable(list(queue.values()) for queue in self._queues.values())


def _keys(ask: Ask) -> tuple[str | None, str | None]:
    cap, pace = ask.cap, ask.pace
    return cap.key if cap is not None else None, pace.key if pace is not None else None


class ReadyQueue:
    """Pipelines that a worker may take: by pool, the most urgent first, then in the order in which they came.

    An entry that is no longer ready stays in its heap until somebody comes across it, or until `purge`.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._heaps: dict[str, list[tuple[int, int, Entry]]] = {}

    def push(self, entry: Entry) -> None:
        """Add an entry that becomes ready."""
        item = (-entry.priority, next(self._numbers), entry)
        heapq.heappush(self._heaps.setdefault(entry.pool, []), item)

    def pop(self, pool: str) -> Entry | None:
        """Remove and return the next entry of a pool."""
        heap = self._heaps.get(pool)
        while heap:
            entry = heapq.heappop(heap)[2]
            if entry.state is READY:
                return entry
        return None

    def length(self, pools: Iterable[str]) -> int:
        """How many entries these pools have, at most."""
        return sum(len(self._heaps.get(pool, ())) for pool in pools)

    def pools(self) -> list[str]:
        """The pools that may have entries."""
        return [pool for pool, heap in self._heaps.items() if heap]

    def purge(self) -> None:
        """Drop the entries that are no longer ready."""
        kept = {pool: [item for item in heap if item[2].state is READY] for pool, heap in self._heaps.items()}
        self._heaps = {pool: heap for pool, heap in kept.items() if heap}
        for heap in self._heaps.values():
            heapq.heapify(heap)
