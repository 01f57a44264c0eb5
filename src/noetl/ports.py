"""The sockets between the brains and the world: what a store, a tool and a clock must do. Each docstring is the law."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from noetl.errors import NoetlError
from noetl.model.events import Event
from noetl.model.output import JSON, Output, Spilled
from noetl.model.redaction import Redactor

T = TypeVar("T")

#: what a summary's status is at the end
OVER = frozenset({"completed", "failed", "cancelled"})


class Conflict(NoetlError):
    """Somebody else has written to the execution's log meanwhile: load it again."""


class StoreFailed(NoetlError):
    """The store cannot write or read (disk full, no permission, corrupted). What was durable before still is."""


class Unreachable(StoreFailed):
    """The store does not answer now; it may later."""


class Damaged(StoreFailed):
    """What a store has of one execution cannot be read, however often that is tried."""


class ResultGone(NoetlError):
    """A payload was removed: its time had run out."""


class ResultDamaged(NoetlError):
    """A payload is not what was stored."""


class NoCredential(NoetlError):
    """A credential is not there, or is not what it should be. The message never holds a value."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


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

    @property
    def minded(self) -> bool:
        """Whether somebody goes on with it: it is run, or is woken when what it waits for comes."""
        return self.alive or self.dormant


class Source(msgspec.Struct, frozen=True):
    """A playbook as it was run."""

    hash: str
    text: str
    #: where it came from; relative paths inside of it start at its folder
    file: str
    #: whether it was read as an older dialect
    legacy: bool = False


class Line(msgspec.Struct, frozen=True):
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

        `seq` must go on where the log ends, else `Conflict`. `status` is what the summary shows from now on. A
        `snapshot` is the state behind the last of these events. Callers may be many: what waits is committed together.
        """

    def read(self, execution_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """The events behind `after`, in order."""

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """The latest snapshot, not later than `upto`, and its seq."""

    def summaries(
        self, *, limit: int = 50, unfinished: bool = False, parent: str | None = None, before: str | None = None
    ) -> list[Summary]:
        """The executions, the latest first; of a `parent` its children, of the parent `""` those that have none.

        With `before` only those that were requested before that execution; of one that is not there, all.
        """

    def summary(self, execution_id: str) -> Summary | None:
        """One execution; None: there is none. A beginning of an id is enough; UsageError: it fits several."""

    def under_way(self, execution_ids: Collection[str]) -> set[str]:
        """Those of these executions that are there and not over; all in one question."""

    @property
    def me(self) -> str:
        """The owner that this process is."""

    async def claim(self, execution_id: str) -> bool:
        """Make this process the owner of an execution, unless another one that is alive owns it."""

    async def keep_source(self, source: Source) -> None:
        """Keep the text of a playbook under its hash."""

    def source(self, content_hash: str) -> Source | None:
        """The playbook of a hash."""

    def latest(self, path: str) -> Source | None:
        """The playbook of the latest execution with that path."""

    def post(self, execution_id: str, body: bytes) -> None:
        """Leave a request for whoever owns the execution."""

    def collect(self) -> list[tuple[int, str, bytes]]:
        """The requests left for executions that this process owns: number, execution, body, in order.

        Numbers only grow. Each is handed out once to a process, and again to the next one unless it was settled.
        """

    def settle(self, number: int) -> None:
        """Forget a request: what follows from it is durable."""

    async def forget(self, execution_id: str) -> None:
        """Remove all that is known of an execution that is over."""

    def write_lines(self, execution_id: str, lines: Sequence[Line]) -> None:
        """Keep what tools wrote; may be lost when the machine dies."""

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, Line]]:
        """What tools wrote, behind a position."""

    async def close(self) -> None:
        """Write what waits, and let go."""


@runtime_checkable
class Listens(Protocol):
    """A log that says by itself when another process has left something."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call this, from any thread, whenever somebody has `asked` for something, or has `left`; it may be missed."""


class Call(msgspec.Struct, frozen=True):
    """A task, rendered and ready: all that a tool is told."""

    kind: str
    execution_id: str
    step: str
    task: str
    #: the kind's own keys; those of a kind whose `input` configures it are in here too
    config: Mapping[str, Any]
    #: the task's input laid over the step's
    input: Mapping[str, Any]
    #: the task's alone
    own_input: Mapping[str, Any]
    #: the effective spec, by dotted key
    spec: Mapping[str, Any]
    #: the same for every attempt at the same task: what is done twice with it should take effect once
    key: str
    attempt: int
    #: what templates of the task see: `workload`, `ctx`, `step`, `iter` …
    scopes: Mapping[str, Any]
    iteration: int | str | None = None
    #: of a task that runs again after a crash: what it last said of its progress, see `World.progress`
    progress: Mapping[str, Any] | None = None
    #: the credential that the task's `auth` names, resolved: its `kind` and its parts
    auth: Mapping[str, Any] | None = None
    #: the name of that credential; None: the task says itself what it consists of
    auth_name: str | None = None
    #: those that parts of its configuration name, such as a target of `transfer`; by name
    auths: Mapping[str, Mapping[str, Any]] = {}
    #: data of more bytes should be left in a file, as `Spilled`: nobody here looks into it. None: somebody does
    spill: int | None = None


class Keychain(Protocol):
    """The credentials of one execution, where its tasks run. What it has found out is in `redactor`, before anybody else.

    NoCredential: one is missing, or whoever keeps it does not answer.
    """

    #: knows every value that was found
    redactor: Redactor
    #: whether the playbook declares any
    declared: bool
    #: what templates read as `keychain`
    scope: dict[str, Any]

    async def ready(self, reading: Collection[str] = ()) -> None:
        """Resolve all that is declared; of those that templates read, have tokens that hold."""

    async def credential(self, name: str) -> dict[str, Any]:
        """A credential for use now: its `kind`, its parts, and a token that holds where it has one."""

    async def renewed(self, name: str, used: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same with another token than the one that was refused; None: it is of a kind that has none."""

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret that no keychain declares."""

    def close(self) -> None:
        """Forget it all: the execution is over."""


class Results(Protocol):
    """Where large payloads lie. A reference is a map of `type`, `locator`, `auth_reference` and `meta`.

    Whatever cannot be read raises ResultGone (it was removed), ResultDamaged (it is not what was stored) or another
    NoetlError that says why.
    """

    async def read(self, reference: Mapping[str, Any], auth: Mapping[str, Any] | None = None) -> Any:
        """The payload, checked against its `sha256`. `auth` is a credential for what a tool has written elsewhere."""

    async def rows(
        self, reference: Mapping[str, Any], start: int, stop: int, auth: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The rows from `start` up to and without `stop`; fewer where there are no more."""


class Part(msgspec.Struct, frozen=True):
    """Some elements of a list, or one that lies in the store already."""

    items: list[Any] | None = None
    ref: dict[str, Any] | None = None


class ResultStore(Results, Protocol):
    """Results that can be added to."""

    @property
    def kinds(self) -> frozenset[str]:
        """The types of references that it makes: `blob`, `object_store`, `relational`, `nats`."""

    async def keep(
        self,
        execution_id: str,
        value: Any,
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> dict[str, Any]:
        """Store a value, or what a tool spilled, and give its reference; it is durable when this returns.

        `store` is one of `kinds`, or `auto`. StoreFailed: it cannot be stored, now or at all.
        """

    async def keep_list(
        self, execution_id: str, parts: Sequence[Part], *, ttl: float | None = None, store: str = "auto"
    ) -> dict[str, Any]:
        """The same of a list, some of whose elements may be stored already; those are not read."""

    def sealed(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that a tool has written elsewhere, made one that `read` and `rows` believe."""

    def draft(self, suffix: str) -> Path:
        """A new file on the same disk, for what is to be spilled."""

    async def load(self, spilled: Spilled) -> Any:
        """What a tool spilled, as a value; its file is gone after that."""

    def runs(self, spilled: Spilled) -> Iterator[list[Any]]:
        """The elements of a list that a tool spilled, some at a time; its file stays."""


class World(Protocol):
    """What a tool may use. One per execution: what it keeps is warm for the next task and closed at the end."""

    #: where relative paths start: the folder of the playbook
    folder: Path
    #: the environment for processes, without what holds credentials
    environment: Mapping[str, str]
    #: what code that is confined must not see, wherever it lies: the home with the log
    hidden: Sequence[Path]
    #: what no task of the execution may do, whatever its spec says, by the keys of effective specs
    restrict: Mapping[str, Any]

    async def resource(self, name: str, make: Callable[[], Awaitable[T]], close: Callable[[T], Awaitable[None]]) -> T:
        """Something to be made once and kept, such as connections."""

    def log(self, call: Call, stream: str, text: str) -> None:
        """Keep what a task wrote to `stdout` or `stderr`; may hold several lines or a part of one."""

    @property
    def results(self) -> Results:
        """The payloads that references lead to."""

    def sealed(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that the tool has written, which others may then read through `results`."""

    def draft(self, suffix: str) -> Path:
        """A new file beside the result store, for data that is to be handed over as `Spilled`; never shown to others."""

    def unnamed(self) -> IO[bytes]:
        """The same without a name: nothing of it is left if the process is killed, which matters where there are secrets."""

    async def spilled(
        self,
        file: IO[bytes],
        content_type: str = JSON,
        *,
        rows: int | None = None,
        columns: dict[str, str] | None = None,
    ) -> Spilled:
        """An unnamed file that is written, to be handed over; its secrets are taken out, and it is closed."""

    def is_secret(self, text: str) -> bool:
        """Whether a text holds a secret, so that it must be no argument of a process: everybody can read those."""

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret by its name, known to be one from now on; NoCredential: there is none."""

    async def renewed(self, name: str, used: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A credential with another token than the one that was refused, see `Keychain.renewed`."""

    async def progress(self, call: Call, said: Mapping[str, Any]) -> None:
        """Record how far a task is; returns when that is durable. Who runs it again finds it in `Call.progress`."""


class Tool(Protocol):
    """A module with these names is a tool; plugins are found by the entry point group `noetl.tools`.

    `run` never raises for a failure of the task itself: that is an output with an error. It is cancelled when the
    task is to end at once, and must then leave nothing running. `spec.timeout` is kept by the caller.
    """

    KIND: Any

    def run(self, call: Call, world: World) -> Output | Awaitable[Output]:
        """Do it: an `async def`, or a plain function where it takes no time at all."""
