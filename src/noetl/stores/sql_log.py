"""SqlLog and SqlSlotLedger: events and slots in a SQL database. Each dialect has queries of the same names in `sql/`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.events import Event, decode
from noetl.model.wire import Key
from noetl.ports import EventLog, LogDamaged, LogLine, PlaybookSource, Summary
from noetl.stores.appends import append_of, link, root
from noetl.stores.commit_queue import CommitQueue, Job, no_op
from noetl.stores.limit_rules import FRESH_S, SlotLedger

# Slots, and starts under a rate.


class SqlSlotLedger(SlotLedger):
    """`SlotLedger` in a transaction that is under way, at one moment of the database's time."""

    def __init__(self, connection: Any, sql: Mapping[str, str], me: str, now: float) -> None:
        self._connection, self._sql, self._me, self._now = connection, sql, me, now

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(self._sql[name], params).fetchall()
        return found

    def _do(self, name: str, *params: Any) -> None:
        self._connection.execute(self._sql[name], params)

    def place(self, holder: Key) -> bool | None:
        """See `SlotLedger`."""
        found = self._rows("slot", *columns(holder))
        return bool(found[0][0]) if found else None

    def holders(self, key: str) -> list[tuple[Key, bool]]:
        """See `SlotLedger`."""
        return [(holder_of(row), bool(row[3])) for row in self._rows("slots_of_key", key)]

    def add(self, holder: Key, key: str) -> None:
        """See `SlotLedger`."""
        self._do("add_slot", *columns(holder), key)

    def displace(self, holders: Iterable[Key]) -> None:
        """See `SlotLedger`."""
        for holder in holders:
            self._do("displace_slot", *columns(holder))

    def ages(self, key: str, per_s: float) -> list[float]:
        """See `SlotLedger`. A clock that was put back must not hold anybody up for longer than a period."""
        rows = self._rows("starts", key, self._now - per_s, self._now + per_s)
        return [max(0.0, self._now - row[0]) for row in rows]

    def start(self, key: str, per_s: float) -> None:
        """See `SlotLedger`."""
        self._do("forget_starts", key, self._now)
        self._do("add_start", key, self._now, self._now + per_s)

    def ahead(self, key: str) -> int:
        """See `SlotLedger`."""
        mine = self._rows("turn", key, self._me)
        since = mine[0][0] if mine else self._now
        count: int = self._rows("turns_ahead", key, self._me, self._now - FRESH_S, self._now + FRESH_S, since)[0][0]
        return count

    def wait(self, key: str) -> None:
        """See `SlotLedger`."""
        self._do("take_turn", key, self._me, self._now, self._now)

    def end_turn(self, key: str) -> None:
        """See `SlotLedger`."""
        self._do("end_turn", key, self._me)

    def sweep(self) -> None:
        """Forget what nobody will ask for: starts and turns that are past."""
        self._do("sweep_starts", self._now)
        self._do("sweep_turns", self._now - 60 * FRESH_S)


def columns(holder: Key) -> tuple[str, str, str]:
    """A holder as it is kept: an iteration may be a number, a text or none."""
    return holder[0], holder[1], msgspec.json.encode(holder[2]).decode()


def holder_of(row: tuple[Any, ...]) -> Key:
    """A holder as it was kept."""
    return row[0], row[1], msgspec.json.decode(row[2])


_ALL = 1 << 62
_PAGE = 1000
_line = msgspec.json.Decoder(LogLine)


class SqlLog(EventLog):
    """An `EventLog` over a commit queue that writes and queries that read."""

    def __init__(self, queue: CommitQueue) -> None:
        self._queue = queue
        #: requests that this process was given
        self._handed: set[int] = set()
        #: whether lines, or the end of requests, may still have to be written
        self._left_lines = False

    # --- what a dialect does ------------------------------------------------------------------------------------------

    def _rows(self, name: str, *params: Any) -> list[tuple[Any, ...]]:
        """The rows of a query that reads. StoreFailed: it cannot."""
        raise NotImplementedError

    def _job(self, name: str, rows: list[tuple[Any, ...]]) -> Job:
        """A query that writes, once for each row of parameters."""
        raise NotImplementedError

    def _alive(self, owners: Iterable[str]) -> set[str]:
        """Those who live."""
        raise NotImplementedError

    @property
    def me(self) -> str:
        """The owner that this process is."""
        raise NotImplementedError

    # --- events ------------------------------------------------------------------------------------------------------

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """See the port. Who is cancelled while waiting does not know whether it was written."""
        if events:
            await self._queue.submit(append_of(events, status, snapshot))

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """See the port. Events that were tampered with are not handed out."""
        count = _ALL if limit is None else limit + 1
        rows = self._rows("events", execution_id, after, count)
        # The row before the first one wanted is read along: the chain goes on from its hash.
        digest = rows.pop(0)[2] if after and rows and rows[0][0] == after else root(execution_id)
        events = []
        for expected, (seq, body, digest_there) in enumerate(rows[:limit], after + 1):
            digest = link(digest, body)
            if seq != expected or digest != digest_there:
                raise LogDamaged(f"the log of {execution_id} is damaged at event {expected}: see `noetl fsck`")
            events.append(_event(body))
        return events

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """See the port."""
        found = self._rows("snapshot", execution_id, _ALL if upto is None else upto)
        return (found[0][0], found[0][1]) if found else None

    # --- summaries and owners ----------------------------------------------------------------------------------------

    def summaries(
        self,
        *,
        limit: int = 50,
        unfinished: bool = False,
        parent: str | None = None,
        before: str | None = None,
        paths: Sequence[str] = (),
    ) -> list[Summary]:
        """See the port; the latest is the one that was requested last."""
        query = "unfinished" if unfinished else "summaries"
        return self._summaries(self._rows(query, limit, parent, before, encode_paths(paths)))

    def summary(self, execution_id: str, *, paths: Sequence[str] = ()) -> Summary | None:
        """See the port."""
        if not execution_id:
            return None
        found = self._rows("summaries_between", execution_id, execution_id + "\U0010ffff", 6, encode_paths(paths))
        if len(found) > 1 and found[0][0] != execution_id:
            names = ", ".join(row[0] for row in found[:5]) + (" …" if len(found) > 5 else "")
            raise UsageError(f"{execution_id} is the beginning of several executions: {names}")
        return self._summaries(found[:1])[0] if found else None

    def execution_of_key(self, caller: str, key: str) -> str | None:
        """See the port."""
        found = self._rows("execution_of_key", caller, key)
        return found[0][0] if found else None

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """See the port."""
        return {row[0] for row in self._rows("under_way", msgspec.json.encode(list(execution_ids)).decode())}

    def _summaries(self, rows: list[tuple[Any, ...]]) -> list[Summary]:
        alive = self._alive({row[8] for row in rows if row[8] is not None})
        return [
            msgspec.structs.replace(
                Summary(*row[:9]), alive=row[8] in alive, dormant=bool(row[9]), caller=row[10], key=row[11]
            )
            for row in rows
        ]

    # --- playbooks ---------------------------------------------------------------------------------------------------

    async def keep_source(self, source: PlaybookSource) -> None:
        """See the port. The same text from another file: the later one counts."""
        if self.source(source.hash) != source:
            row = source.hash, source.text, source.file, source.legacy
            await self._queue.submit(self._job("add_source", [row]))

    def source(self, content_hash: str) -> PlaybookSource | None:
        """See the port."""
        return _source(self._rows("source", content_hash))

    def latest(self, path: str) -> PlaybookSource | None:
        """See the port."""
        return _source(self._rows("latest_source", path))

    # --- requests ----------------------------------------------------------------------------------------------------

    def post(self, execution_id: str, body: bytes) -> int:
        """See the port."""
        raise NotImplementedError

    def collect(self) -> list[tuple[int, str, bytes]]:
        """See the port."""
        new = [(row[0], row[1], row[2]) for row in self._rows("requests", self.me) if row[0] not in self._handed]
        self._handed.update(row[0] for row in new)
        return new

    def settle(self, number: int) -> None:
        """See the port. Does not wait: should it be lost, the log knows that the request took effect."""
        self._queue.defer(self._job("forget_request", [(number,)]))
        self._handed.discard(number)
        self._left_lines = True

    async def forget(self, execution_id: str) -> None:
        """See the port."""
        parts = ("events", "lines", "all_snapshots", "inbox", "ownership", "execution")
        jobs = [self._job(f"forget_{part}", [(execution_id,)]) for part in parts]

        def write(connection: Any) -> None:
            for job in jobs:
                job(connection)

        await self._queue.submit(write)

    # --- lines -------------------------------------------------------------------------------------------------------

    def write_lines(self, execution_id: str, lines: Sequence[LogLine]) -> None:
        """See the port. Does not wait: they are written along with the next events."""
        self._queue.defer(self._job("add_line", [(execution_id, msgspec.json.encode(line)) for line in lines]))
        self._left_lines = True

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, LogLine]]:
        """See the port."""
        if self._left_lines:
            self._queue.put(no_op).result()
            self._left_lines = False
        return [(number, _line.decode(body)) for number, body in self._rows("lines", execution_id, after)]

    # --- checking (see `verify`) -------------------------------------------------------------------------------------

    def execution_ids(self) -> list[str]:
        """Of which there is anything at all."""
        return [row[0] for row in self._rows("execution_ids")]

    def raw_events(self, execution_id: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The events as they lie there: seq, body and hash, in order; nothing is checked."""
        after = 0
        while rows := self._rows("events", execution_id, after, _PAGE):
            yield from ((seq, body, digest) for seq, body, digest in rows)
            after = rows[-1][0] + 1


def encode_paths(paths: Sequence[str]) -> str | None:
    """Paths as queries take them; None: there is no limit."""
    return msgspec.json.encode(list(paths)).decode() if paths else None


def _event(body: bytes) -> Event:
    try:
        return decode(body)
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"an event is of a shape this version does not know ({error}): use a later one") from error


def _source(rows: list[tuple[Any, ...]]) -> PlaybookSource | None:
    return PlaybookSource(rows[0][0], rows[0][1], rows[0][2], bool(rows[0][3])) if rows else None
