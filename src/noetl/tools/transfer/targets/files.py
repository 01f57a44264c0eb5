"""Rows to files: one for all chunks, or as many as their paths differ.

A file is written under another name and renamed when the last chunk is in; only with `append` CSV and lines of JSON are
written where they belong. Notes beside say how far each file is, so that half a chunk is cut off after a crash.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.tools.datahost.failing import Failing
from noetl.tools.datahost.host import Running
from noetl.tools.transfer.mapping import rendered
from noetl.tools.transfer.targets.formats import FORMATS, Format
from noetl.tools.transfer.targets.notes import Notes
from noetl.tools.transfer.targets.target import Given, Surroundings, Target

#: a file of more bytes is not read again to tell its digest
_DIGESTED = 64 * 1024 * 1024


class Files(Target):
    """The files of one target."""

    def __init__(self, given: Mapping[str, Any], around: Surroundings) -> None:
        super().__init__(given, around)
        self._notes = Notes(around.notes)
        self._written: dict[str, Format] = {}
        self._finished = False

    def open(self, running: Running) -> int:  # noqa: ARG002
        if not self._notes.load():
            self._finished = self.around.final
            if self._finished or self._appends():
                self.chunks, self.rows = self.around.recorded, self.around.rows
            return self.chunks
        for path, note in self._notes.files.items():
            self._format(path).cut(note.size, self._notes.chunks)
        self.chunks = self._notes.chunks
        self.rows = sum(note.rows for note in self._notes.files.values())
        return self.chunks

    def _appends(self) -> bool:
        """Whether what an attempt that failed has written is still there, and meant to be."""
        path = self.given["path"]
        name = path if isinstance(path, str) else path.source
        return self.mode == "append" and FORMATS[_format_of(name, self.given.get("format"))].in_place

    def restart(self, running: Running) -> bool:  # noqa: ARG002
        if not self._notes.files and self.chunks:
            return False
        for path, note in self._notes.files.items():
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
            made.columns = note.columns if note is not None else None
        return made

    def _new_format(self, path: str) -> Format:
        kind = _format_of(path, self.given.get("format"))
        return FORMATS[kind](Path(path), self.around.token, append=self.mode == "append")

    def _place(self, named: str) -> str:
        """The file that a name stands for."""
        return named if os.path.isabs(named) else str(Path(self.given["folder"]) / named)  # noqa: PTH117  it is text here

    def _begin(self, path: str) -> int:
        """Before the first chunk of a file: bytes that were there before."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return self._format(path).begin()

    def _publish(self, running: Running) -> None:
        """Make the files visible."""
        for made in self._written.values():
            running.check()
            made.publish()

    def write(self, running: Running, given: Given) -> tuple[dict[str, Any], bytes]:  # noqa: ARG002
        if given.index < self.chunks:
            return {}, b""
        path = self._place(str(rendered(self.given["path"], {**self.around.scopes, "chunk": given.about})))
        made = self._format(path)
        before = self._begin(path) if path not in self._notes.files else 0
        size = made.add(given, self.projection)
        self._notes.add(
            chunk=given.following - 1, path=path, size=size, rows=given.chunk.size, before=before, columns=made.columns
        )
        self.chunks = given.following
        self.rows += given.chunk.size
        return {}, b""

    def finish(self, running: Running) -> dict[str, Any] | None:
        path = self.given["path"]
        if not self._finished:
            if not self._notes.files and isinstance(path, str):
                self._begin(path)
            self._publish(running)
            self._notes.forget()
        paths = list(self._written) or ([path] if isinstance(path, str) else [])
        if not paths or not all(Path(one).is_file() for one in paths):
            return None
        self.bytes = sum(Path(one).stat().st_size for one in paths)
        return _reference(paths, self.rows, self.bytes, self._format(paths[0]).content_type)

    def abort(self, running: Running) -> None:  # noqa: ARG002
        for path in self._notes.files:
            self._format(path).abandon()
        self._notes.forget()


def _format_of(path: str, given: Any) -> str:
    """The format of a file; lines of JSON are told by the name alone."""
    suffixes = [part.lower() for part in Path(path).suffixes]
    if given in (None, "json") and any(suffix in (".ndjson", ".jsonl") for suffix in suffixes):
        return "ndjson"
    found = given or next((suffix[1:] for suffix in reversed(suffixes) if suffix[1:] in FORMATS), None)
    if found not in FORMATS:
        raise Failing("fail", f"the format of `{path}` cannot be told by its name: give `format` (csv, json, parquet)")
    return str(found)


def _reference(paths: list[str], rows: int, size: int, content_type: str) -> dict[str, Any]:
    locator: dict[str, Any] = {"file": paths[0]} if len(paths) == 1 else {"files": paths}
    meta: dict[str, Any] = {"content_type": content_type, "bytes": size, "rows": rows}
    if len(paths) == 1 and (digest := digest_of(Path(paths[0]))) is not None:
        meta["sha256"] = digest
    return {"type": "blob", "locator": locator, "auth_reference": None, "meta": meta}


def digest_of(path: Path) -> str | None:
    """The hash of a file, if it is not too large for that."""
    import hashlib

    if path.stat().st_size > _DIGESTED:
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
