"""Rows to files: one for all chunks, or as many as their paths differ.

A file is written under another name and renamed when the last chunk is in; only with `append` CSV and lines of JSON are
written where they belong. Notes beside say how far each file is, so that half a chunk is cut off after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.drivers.datahost import DataHostFailed, HostCall
from noetl.tools.transfer.mapping import render_tree
from noetl.tools.transfer.targets.file_formats import FORMATS, Announce, Format, schema_of
from noetl.tools.transfer.targets.target import ChunkNote, Notes, Target, TargetChunk, TargetContext
from noetl.tools.transfer.text_files import UnknownFormat, format_of

#: a file of more bytes is not read again to tell its digest
_DIGESTED = 64 * 1024 * 1024


class FileTarget(Target):
    """The files of one target."""

    def __init__(self, given: Mapping[str, Any], around: TargetContext) -> None:
        super().__init__(given, around)
        self._notes = Notes(around.notes)
        self._written: dict[str, Format] = {}

    def open(self, running: HostCall) -> int:
        if not self._notes.load():
            if self.context.finished:
                self.chunks, self.rows = self.context.recorded, self.context.rows
            elif self.context.recorded and (self._appends() or (self.context.final and self.mode == "append")):
                raise _notes_lost_failure(self.given["path"])  # what was appended may be there, and may not
            return self.chunks
        if not self.context.final and not all(self._format(path).has(note.size) for path, note in self._note_items()):
            # What was noted is not there; where it was to be seen, nobody can say what happened to it.
            self._refuse_if_seen()
            self.restart(running)
            return 0
        for path, note in self._note_items():
            made = self._format(path)
            if self.context.final and made.in_place:
                continue  # all of it is in
            if made.size > note.size and not self._is_alone(made, note):
                raise _explain_shared_file(path)
            made.truncate(note.size, self._notes.chunks)
        self.chunks = self._notes.chunks
        self.rows = sum(note.rows for note in self._notes.files.values())
        return self.chunks

    def _note_items(self) -> list[tuple[str, ChunkNote]]:
        return list(self._notes.files.items())

    def _is_alone(self, made: Format, note: ChunkNote) -> bool:
        """Whether nobody else has written to a file that is appended to, as far as its length tells."""
        return not made.in_place or (not note.shared and note.size <= made.size <= max(note.size, note.until))

    def _refuse_if_seen(self) -> None:
        for path, _ in self._note_items():
            if self._format(path).in_place:
                raise _explain_shared_file(path)

    @property
    def uses_columns(self) -> bool:
        return super().uses_columns and isinstance(self.given["path"], str)

    def _appends(self) -> bool:
        """Whether what an attempt that failed has written is still there, and meant to be."""
        path = self.given["path"]
        name = path if isinstance(path, str) else path.source
        return self.mode == "append" and FORMATS[_format_of(name, self.given.get("format"))].in_place

    def restart(self, running: HostCall) -> bool:  # noqa: ARG002
        if not self._notes.files and self.chunks and not self.replaces:
            return False
        if not all(self._is_alone(self._format(path), note) for path, note in self._note_items()):
            return False
        for path, note in self._note_items():
            self._format(path).undo(note.before)
        self._notes.forget()
        self._written.clear()
        self.chunks = self.rows = 0
        return True

    def _format(self, path: str) -> Format:
        made = self._written.get(path)
        if made is None:
            made = self._written[path] = self._new_format(path)
            note = self._notes.files.get(path)
            if note is not None:
                made.columns, made.types = note.columns, note.types
        return made

    def _new_format(self, path: str) -> Format:
        kind = _format_of(path, self.given.get("format"))
        return FORMATS[kind](Path(path), self.context.token, append=self.mode == "append")

    def _place(self, named: str) -> str:
        """The file that a name stands for."""
        return named if os.path.isabs(named) else str(Path(self.given["folder"]) / named)  # noqa: PTH117  it is text here

    def _begin(self, path: str) -> int:
        """Before the first chunk of a file: bytes that were there before."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return self._format(path).begin()

    def _publish(self, running: HostCall) -> None:
        """Make the files visible."""
        for made in self._written.values():
            running.check()
            made.publish()

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:  # noqa: ARG002
        if given.index < self.chunks:
            return {}, b""
        path = self._place(str(render_tree(self.given["path"], {**self.context.scopes, "chunk": given.about})))
        made = self._format(path)
        if path not in self._notes.files:
            before = self._begin(path)
            # Before the first byte: a crash in the first chunk must find out where that began.
            self._notes.add(chunk=given.index - 1, path=path, size=before, rows=0, before=before, columns=made.columns)
        size = made.add(given, self.projection, self._announce(given, path) if made.in_place else None)
        last = given.following - 1
        self._notes.add(chunk=last, path=path, size=size, rows=given.chunk.size, columns=made.columns, types=made.types)
        self.chunks = given.following
        self.rows += given.chunk.size
        return {}, b""

    def _announce(self, given: TargetChunk, path: str) -> Announce:
        """Notes how long a file is going to be, so that what others add to it is told apart from half a chunk."""

        def announce(start: int, until: int) -> None:
            size = self._notes.files[path].size
            self._notes.add(chunk=given.index - 1, path=path, size=size, rows=0, until=until, shared=start != size)

        return announce

    def finish(self, running: HostCall) -> dict[str, Any] | None:
        path = self.given["path"]
        if not self._notes.files and isinstance(path, str):
            self._begin(path)
        self._publish(running)
        paths = list(self._written)
        if not paths or not all(Path(one).is_file() for one in paths):
            return None
        self.bytes = sum(Path(one).stat().st_size for one in paths)
        formats = [self._format(one) for one in paths]
        return _reference(paths, self.rows, self.bytes, formats[0].content_type, schema_of(formats))

    def forget(self) -> None:
        self._notes.forget()

    def abort(self, running: HostCall) -> bool:  # noqa: ARG002
        if self._appends():
            for path, note in self._notes.files.items():  # what is noted stays, and another attempt goes on behind it
                self._format(path).truncate(note.size, self._notes.chunks)
            return False
        for path in self._notes.files:
            self._format(path).abandon()
        self._notes.forget()
        return True


def _notes_lost_failure(path: Any) -> DataHostFailed:
    shown = path if isinstance(path, str) else path.source
    return DataHostFailed(
        "not-resumable",
        f"the transfer cannot go on: how far it was in `{shown}` was noted in the result store, and the notes are gone; take "
        "out the rows of this run and start a new one, or use the mode replace",
    )


def _format_of(path: str, given: Any) -> str:
    try:
        return format_of(path, given)
    except UnknownFormat as error:
        raise DataHostFailed("fail", str(error)) from None


def _explain_shared_file(path: str) -> DataHostFailed:
    return DataHostFailed(
        "not-resumable",
        f"the transfer cannot go on: somebody else has written to `{path}` since, and what is whose cannot be told; take out "
        "the rows of this run and start a new one, or write a file of its own",
    )


def _reference(
    paths: list[str], rows: int, size: int, content_type: str, schema: Mapping[str, str] | None
) -> dict[str, Any]:
    locator: dict[str, Any] = {"file": paths[0]} if len(paths) == 1 else {"files": paths}
    meta: dict[str, Any] = {"content_type": content_type, "stored_bytes": size, "rows": rows}
    if schema:
        meta["schema"] = schema
    if len(paths) == 1 and (digest := digest_of(Path(paths[0]))) is not None:
        meta["stored_sha256"] = digest
    return {"type": "blob", "locator": locator, "auth_reference": None, "meta": meta}


def digest_of(path: Path) -> str | None:
    """The hash of a file, if it is not too large for that."""
    import hashlib

    if path.stat().st_size > _DIGESTED:
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
