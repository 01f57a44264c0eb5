"""A cache that evicts the least recently used entries, for values that can be computed again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: characters of playbooks that one place keeps, as texts or as what was made of them: thousands of the usual size
TEXT = 8_000_000


class LruCache(Generic[K, V]):
    """A map up to a weight: what was not used for longest is forgotten, never what came last. Any thread may ask."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """What is known; None: it was never there, or is forgotten."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Know something from now on, for a while."""
        with self._lock:
            self._weight += weight - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = value, weight
            while self._weight > self._most and len(self._kept) > 1:
                self._weight -= self._kept.popitem(last=False)[1][1]

    def __len__(self) -> int:
        return len(self._kept)
