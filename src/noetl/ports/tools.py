"""Tools: what one is given, and what it may use of the process it runs in. Each docstring is the contract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import msgspec

from noetl.errors import NoetlError
from noetl.model.output import JSON, Output, Spilled
from noetl.ports.results import Results
from noetl.redaction import Redactor

# Credentials of one execution, as its tasks use them. Each docstring is the contract.


class NoCredential(NoetlError):
    """A credential is not there, or is not what it should be. The message never holds a value."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


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

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same with another token than the one that was refused; None: it is of a kind that has none."""

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret that no keychain declares."""

    def close(self) -> None:
        """Forget it all: the execution is over."""


T = TypeVar("T")


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

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that the tool has written, which others may then read through `results`."""

    def draft(self, suffix: str) -> Path:
        """A new file beside the result store, for data that is to be handed over as `Spilled`; never shown to others."""

    def open_unnamed(self) -> IO[bytes]:
        """The same without a name: nothing of it is left if the process is killed, which matters where there are secrets."""

    async def adopt_spill(
        self,
        file: IO[bytes],
        content_type: str = JSON,
        *,
        rows: int | None = None,
        columns: dict[str, str] | None = None,
        compact: bool = False,
    ) -> Spilled:
        """An unnamed file that is written, to be handed over; its secrets are taken out, and it is closed."""

    def is_secret(self, text: str) -> bool:
        """Whether a text holds a secret, so that it must be no argument of a process: everybody can read those."""

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret by its name, known to be one from now on; NoCredential: there is none."""

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> Mapping[str, Any] | None:
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
