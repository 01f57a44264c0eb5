"""Archives: executions that are over, as files outside of the store. One can be read by any program, and brought back."""

from __future__ import annotations

import gzip
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError, describe_os_error
from noetl.history.log_queries import events_of
from noetl.model.events import Event, decode, encode
from noetl.ports import OVER, EventLog, LogLine, PlaybookSource, Summary

ARCHIVE_SUFFIX = ".jsonl.gz"
_FORMAT = "noetl archive 1"
_AT_ONCE = 1_000


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


async def restore_archive(log: EventLog, path: Path) -> Summary:
    """Put the execution of a file back where it was. NoetlError: the file is none, or the execution is there."""
    # An error that somebody keeps would keep the file open with it.
    with closing(_lines(path)) as lines:
        return await _restore_lines(log, lines, path)


async def _restore_lines(log: EventLog, lines: Iterator[bytes], path: Path) -> Summary:
    head: _Head = _read(next(lines, b""), _Head, path)
    if head.format != _FORMAT:
        raise NoetlError(f"{path} is an archive of another version")
    if log.summary(head.summary.execution_id) is not None:
        raise NoetlError(f"execution {head.summary.execution_id} is there already")
    events = [_event(next(lines, b""), path) for _ in range(head.events)]
    if head.source is not None:
        await log.keep_source(head.source)
    await log.append(events, status=head.summary.status)
    written = [_read(line, LogLine, path) for line in lines if line]
    for at in range(0, len(written), _AT_ONCE):
        log.write_lines(head.summary.execution_id, written[at : at + _AT_ONCE])
    return head.summary


def _lines(path: Path) -> Generator[bytes, None, None]:
    try:
        with gzip.open(path, "rb") as file:
            for line in file:
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
