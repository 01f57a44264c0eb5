"""MemoryLog: executions in dicts, for tests; the reference reading of the port, without anything that could fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.access import allows_path
from noetl.model.events import Event, decode, encode
from noetl.model.wire import Answer, Ask, Key
from noetl.ports import OVER, AccessStore, Conflict, EventLog, LogLine, PlaybookSource, Slots, Summary
from noetl.stores.access import MemoryAccess
from noetl.stores.appends import Opening, key_conflict, link, opening_of, root
from noetl.stores.limit_rules import FRESH_S, SlotLedger, admit

# Slots in memory, beside a log in memory.


class SharedSlots:
    """What several of them may share, as processes share a file."""

    def __init__(self) -> None:
        #: in the order in which they were given: holder → key, and whether it has been displaced
        self.slots: dict[Key, tuple[str, bool]] = {}
        self.starts: dict[str, list[float]] = {}
        #: key → process → since when it waits, and when it last asked
        self.turns: dict[str, dict[str, tuple[float, float]]] = {}


class MemorySlots(Slots, SlotLedger):
    """`Slots`, and their own books: nobody else runs while one asks."""

    def __init__(self, ledger: SharedSlots, me: str, minded: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._ledger, self._me, self._clock = ledger, me, clock
        #: whether an execution is under way in a process that lives
        self._is_attended = minded

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """See the port."""
        return admit(asks, self)

    async def release(self, holders: Collection[Key]) -> None:
        """See the port."""
        for holder in holders:
            self._ledger.slots.pop(holder, None)

    async def list_holders(self, execution_id: str) -> list[Key]:
        """See the port."""
        return [holder for holder in self._ledger.slots if holder[0] == execution_id]

    # --- books -------------------------------------------------------------------------------------------------------

    def place(self, holder: Key) -> bool | None:
        """See `SlotLedger`."""
        found = self._ledger.slots.get(holder)
        return found[1] if found is not None else None

    def holders(self, key: str) -> list[tuple[Key, bool]]:
        """See `SlotLedger`."""
        return [(holder, displaced) for holder, (of, displaced) in self._ledger.slots.items() if of == key]

    def forget_dead(self, key: str) -> None:
        """See `SlotLedger`."""
        for holder, _ in self.holders(key):
            if not self._is_attended(holder[0]):
                del self._ledger.slots[holder]

    def add(self, holder: Key, key: str) -> None:
        """See `SlotLedger`."""
        self._ledger.slots[holder] = key, False

    def displace(self, holders: Iterable[Key]) -> None:
        """See `SlotLedger`."""
        for holder in holders:
            self._ledger.slots[holder] = self._ledger.slots[holder][0], True

    def ages(self, key: str, per_s: float) -> list[float]:
        """See `SlotLedger`."""
        now = self._clock()
        kept = self._ledger.starts[key] = [at for at in self._ledger.starts.get(key, ()) if at > now - per_s]
        return [now - at for at in reversed(kept)]

    def start(self, key: str, per_s: float) -> None:  # noqa: ARG002
        """See `SlotLedger`."""
        self._ledger.starts.setdefault(key, []).append(self._clock())

    def ahead(self, key: str) -> int:
        """See `SlotLedger`."""
        turns, now = self._ledger.turns.get(key, {}), self._clock()
        mine = turns[self._me][0] if self._me in turns else now
        return sum(
            1 for who, (since, seen) in turns.items() if who != self._me and abs(seen - now) < FRESH_S and since < mine
        )

    def wait(self, key: str) -> None:
        """See `SlotLedger`."""
        turns, now = self._ledger.turns.setdefault(key, {}), self._clock()
        turns[self._me] = turns.get(self._me, (now, now))[0], now

    def end_turn(self, key: str) -> None:
        """See `SlotLedger`."""
        turns = self._ledger.turns.get(key, {})
        turns.pop(self._me, None)
        if not turns:
            self._ledger.turns.pop(key, None)


_names = count(1)


class _SharedLog:
    """What several logs may share, as processes share a file."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, bytes, bytes]]] = {}
        self.summaries: dict[str, Summary] = {}
        self.snapshots: dict[str, dict[int, bytes]] = {}
        self.sources: dict[str, PlaybookSource] = {}
        self.inbox: list[tuple[int, str, bytes]] = []
        self.posted = 0
        self.lines: dict[str, list[LogLine]] = {}
        self.owners: dict[str, str] = {}
        self.alive: set[str] = set()
        self.ledger = SharedSlots()
        self.access = MemoryAccess()


class MemoryLog(EventLog):
    """An `EventLog`. `beside` another one it shows the same executions, as another process would."""

    def __init__(self, beside: MemoryLog | None = None) -> None:
        self._shared: _SharedLog = beside._shared if beside is not None else _SharedLog()  # noqa: SLF001  one of us
        self._name = f"memory-{next(_names)}"
        self._handed: set[int] = set()
        self._shared.alive.add(self._name)

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """See the port."""
        if not events:
            return
        execution_id, last = events[0].execution_id, events[-1]
        rows = self._shared.events.get(execution_id, [])
        if [(event.execution_id, event.seq) for event in events] != [
            (execution_id, seq) for seq in range(len(rows) + 1, len(rows) + len(events) + 1)
        ]:
            raise Conflict(f"the log of {execution_id} ends at {len(rows)}: somebody else wrote to it")
        opening = opening_of(events[0])
        start_key = opening.start_key if not rows else None
        if start_key is not None and self.execution_of_key(*start_key) is not None:
            raise key_conflict(start_key[1], execution_id)
        bodies = [encode(event) for event in events]
        digest = rows[-1][2] if rows else root(execution_id)
        for event, body in zip(events, bodies, strict=True):
            digest = link(digest, body)
            self._shared.events.setdefault(execution_id, []).append((event.seq, body, digest))
        before = self._shared.summaries.get(execution_id) or _new_summary(execution_id, opening)
        self._shared.summaries[execution_id] = msgspec.structs.replace(
            before, status=status, updated_at=last.timestamp, seq=last.seq
        )
        if snapshot is not None:
            self._shared.snapshots.setdefault(execution_id, {})[last.seq] = snapshot

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port."""
        rows = self._shared.events.get(execution_id, [])[after:]
        return [decode(body) for _, body, _ in rows[:limit]]

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        kept = self._shared.snapshots.get(execution_id, {})
        return max(((seq, body) for seq, body in kept.items() if upto is None or seq <= upto), default=None)

    def summaries(
        self,
        *,
        limit: int = 50,
        unfinished: bool = False,
        parent: str | None = None,
        before: str | None = None,
        paths: Sequence[str] = (),
    ) -> list[Summary]:
        """See the port."""
        names = list(reversed(self._shared.summaries))
        names = names[names.index(before) + 1 :] if before in names else names
        latest = [self._with_owner(self._shared.summaries[name]) for name in names]
        latest = [one for one in latest if parent is None or (one.parent or "") == parent]
        latest = [one for one in latest if allows_path(paths, one.path)]
        return [one for one in latest if not (unfinished and one.status in OVER)][:limit]

    def summary(self, execution_id: str, *, paths: Sequence[str] = ()) -> Summary | None:
        """See the port."""
        visible = (name for name, one in self._shared.summaries.items() if allows_path(paths, one.path))
        found = sorted(name for name in visible if execution_id and name.startswith(execution_id))
        if len(found) > 1 and found[0] != execution_id:
            raise UsageError(f"{execution_id} is the beginning of several executions: {', '.join(found)}")
        return self._with_owner(self._shared.summaries[found[0]]) if found else None

    def execution_of_key(self, caller: str, key: str) -> str | None:
        """See the port."""
        found = self._shared.summaries.items()
        return next((name for name, one in found if one.key == key and one.caller == caller), None)

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """See the port."""
        found = self._shared.summaries
        return {name for name in execution_ids if name in found and found[name].status not in OVER}

    def _with_owner(self, summary: Summary) -> Summary:
        owner = self._shared.owners.get(summary.execution_id)
        return msgspec.structs.replace(summary, owner=owner, alive=owner in self._shared.alive)

    @property
    def me(self) -> str:
        """See the port."""
        return self._name

    async def probe(self) -> None:
        """See the port. Memory can always be written."""
        return

    async def claim(self, execution_id: str) -> bool:
        """See the port."""
        owner = self._shared.owners.get(execution_id)
        if owner != self._name and owner in self._shared.alive:
            return False
        self._shared.owners[execution_id] = self._name
        return True

    def slots(self, clock: Callable[[], float]) -> Slots:
        """See `noetl.ports.cluster.HasSlots`."""
        return MemorySlots(self._shared.ledger, self._name, self._is_attended, clock)

    def access(self) -> AccessStore:
        """See `noetl.ports.access.HasAccess`."""
        return self._shared.access

    def _is_attended(self, execution_id: str) -> bool:
        summary = self.summary(execution_id)
        return summary is not None and summary.alive and summary.status not in OVER

    async def keep_source(self, source: PlaybookSource) -> None:
        """See the port."""
        self._shared.sources[source.hash] = source

    def source(self, content_hash: str) -> PlaybookSource | None:
        """See the port."""
        return self._shared.sources.get(content_hash)

    def latest(self, path: str) -> PlaybookSource | None:
        """See the port."""
        found = next((one for one in reversed(self._shared.summaries.values()) if one.path == path), None)
        return self.source(found.playbook) if found is not None else None

    def post(self, execution_id: str, body: bytes) -> int:
        """See the port."""
        self._shared.posted += 1
        self._shared.inbox.append((self._shared.posted, execution_id, body))
        return self._shared.posted

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port."""
        owners = self._shared.owners
        new = [one for one in self._shared.inbox if owners.get(one[1]) == self._name and one[0] not in self._handed]
        self._handed.update(one[0] for one in new)
        return new

    def settle(self, number: int) -> None:
        """See the port."""
        self._shared.inbox[:] = [one for one in self._shared.inbox if one[0] != number]

    async def forget(self, execution_id: str) -> None:
        """See the port."""
        shared = self._shared
        kept: tuple[dict[str, Any], ...] = (
            shared.events,
            shared.summaries,
            shared.snapshots,
            shared.lines,
            shared.owners,
        )
        for one in kept:
            one.pop(execution_id, None)
        shared.inbox[:] = [one for one in shared.inbox if one[1] != execution_id]

    def write_lines(self, execution_id: str, lines: Sequence[LogLine]) -> None:
        """See the port."""
        self._shared.lines.setdefault(execution_id, []).extend(lines)

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, LogLine]]:
        """See the port."""
        return list(enumerate(self._shared.lines.get(execution_id, []), 1))[after:]

    async def close(self) -> None:
        """See the port."""
        self._shared.alive.discard(self._name)

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def execution_ids(self) -> list[str]:
        """Of which there is anything at all."""
        return sorted(self._shared.summaries.keys() | self._shared.events.keys())

    def raw_events(self, execution_id: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The events as they lie there: seq, body and hash, in order."""
        yield from self._shared.events.get(execution_id, [])

    def damage(self) -> list[str]:
        """What is wrong with the store as a whole: nothing ever."""
        return []

    def consistent_read(self) -> AbstractContextManager[None]:
        """Inside of this, what is read does not change."""
        return nullcontext()


def _new_summary(execution_id: str, opening: Opening) -> Summary:
    path, playbook, parent, at, caller, key = opening
    return Summary(execution_id, path, "", at, at, 0, playbook, parent, caller=caller, key=key)
