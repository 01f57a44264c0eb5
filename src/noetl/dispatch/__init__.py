"""Dispatch: the life of an order between the engine's decision and the worker's report. Pure; `table.py` has the theory."""

from __future__ import annotations

from noetl.dispatch.dispatcher import Dispatcher, Moves, SlotRequest
from noetl.dispatch.entry import DEFAULT_POOL, Entry, State, Worker
from noetl.dispatch.limit_keys import has_limits
from noetl.dispatch.rules import may_begin
from noetl.dispatch.waits import waits

__all__ = [
    "DEFAULT_POOL", "Dispatcher", "Entry", "Moves", "SlotRequest", "State", "Worker", "has_limits", "may_begin", "waits",
]  # fmt: skip
