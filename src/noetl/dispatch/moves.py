"""Moves: what dispatch asks its caller to do. The caller carries them out in the order in which they are returned."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure
from noetl.model.wire import Key, Lease


class Dispatched(Protocol):
    """An execution in memory, as far as dispatch looks at it; it is handed back to the engine unchanged."""

    @property
    def id(self) -> str:
        """The execution's id."""

    @property
    def net(self) -> Net:
        """The net it runs."""


class Give(msgspec.Struct, frozen=True, gc=False):
    """Let a worker run a pipeline, for as long as it holds the fence."""

    #: as the engine's caller named it
    execution: Any
    key: Key
    order: RunPipeline
    worker: str
    fence: str
    #: earlier workers died with it, so nothing else may run beside it
    alone: bool
    #: None: that of the worker
    lease: Lease | None = None


class StopAt(msgspec.Struct, frozen=True):
    """Let a worker end a pipeline and the processes it started, if it holds it by this fence."""

    worker: str
    key: Key
    fence: str


class Forget(msgspec.Struct, frozen=True):
    """Let a worker discard what it keeps for an execution."""

    worker: str
    execution_id: str


class Wake(msgspec.Struct, frozen=True):
    """Answer a worker that waits for work."""

    worker: str


class Hint(msgspec.Struct, frozen=True):
    """Publish that a pool has work."""

    pool: str


class AskSlot(msgspec.Struct, frozen=True):
    """Ask the store for the slot of a pipeline; see `Dispatcher.slot_requests`."""

    key: Key


class ReleaseSlot(msgspec.Struct, frozen=True):
    """Return the slot of a pipeline to the store. Repeat until that succeeds, and before the next slot is asked for."""

    key: Key


class Deny(msgspec.Struct, frozen=True):
    """Tell an execution that a pipeline of it may not run."""

    key: Key
    error: Failure


class Displace(msgspec.Struct, frozen=True):
    """Tell an execution, wherever it runs, that another run takes the slot of its pipeline. Once is enough if it arrives."""

    key: Key
    error: Failure


class DeadLetter(msgspec.Struct, frozen=True):
    """Record that a pipeline was given out as often as is allowed, and fail its step."""

    key: Key
    worker: str | None
    tries: int
    why: str


Move = Give | StopAt | Forget | Wake | Hint | AskSlot | ReleaseSlot | Deny | Displace | DeadLetter
