"""What a target is to a transfer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.drivers.datahost import HostCall
from noetl.tools.transfer.chunks import Chunk
from noetl.tools.transfer.mapping import Projection

# What was written to files, noted line by line as it happens, so that a later attempt can take it up.


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


class TargetContext(msgspec.Struct, frozen=True):
    """What a target needs to know of its transfer."""

    scopes: Mapping[str, Any]
    #: a folder of the transfer alone, which is gone after a crash
    scratch: Path
    #: the same in every attempt at this transfer, another for each of its targets
    token: str
    #: settings of databases
    config: Mapping[str, Any]
    #: chunks and rows it had when that was last recorded, and whether that was all there are
    recorded: int = 0
    rows: int = 0
    final: bool = False
    #: where to note what was written to files; the same in every attempt
    notes: str = ""
    #: chunks are handed over row by row
    stream: bool = False
    #: it is recorded that its rows are visible
    finished: bool = False


class TargetChunk(msgspec.Struct, frozen=True):
    """A chunk, or several in one, as it is handed to targets."""

    index: int
    #: the one behind it
    following: int
    chunk: Chunk
    #: what templates know as `chunk`
    about: Mapping[str, Any]
    #: of the whole transfer, for work that is not bound to a target's own database
    connection: Any = None
    scratch: str = ""


class Target:
    """One target. `open` comes first, then chunks in order with commits between, at the end `finish` or `abort`."""

    def __init__(self, given: Mapping[str, Any], around: TargetContext) -> None:
        self.given, self.context = given, around
        self.mode: str = given["mode"]
        self.projection = Projection(given.get("mapping"), around.scopes, around.scratch)
        #: chunks and rows that it has
        self.chunks = 0
        self.rows = 0
        self.bytes = 0

    @property
    def replaces(self) -> bool:
        """Whether what it gets takes the place of what was there, at the end."""
        return self.mode == "replace"

    @property
    def stage(self) -> str:
        """The table that rows lie in until then; the same in every attempt."""
        return f"noetl_stage_{self.context.token}"

    @property
    def uses_columns(self) -> bool:
        """Whether it is worth something to know the columns of rows of which there are none."""
        return not self.projection.per_row

    def open(self, running: HostCall) -> int:
        """Find out how many chunks it has from an earlier attempt."""
        raise NotImplementedError

    def restart(self, running: HostCall) -> bool:
        """Undo what an earlier attempt did, so that other rows may come; False: that cannot be done."""
        raise NotImplementedError

    def takes(self, chunk: Chunk) -> bool:  # noqa: ARG002
        """Whether it takes such a chunk as it is, with no need for DuckDB."""
        return False

    def prepare(self, chunk: Chunk) -> None:
        """What can be done for a chunk while the one before it is still being taken."""

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:
        """Take a chunk. What is returned goes to the engine."""
        raise NotImplementedError

    def commit(self, running: HostCall) -> None:
        """Make what was taken durable."""

    def finish(self, running: HostCall) -> dict[str, Any] | None:
        """All chunks are in: make them visible. A reference to the whole. It may come again, until `forget`."""
        raise NotImplementedError

    def forget(self) -> None:
        """It is recorded that all is visible: remove what was noted for whoever would have had to go on."""

    def abort(self, running: HostCall) -> bool:  # noqa: ARG002
        """It has failed: remove what must not be seen, keep what was committed; whether anything was removed."""
        return False

    def close(self) -> None:
        """Let go."""
