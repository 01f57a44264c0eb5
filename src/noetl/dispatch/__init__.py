"""Dispatch: the life of an order between the engine's decision and the worker's report. Pure; `table.py` has the theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.dispatch.dispatcher import Dispatcher, Moves, SlotRequest, waits
from noetl.dispatch.entry import Entry, State, Worker, may_begin
from noetl.dispatch.limit_keys import has_limits
from noetl.dispatch.placement import DEFAULT_POOL
from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.dispatch.moves import (
        AskSlot as AskSlot,
        DeadLetter as DeadLetter,
        Deny as Deny,
        Displace as Displace,
        Forget as Forget,
        Give as Give,
        Hint as Hint,
        Move as Move,
        ReleaseSlot as ReleaseSlot,
        StopAt as StopAt,
        Wake as Wake,
    )
    from noetl.dispatch.worker_queue import (
        AskAll as AskAll,
        HeldAssignment as HeldAssignment,
        RunAlone as RunAlone,
        SayLast as SayLast,
        Send as Send,
        StopRun as StopRun,
        WorkerMoves as WorkerMoves,
        WorkerQueue as WorkerQueue,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "moves": "AskSlot DeadLetter Deny Displace Forget Give Hint Move ReleaseSlot StopAt Wake",
            "worker_queue": "AskAll HeldAssignment RunAlone SayLast Send StopRun WorkerMoves WorkerQueue",
        },
    )

__all__ = [
    "DEFAULT_POOL", "Dispatcher", "Entry", "Moves", "SlotRequest", "State", "Worker", "has_limits", "may_begin", "waits",
]  # fmt: skip
