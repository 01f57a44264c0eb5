"""MemoryLog: executions in dicts, for tests; the reference reading of the port, without anything that could fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.events import Event, decode, encode
from noetl.ports import OVER, Conflict, EventLog, Line, Source, Summary
from noetl.slots import Slots
from noetl.stores.chain import link, root
from noetl.stores.memoryslots import Ledger, MemorySlots

_names = count(1)


class _Shelf:
    """What several logs may share, as processes share a file."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, bytes, bytes]]] = {}
        self.summaries: dict[str, Summary] = {}
        self.snapshots: dict[str, dict[int, bytes]] = {}
        self.sources: dict[str, Source] = {}
        self.inbox: list[tuple[int, str, bytes]] = []
        self.posted = 0
        self.lines: dict[str, list[Line]] = {}
        self.owners: dict[str, str] = {}
        self.alive: set[str] = set()
        self.ledger = Ledger()


class MemoryLog(EventLog):
    """An `EventLog`. `beside` another one it shows the same executions, as another process would."""

    def __init__(self, beside: MemoryLog | None = None) -> None:
        self._shelf: _Shelf = beside._shelf if beside is not None else _Shelf()  # noqa: SLF001  one of us
        self._name = f"memory-{next(_names)}"
        self._handed: set[int] = set()
        self._shelf.alive.add(self._name)

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """See the port."""
        if not events:
            return
        execution_id, last = events[0].execution_id, events[-1]
        rows = self._shelf.events.get(execution_id, [])
        if [(event.execution_id, event.seq) for event in events] != [
            (execution_id, seq) for seq in range(len(rows) + 1, len(rows) + len(events) + 1)
        ]:
            raise Conflict(f"the log of {execution_id} ends at {len(rows)}: somebody else wrote to it")
        bodies = [encode(event) for event in events]
        digest = rows[-1][2] if rows else root(execution_id)
        for event, body in zip(events, bodies, strict=True):
            digest = link(digest, body)
            self._shelf.events.setdefault(execution_id, []).append((event.seq, body, digest))
        before = self._shelf.summaries.get(execution_id) or _opened(events[0])
        self._shelf.summaries[execution_id] = msgspec.structs.replace(
            before, status=status, updated_at=last.timestamp, seq=last.seq
        )
        if snapshot is not None:
            self._shelf.snapshots.setdefault(execution_id, {})[last.seq] = snapshot

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port."""
        rows = self._shelf.events.get(execution_id, [])[after:]
        return [decode(body) for _, body, _ in rows[:limit]]

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        kept = self._shelf.snapshots.get(execution_id, {})
        return max(((seq, body) for seq, body in kept.items() if upto is None or seq <= upto), default=None)

    def summaries(
        self, *, limit: int = 50, unfinished: bool = False, parent: str | None = None, before: str | None = None
    ) -> list[Summary]:
        """See the port."""
        names = list(reversed(self._shelf.summaries))
        names = names[names.index(before) + 1 :] if before in names else names
        latest = [self._owned(self._shelf.summaries[name]) for name in names]
        latest = [one for one in latest if parent is None or (one.parent or "") == parent]
        return [one for one in latest if not (unfinished and one.status in OVER)][:limit]

    def summary(self, execution_id: str) -> Summary | None:
        """See the port."""
        found = sorted(name for name in self._shelf.summaries if execution_id and name.startswith(execution_id))
        if len(found) > 1 and found[0] != execution_id:
            raise UsageError(f"{execution_id} is the beginning of several executions: {', '.join(found)}")
        return self._owned(self._shelf.summaries[found[0]]) if found else None

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """See the port."""
        found = self._shelf.summaries
        return {name for name in execution_ids if name in found and found[name].status not in OVER}

    def _owned(self, summary: Summary) -> Summary:
        owner = self._shelf.owners.get(summary.execution_id)
        return msgspec.structs.replace(summary, owner=owner, alive=owner in self._shelf.alive)

    @property
    def me(self) -> str:
        """See the port."""
        return self._name

    async def claim(self, execution_id: str) -> bool:
        """See the port."""
        owner = self._shelf.owners.get(execution_id)
        if owner != self._name and owner in self._shelf.alive:
            return False
        self._shelf.owners[execution_id] = self._name
        return True

    def slots(self, clock: Callable[[], float]) -> Slots:
        """See `noetl.slots.KeepsSlots`."""
        return MemorySlots(self._shelf.ledger, self._name, self._minded, clock)

    def _minded(self, execution_id: str) -> bool:
        summary = self.summary(execution_id)
        return summary is not None and summary.alive and summary.status not in OVER

    async def keep_source(self, source: Source) -> None:
        """See the port."""
        self._shelf.sources[source.hash] = source

    def source(self, content_hash: str) -> Source | None:
        """See the port."""
        return self._shelf.sources.get(content_hash)

    def latest(self, path: str) -> Source | None:
        """See the port."""
        found = next((one for one in reversed(self._shelf.summaries.values()) if one.path == path), None)
        return self.source(found.playbook) if found is not None else None

    def post(self, execution_id: str, body: bytes) -> None:
        """See the port."""
        self._shelf.posted += 1
        self._shelf.inbox.append((self._shelf.posted, execution_id, body))

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port."""
        owners = self._shelf.owners
        new = [one for one in self._shelf.inbox if owners.get(one[1]) == self._name and one[0] not in self._handed]
        self._handed.update(one[0] for one in new)
        return new

    def settle(self, number: int) -> None:
        """See the port."""
        self._shelf.inbox[:] = [one for one in self._shelf.inbox if one[0] != number]

    async def forget(self, execution_id: str) -> None:
        """See the port."""
        shelf = self._shelf
        kept: tuple[dict[str, Any], ...] = (shelf.events, shelf.summaries, shelf.snapshots, shelf.lines, shelf.owners)
        for one in kept:
            one.pop(execution_id, None)
        shelf.inbox[:] = [one for one in shelf.inbox if one[1] != execution_id]

    def write_lines(self, execution_id: str, lines: Sequence[Line]) -> None:
        """See the port."""
        self._shelf.lines.setdefault(execution_id, []).extend(lines)

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, Line]]:
        """See the port."""
        return list(enumerate(self._shelf.lines.get(execution_id, []), 1))[after:]

    async def close(self) -> None:
        """See the port."""
        self._shelf.alive.discard(self._name)

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def execution_ids(self) -> list[str]:
        """Of which there is anything at all."""
        return sorted(self._shelf.summaries.keys() | self._shelf.events.keys())

    def stored(self, execution_id: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The events as they lie there: seq, body and hash, in order."""
        yield from self._shelf.events.get(execution_id, [])

    def damage(self) -> list[str]:
        """What is wrong with the store as a whole: nothing ever."""
        return []

    def standing(self) -> AbstractContextManager[None]:
        """Inside of this, what is read does not change."""
        return nullcontext()


def _opened(event: Event) -> Summary:
    payload = event.payload
    parent = (payload.get("parent") or {}).get("execution_id")
    at = event.timestamp
    return Summary(event.execution_id, event.entity_id, "", at, at, 0, payload.get("playbook", ""), parent)
