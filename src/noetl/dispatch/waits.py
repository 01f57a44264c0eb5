"""What an execution waits for outside itself, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from noetl.dispatch.dispatcher import Dispatcher
from noetl.dispatch.entry import READY, WAITING, Entry
from noetl.dispatch.limit_keys import describe_waits


def waits(dispatcher: Dispatcher, execution_id: str) -> list[str]:
    """What the pipelines of an execution wait for: slots first, then workers."""
    record = dispatcher.executions.get(execution_id)
    entries = list(record.entries.values()) if record is not None else []
    return [*_slots(entries), *(_workers(dispatcher, entries) if dispatcher.local is None else ())]


def _slots(entries: list[Entry]) -> Iterator[str]:
    waiting = [one for one in entries if one.state is WAITING]
    found = Counter(
        f"{one.order.step} waits for {describe_waits(one.ask)}"
        for one in waiting
        if one.order is not None and one.ask is not None
    )
    for message, many in found.items():
        yield message if many == 1 else f"{message}, {many} of its iterations or runs"


def _workers(dispatcher: Dispatcher, entries: list[Entry]) -> Iterator[str]:
    found = Counter(one.pool for one in entries if one.state is READY)
    for pool, many in sorted(found.items()):
        there = any(pool in worker.pools for worker in dispatcher.workers.values())
        why = "all that are there are busy" if there else f"none is there; `noetl worker --pool {pool}` starts one"
        plural = many > 1
        yield f"{many} pipeline{'s' if plural else ''} wait{'' if plural else 's'} for a worker of pool `{pool}`: {why}"
