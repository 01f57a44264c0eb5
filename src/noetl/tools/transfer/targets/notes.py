"""What was written to files, noted line by line as it happens, so that a later attempt can take it up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class ChunkNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chunk went into a file: how long that is since, and how long it was before the transfer."""

    chunk: int
    path: str
    size: int
    rows: int
    before: int = 0
    #: how long it may be if a chunk was being written, and whether others have written to it meanwhile
    until: int = 0
    shared: bool = False
    columns: list[str] | None = None
    #: by column the type that its text is of, where it is known of all of the file
    types: dict[str, str] | None = None


def place_of(draft: Path, execution_id: str, token: str, target: int) -> str:
    """Where the notes of a target lie: in the folder that the execution has beside the drafts.

    Drafts are removed when whoever made them is gone; notes are for whoever goes on then.
    """
    return str(draft.parent.with_name(execution_id) / f"{token}-{target}.notes")


class Notes:
    """The notes of one target; of each file the last one counts."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self.files: dict[str, ChunkNote] = {}
        self.chunks = 0

    def load(self) -> bool:
        """Read what an earlier attempt noted; False: there is nothing."""
        if not self._path.exists():
            return False
        for note in self._whole():
            self._take(note)
        return True

    def _whole(self) -> Iterator[ChunkNote]:
        for line in self._path.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # the last one, if it was cut off
                yield msgspec.json.decode(line, type=ChunkNote)

    def _take(self, note: ChunkNote) -> None:
        known = self.files.get(note.path)
        before, rows = (known.before, known.rows) if known else (note.before, 0)
        columns = note.columns or (known.columns if known else None)
        shared = note.shared or (known is not None and known.shared)
        types = note.types if note.rows or known is None else known.types
        self.files[note.path] = msgspec.structs.replace(
            note, before=before, rows=rows + note.rows, columns=columns, shared=shared, types=types
        )
        self.chunks = max(self.chunks, note.chunk + 1)

    def add(self, **note: Any) -> None:
        """Note a chunk."""
        made = ChunkNote(**note)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(made) + b"\n")
        self._take(made)

    def forget(self) -> None:
        """Remove them."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else of the execution is there, or it was never made
            self._path.parent.rmdir()
        self.files, self.chunks = {}, 0
