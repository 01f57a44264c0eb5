"""The event log: what a store of executions must do. Each docstring is the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from noetl.errors import NoetlError
from noetl.model.events import Event

#: what a summary's status is at the end
OVER = frozenset({"completed", "failed", "cancelled"})


class Conflict(NoetlError):
    """Somebody else has written to the execution's log meanwhile: load it again."""


class StoreFailed(NoetlError):
    """The store cannot write or read (disk full, no permission, corrupted). What was durable before still is."""


class StoreUnreachable(StoreFailed):
    """The store does not answer now; it may later."""


class LogDamaged(StoreFailed):
    """What a store has of one execution cannot be read, however often that is tried."""


class Summary(msgspec.Struct, frozen=True):
    """An execution as lists show it."""

    execution_id: str
    path: str
    #: `requested`, `running`, `paused`, `completed`, `failed` or `cancelled`
    status: str
    requested_at: str
    updated_at: str
    seq: int
    #: content hash of the playbook
    playbook: str
    parent: str | None = None
    #: who runs it: the id of a process that holds its lock, see `EventLog.claim`
    owner: str | None = None
    #: whether that process is alive
    alive: bool = False
    #: whether it only waits, in nobody's memory, and there is somebody who wakes it
    dormant: bool = False
    #: who started it with an idempotency key, and that key
    caller: str | None = None
    key: str | None = None

    @property
    def is_attended(self) -> bool:
        """Whether somebody goes on with it: it is run, or is woken when what it waits for comes."""
        return self.alive or self.dormant


class PlaybookSource(msgspec.Struct, frozen=True):
    """A playbook as it was run."""

    hash: str
    text: str
    #: where it came from; relative paths inside of it start at its folder
    file: str
    #: whether it was read as an older dialect
    legacy: bool = False


class LogLine(msgspec.Struct, frozen=True):
    """A line that a tool wrote."""

    timestamp: str
    step: str
    task: str
    iteration: int | str | None
    #: `stdout` or `stderr`
    stream: str
    text: str


class EventLog(Protocol):
    """The truth. Events are appended, never changed; everything else can be made anew from them."""

    async def append(self, events: Sequence[Event], *, status: str, snapshot: bytes | None = None) -> None:
        """Write events of one execution, all or none; they are durable when this returns.

        `seq` must go on where the log ends, else `Conflict`. The first event may name a key and its caller (`asked`): both
        are kept with it, and where they have started another execution that is a `Conflict`, too. `status` is what the summary shows from now on. A
        `snapshot` is the state behind the last of these events. Callers may be many: what waits is committed together.
        """

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """The events behind `after`, in order."""

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """The latest snapshot, not later than `upto`, and its seq."""

    def summaries(
        self,
        *,
        limit: int = 50,
        unfinished: bool = False,
        parent: str | None = None,
        before: str | None = None,
        paths: Sequence[str] = (),
    ) -> list[Summary]:
        """The executions, the latest first; of a `parent` its children, of the parent `""` those that have none.

        With `before` only those that were requested before that execution; of one that is not there, all. With `paths` only
        those of playbooks with these paths, see `model.access.allows_path`.
        """

    def summary(self, execution_id: str, *, paths: Sequence[str] = ()) -> Summary | None:
        """One execution; None: there is none. A beginning of an id is enough; UsageError: it fits several.

        With `paths`, executions of other playbooks are not there.
        """

    def execution_of_key(self, caller: str, key: str) -> str | None:
        """The id of the execution that a caller has started with a key; None: there is none, or none any more."""

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """Those of these executions that are there and not over; all in one question."""

    @property
    def me(self) -> str:
        """The owner that this process is."""

    async def claim(self, execution_id: str) -> bool:
        """Make this process the owner of an execution, unless another one that is alive owns it."""

    async def keep_source(self, source: PlaybookSource) -> None:
        """Keep the text of a playbook under its hash."""

    def source(self, content_hash: str) -> PlaybookSource | None:
        """The playbook of a hash."""

    def latest(self, path: str) -> PlaybookSource | None:
        """The playbook of the latest execution with that path."""

    def post(self, execution_id: str, body: bytes) -> int:
        """Leave a request for the owner of the execution; its number, which the event shows that follows from it.

        0: the number is not known here.
        """

    def collect(self) -> list[tuple[int, str, bytes]]:
        """The requests left for executions that this process owns: number, execution, body, in order.

        Numbers only grow. Each is handed out once to a process, and again to the next one unless it was settled.
        """

    def settle(self, number: int) -> None:
        """Forget a request: what follows from it is durable."""

    async def forget(self, execution_id: str) -> None:
        """Remove all that is known of an execution that is over."""

    def write_lines(self, execution_id: str, lines: Sequence[LogLine]) -> None:
        """Keep what tools wrote; may be lost when the machine dies."""

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, LogLine]]:
        """What tools wrote, behind a position."""

    async def probe(self) -> None:
        """Write something that changes nothing, durable when this returns. StoreFailed: nothing can be recorded now."""

    async def close(self) -> None:
        """Write what waits, and let go."""


@runtime_checkable
class HasClock(Protocol):
    """A log with a clock of its own, by which all who share it go: their machines need not agree on the time."""

    def clock_offset(self) -> float:
        """Seconds by which that clock is ahead of this machine's, as far as is known."""


@runtime_checkable
class ReportsLoss(Protocol):
    """A log that knows whether it has all that was written to it."""

    def find_loss(self) -> str | None:
        """What was recorded and is gone, in words; None: nothing is known to be."""


@runtime_checkable
class ListenableLog(Protocol):
    """A log that says by itself when another process has left something."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call this, from any thread, whenever somebody has `asked` for something, or has `left`; it may be missed."""
