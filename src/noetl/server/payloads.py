"""The rule that what a log refers to is there, as it was stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from noetl.model.events import Event, seconds
from noetl.server.rules import Rule

#: the events of a worker that may hold references
_HOLDING = frozenset({"task.done", "step.done", "loop.iteration.done"})


class Payloads(Rule):
    """Every payload that an event has left in the result store is there and whole, unless its time has run out."""

    name = "payload"

    def __init__(self, damage: Callable[[Mapping[str, Any]], Iterable[str]], now: float) -> None:
        super().__init__(None)
        self._damage = damage
        self._now = now
        self._seen: set[str] = set()

    def see(self, event: Event) -> Iterator[str]:
        """Look at what an event refers to, once: the end of a task is the end of its step as well."""
        if event.name not in _HOLDING:
            return
        for reference in _references(event.payload):
            place = str(reference.get("locator"))
            if place not in self._seen and not self._is_over(event, reference):
                self._seen.add(place)
                yield from self._damage(reference)

    def _is_over(self, event: Event, reference: Mapping[str, Any]) -> bool:
        ttl = (reference.get("meta") or {}).get("ttl")
        return ttl is not None and seconds(event.timestamp) + ttl <= self._now


def _references(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What stands where a worker leaves references; what playbooks make of them leads to the same payloads."""
    output = payload.get("output")
    found = [payload.get("ref"), output.get("ref") if isinstance(output, Mapping) else None]
    yield from (one for one in (*found, *(payload.get("kept") or {}).values()) if isinstance(one, Mapping))
