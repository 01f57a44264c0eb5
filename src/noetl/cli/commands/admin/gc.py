"""noetl gc: remove stored payloads whose time has run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from noetl.cli.executions import json_option, open_command_log
from noetl.cli.local_audit import record_apart
from noetl.cli.output.printing import as_json, count, out, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noetl.ports import EventLog, Summary
    from noetl.results import PayloadStore, Removable

#: events are read so many at a time
_PAGE = 1_000


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@json_option
def command(*, dry_run: bool, as_data: bool) -> None:
    """Remove payloads whose `spec.result.ttl` has run out, and what killed processes left.

    A reference to such a payload stays in the log; whoever resolves it is told that it has expired. What killed
    processes left is removed after a day: what was half written, and what was stored and never recorded.
    """
    from noetl.app import open_results
    from noetl.config import settings

    store = open_results(settings())
    try:
        expired = _drop_needed(store, list(store.find_expired()))
        found = list({one.display_name: one for one in (*expired, *_find_unreferenced(store))}.values())
        for one in found if not dry_run else ():
            one.remove()
    finally:
        store.close()
    total = sum(one.bytes for one in found)
    if found and not dry_run:
        record_apart("results.gc", f"{count(len(found), 'file')}, {size(total)}")
    if as_data:
        listed = [{"path": one.display_name, "bytes": one.bytes} for one in found]
        out(as_json({"removed": listed, "bytes": total, "dry_run": dry_run}))
        return
    if dry_run:
        for one in found:
            out(f"{one.display_name}  {size(one.bytes)}\n")
    verb = "would be removed" if dry_run else "removed"
    out(f"{count(len(found), 'file')} {verb}, {size(total)}\n" if found else "nothing has expired\n")


def _drop_needed(store: PayloadStore, expired: list[Removable]) -> list[Removable]:
    """Without the payloads that compensations of executions that are not over may still read."""
    if not any(one.owner for one in expired):
        return expired
    from noetl.results import find_needed

    with open_command_log() as log:
        undoing = [one.execution_id for one in log.summaries(limit=1_000_000, unfinished=True) if _may_undo(log, one)]
        needed = find_needed(store.parts_of, _undo_texts(log, undoing)) if undoing else set()
    # What a step has stored may be a part of its end, which is recorded later than that has expired.
    return [one for one in expired if one.owner not in undoing and (one.owner, one.name) not in needed]


def _may_undo(log: EventLog, summary: Summary) -> bool:
    """Whether a step of an execution, or one that it may plan, can have a compensation."""
    source = log.source(summary.playbook)
    return source is None or "compensation" in source.text or "synthesize" in source.text


def _undo_texts(log: EventLog, execution_ids: list[str]) -> Iterator[bytes]:
    """The ends that executions would have to undo, as text."""
    import msgspec

    from noetl.history import state_at

    for execution_id in execution_ids:
        state = state_at(log, execution_id)
        for record in (*state.undo, *((state.undoing,) if state.undoing is not None else ())):
            for event in log.read(execution_id, after=record.seq - 1, limit=1):
                yield msgspec.json.encode(event.payload)


def _find_unreferenced(store: PayloadStore) -> Iterator[Removable]:
    """What executions that are over have left and nothing leads to."""
    aged = store.find_aged()
    if not aged:
        return
    from noetl.ports import OVER
    from noetl.results import find_unrecorded

    with open_command_log() as log:
        for execution_id, lying in aged.items():
            summary = log.summary(execution_id)
            if summary is not None and summary.execution_id == execution_id and summary.status in OVER:
                yield from find_unrecorded(store.parts_of, execution_id, lying, _texts(log, execution_id))


def _texts(log: EventLog, execution_id: str) -> Iterator[bytes]:
    import msgspec

    seq = 0
    while events := log.read(execution_id, after=seq, limit=_PAGE):
        seq = events[-1].seq
        yield msgspec.json.encode([event.payload for event in events])
