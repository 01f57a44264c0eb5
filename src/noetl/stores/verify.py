"""Whether a store still says what was written to it: the part of `noetl fsck` that knows nothing of engines.

Every problem names the execution and, where it can, the event. Checks that need to understand what the events say,
such as replaying them, are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from noetl.model.events import Event, decode, event_id
from noetl.ports import AccessStore, HasAccess, StoreFailed, Summary
from noetl.stores.appends import link, opening_of, root


class StoreProblem(msgspec.Struct, frozen=True):
    """Something that is not as it should be."""

    #: `unreadable`, `gap`, `chain`, `body`, `identity`, `parent`, `time`, `summary`, `audit`, or what a check handed in says
    kind: str
    message: str
    #: None: the store as a whole
    execution_id: str | None = None
    #: the first event that is wrong
    seq: int | None = None


#: a check of one execution whose events could all be read
Check = Callable[[list[Event], Summary], Iterable[StoreProblem]]


class RawStore(Protocol):
    """A store whose contents can be seen as they lie there."""

    def execution_ids(self) -> list[str]:
        """Of which there is anything at all."""

    def raw_events(self, execution_id: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The events as they lie there: seq, body and hash, in order; nothing is checked."""

    def damage(self) -> list[str]:
        """What is wrong with the store as a whole."""

    def consistent_read(self) -> AbstractContextManager[None]:
        """Inside of this, what is read does not change."""

    def summary(self, execution_id: str) -> Summary | None:
        """See `EventLog`."""


def verify_store(
    store: RawStore, execution_id: str | None = None, *, checks: Iterable[Check] = ()
) -> Iterator[StoreProblem]:
    """What is wrong with a store, or with one of its executions."""
    checks = tuple(checks)
    try:
        if execution_id is not None:
            yield from _execution(store, execution_id, checks)
            return
        for message in store.damage():
            yield StoreProblem("unreadable", message)
        for each in store.execution_ids():
            yield from _execution(store, each, checks)
        if isinstance(store, HasAccess):
            with store.consistent_read():
                yield from verify_audit(store.access())
    except StoreFailed as error:
        yield StoreProblem("unreadable", str(error), execution_id)


def verify_audit(store: AccessStore) -> Iterator[StoreProblem]:
    """What is wrong with the audit log: entries that were changed, left out, moved or cut off at the end."""
    number, digest, last, last_digest = store.audit_ends()
    for place, body, found in store.raw_audit():
        if place != number + 1:
            yield StoreProblem("audit", f"entry {number + 1} of the audit log is missing")
        elif link(digest, body) != found:
            yield StoreProblem("audit", f"entry {place} of the audit log is not what was written, or not at its place")
        number, digest = place, found
    if (number, digest) != (last, last_digest):
        yield StoreProblem("audit", f"the audit log ends at entry {number}; its last entry was {last}")


def _execution(store: RawStore, execution_id: str, checks: tuple[Check, ...]) -> Iterator[StoreProblem]:
    walk = _Walk(execution_id, keep=bool(checks))
    problems: list[StoreProblem] = []
    try:
        with store.consistent_read():
            for seq, body, digest in store.raw_events(execution_id):
                problems += walk.step(seq, body, digest)
            summary = store.summary(execution_id)
    except StoreFailed as error:
        yield StoreProblem("unreadable", str(error), execution_id, walk.seq + 1)
        return
    if summary is None or summary.execution_id != execution_id:
        problems.append(StoreProblem("summary", "there is none", execution_id))
    else:
        problems += _summary(walk, summary)
        # A log that is broken already would only make them stumble.
        for check in checks if not problems else ():
            problems += check(walk.events, summary)
    yield from problems


class _Walk:
    """A walk along one log, with what has to be remembered of the way."""

    def __init__(self, execution_id: str, *, keep: bool) -> None:
        self.execution_id = execution_id
        self.seq = 0
        self.first: Event | None = None
        self.last: Event | None = None
        #: how the execution ended, as its last event says
        self.ended: str | None = None
        self.events: list[Event] = []
        self._keep = keep
        self._digest = root(execution_id)

    def step(self, seq: int, body: bytes, digest: bytes) -> Iterator[StoreProblem]:
        """What is wrong with the next event."""
        if seq != self.seq + 1:
            missing = f"{self.seq + 1}" if seq == self.seq + 2 else f"{self.seq + 1} to {seq - 1}"
            yield self._problem("gap", f"event {missing} is missing", self.seq + 1)
        elif link(self._digest, body) != digest:
            yield self._problem("chain", f"event {seq} is not what was written, or not at its place", seq)
        # Go on from what stands there: one broken link is one problem.
        self.seq, self._digest = seq, digest
        try:
            event = decode(body)
        except (msgspec.MsgspecError, TypeError) as error:
            yield self._problem("body", f"event {seq} cannot be read: {error}", seq)
            return
        yield from self._event(seq, event)
        self.first, self.last = self.first or event, event
        if event.name == "playbook.processed":
            self.ended = event.payload.get("status")
        if self._keep:
            self.events.append(event)

    def _event(self, seq: int, event: Event) -> Iterator[StoreProblem]:
        if (event.execution_id, event.seq, event.event_id) != (
            self.execution_id,
            seq,
            event_id(self.execution_id, seq),
        ):
            yield self._problem("identity", f"event {seq} says that it is {event.event_id}", seq)
        if event.parent_id is not None and not self._is_earlier(event.parent_id, seq):
            yield self._problem("parent", f"event {seq} is caused by {event.parent_id}, no earlier event", seq)
        if self.last is not None and event.timestamp < self.last.timestamp:
            yield self._problem("time", f"event {seq} is dated before event {self.last.seq}", seq)

    def _is_earlier(self, parent: str, seq: int) -> bool:
        number = parent.rpartition("-")[2]
        return number.isdecimal() and 0 < int(number) < seq and parent == event_id(self.execution_id, int(number))

    def _problem(self, kind: str, message: str, seq: int) -> StoreProblem:
        return StoreProblem(kind, message, self.execution_id, seq)


def _summary(walk: _Walk, summary: Summary) -> Iterator[StoreProblem]:
    """Where a summary and its log differ."""
    said: dict[str, object] = {"seq": walk.seq}
    if walk.first is not None and walk.last is not None and walk.first.seq == 1:
        said |= opening_of(walk.first)._asdict()
        if walk.last.seq == walk.seq:
            said["updated_at"] = walk.last.timestamp
    if walk.ended is not None:
        said["status"] = walk.ended
    for name, value in said.items():
        shown = getattr(summary, name)
        if shown != value:
            message = f"{name} is {shown!r} in the summary and {value!r} in the log"
            yield StoreProblem("summary", message, summary.execution_id, walk.seq + 1 if name == "seq" else None)
