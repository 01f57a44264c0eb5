"""How far a transfer is: what is recorded of it, and what another attempt finds of that."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from noetl.drivers.datahost import CallFailed, DataHosts
from noetl.model.output import failure
from noetl.ports import Call, World
from noetl.tools.transfer.plan import TransferPlan

# Transfers that failed where another attempt may go on. What nobody has taken up at the end of the execution is removed.


class UnfinishedTransfers:
    """Those of one execution."""

    def __init__(self) -> None:
        self._left: dict[str, Callable[[], Awaitable[None]]] = {}

    @classmethod
    async def of(cls, world: World) -> UnfinishedTransfers:
        """Those of an execution; they are closed before its data hosts."""
        await DataHosts.of(world)

        async def make() -> UnfinishedTransfers:
            return cls()

        return await world.resource("unfinished transfers", make, cls.close)

    def register(self, token: str, remove: Callable[[], Awaitable[None]]) -> None:
        """Leave what a transfer has made so far; `remove` does away with it."""
        self._left[token] = remove

    def claim(self, token: str) -> None:
        """Another attempt has come."""
        self._left.pop(token, None)

    async def close(self) -> None:
        """Remove what is left."""
        left, self._left = self._left, {}
        for remove in left.values():
            with contextlib.suppress(CallFailed):
                await remove()


class Progress(msgspec.Struct):
    """What is recorded; also what templates of progress bars are made of."""

    rows: int = 0
    chunks: int = 0
    bytes: int = 0
    #: rows in all, or what part of the source has been read, where either is known
    total: int | None = None
    part: float | None = None
    #: where the source goes on, and what it must still be for that to be true
    position: dict[str, Any] = {}
    identity: Any = None
    #: by target: the chunks and rows it has, where its notes are, and what went wrong where that is only a warning
    targets: list[dict[str, Any]] = []
    #: rows behind which an attempt ended with a chunk of its own, because the source had no more to give then
    cuts: list[int] = []
    #: the last attempt ended behind a whole page, and all targets have what came before
    paused: bool = False
    #: no chunk follows
    final: bool = False
    #: whose progress it is: a rerun is told of that of another run
    token: str = ""


def read_progress(call: Call, plan: TransferPlan) -> Progress:
    """How far an earlier attempt came; a rerun begins anew, for the targets know nothing of it. CallFailed: it cannot."""
    found = msgspec.convert(dict(call.progress), Progress) if call.progress else Progress(token=plan.token)
    if found.token == plan.token:
        return found
    for at, (target, known) in enumerate(zip(plan.targets, found.targets, strict=False), 1):
        if known["chunks"] and (target["kind"] == "http" or target["mode"] in ("append", "insert")):
            message = (
                f"the transfer cannot be done again: target {at} got {known['rows']:,} rows in the run that this is a rerun "
                "of, which cannot be taken back; rerun from before this task if they are to come twice, or use the mode "
                "upsert or replace"
            )
            raise CallFailed(failure("not-resumable", message))
    return Progress(token=plan.token)
