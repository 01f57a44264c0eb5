"""What a target is to a transfer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.drivers.datahost import HostCall
from noetl.tools.transfer.chunks import Chunk
from noetl.tools.transfer.mapping import Projection


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
