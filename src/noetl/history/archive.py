"""Archives: executions that are over, as files outside of the store. One can be read by any program, and brought back."""

from __future__ import annotations

import gzip
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from noetl.errors import NoetlError, describe_os_error
from noetl.history.log_queries import events_of
from noetl.model.events import Event, decode, encode
from noetl.ports import OVER, EventLog, LogLine, PlaybookSource, Summary

ARCHIVE_SUFFIX = ".jsonl.gz"
_FORMAT = "noetl archive 1"
_AT_ONCE = 1_000
#: bytes of a line: no event is that large, and a compressed file may hold more than any memory
_LONGEST = 1 << 28


class _Head(msgspec.Struct, frozen=True):
    """The first line; events follow, one a line, then what tools wrote."""

    format: str
    summary: Summary
    source: PlaybookSource | None
    events: int


def execution_tree(log: EventLog, summary: Summary) -> list[Summary]:
    """An execution and all that came of it, the children first; nothing if one of them is not over."""
    if summary.status not in OVER:
        return []
    found: list[Summary] = []
    for child in log.summaries(limit=1_000_000, parent=summary.execution_id):
        below = execution_tree(log, child)
        if not below:
            return []
        found += below
    return [*found, summary]


def write_archive(log: EventLog, summary: Summary, folder: Path) -> Path:
    """An execution as a file, which is whole or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{summary.execution_id}{ARCHIVE_SUFFIX}"
    draft = path.with_suffix(".part")
    head = _Head(
        _FORMAT, msgspec.structs.replace(summary, owner=None, alive=False), log.source(summary.playbook), summary.seq
    )
    # Executions hold what people put into them: the file is its owner's alone.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
            file.write(msgspec.json.encode(head) + b"\n")
            for event in events_of(log, summary.execution_id):
                file.write(encode(event) + b"\n")
            for _, line in log.lines(summary.execution_id):
                file.write(msgspec.json.encode(line) + b"\n")
        raw.flush()
        os.fsync(raw.fileno())
    draft.rename(path)
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)  # the name, too, is to be there after a power cut, before the store forgets
    finally:
        os.close(entry)
    return path


class RestoredArchive(NamedTuple):
    """What became of a file."""

    summary: Summary
    #: whether it was brought back; else it was there already, as it is in the file
    restored: bool


async def restore_archive(log: EventLog, path: Path) -> RestoredArchive:
    """Put the execution of a file back where it was. NoetlError: the file is none, or an execution that differs is there."""
    # An error that somebody keeps would keep the file open with it.
    with closing(_lines(path)) as lines:
        return await _restore_lines(log, lines, path)


async def _restore_lines(log: EventLog, lines: Iterator[bytes], path: Path) -> RestoredArchive:
    head: _Head = _read(next(lines, b""), _Head, path)
    if head.format != _FORMAT:
        raise NoetlError(f"{path} is an archive of another version")
    execution_id = head.summary.execution_id
    events = [_event(next(lines, b""), path) for _ in range(head.events)]
    there = log.summary(execution_id)
    is_new = there is None or there.execution_id != execution_id
    if not is_new:
        _compare(log, execution_id, events, path)
    if head.source is not None:
        await log.keep_source(head.source)
    if is_new:
        await log.append(events, status=head.summary.status)
    written = [_read(line, LogLine, path) for line in lines if line]
    # Of one that was interrupted they may be missing, or some of them.
    known = 0 if is_new else len(log.lines(execution_id))
    for at in range(known, len(written), _AT_ONCE):
        log.write_lines(execution_id, written[at : at + _AT_ONCE])
    return RestoredArchive(head.summary, is_new)


def _compare(log: EventLog, execution_id: str, events: list[Event], path: Path) -> None:
    """NoetlError: the store has other events of an execution than its file."""
    pairs = zip_longest(events, events_of(log, execution_id))
    differs = next((seq for seq, (one, other) in enumerate(pairs, 1) if one != other), None)
    if differs is not None:
        raise NoetlError(
            f"{path} was not restored: the store has an execution {execution_id} that differs from it, at event {differs}. "
            f"Compare `noetl events {execution_id} --json` with `zcat {path}`"
        )


def _lines(path: Path) -> Generator[bytes, None, None]:
    try:
        with gzip.open(path, "rb") as file:
            while line := file.readline(_LONGEST):
                if len(line) == _LONGEST:
                    raise NoetlError(
                        f"{path} is no archive of an execution: it has a line of more than {_LONGEST:,} bytes"
                    )
                yield line.rstrip(b"\n")
    except (OSError, EOFError) as error:
        raise NoetlError(f"{path} cannot be read: {describe_os_error(error)}") from None


def _read(line: bytes, kind: type[Any], path: Path) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise NoetlError(f"{path} is no archive of an execution: {error}") from None


def _event(line: bytes, path: Path) -> Event:
    try:
        return decode(line)
    except msgspec.MsgspecError as error:
        raise NoetlError(f"{path} is cut off or damaged: {error}") from None
