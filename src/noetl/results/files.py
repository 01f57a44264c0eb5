"""FileResults: payloads as files in a folder, one folder of it an execution.

A payload is written beside its place and then put there under the hash of its bytes, so that what lies there is whole,
and writing it twice changes nothing. When it expires is part of its name: removing what is over needs no index.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.expr.refs import Ref
from noetl.model.output import JSON, Spilled
from noetl.ports import Part, ResultGone, StoreFailed
from noetl.results import codec

#: the parts of a list that was stored piece by piece
MANIFEST = "application/vnd.noetl.parts+json"
#: so many elements of a list make a part
_PART = 5_000
#: what a process that died has left among the drafts is removed after so many seconds
_FORGOTTEN = 24 * 3600.0


class _Listed(msgspec.Struct, frozen=True):
    """A part of a list, as its manifest has it."""

    ref: dict[str, Any]
    #: how many elements are in it; None: it is one
    count: int | None = None

    @property
    def size(self) -> int:
        return 1 if self.count is None else self.count


class FileResults:
    """The result store of one machine."""

    def __init__(self, folder: Path, *, clock: Callable[[], float], sync: bool = False) -> None:
        self.folder = folder
        self.clock = clock
        self.sync = sync

    # --- writing -----------------------------------------------------------------------------------------------------

    def draft(self, suffix: str) -> Path:
        """A new file that nobody else knows."""
        drafts = self.folder / "drafts"
        drafts.mkdir(parents=True, exist_ok=True, mode=0o700)
        return drafts / f"{os.getpid()}-{secrets.token_hex(8)}{suffix}"

    async def load(self, spilled: Spilled) -> Any:
        """What a tool spilled, as a value."""
        return await asyncio.to_thread(codec.load, spilled)

    async def keep(self, execution_id: str, value: Any, *, ttl: float | None = None, schema: str | None = None) -> Ref:
        """Store a value, or what a tool spilled; what it returns is durable as the log is."""
        return await asyncio.to_thread(self._keep, execution_id, value, ttl, schema)

    async def keep_list(self, execution_id: str, parts: Sequence[Part], *, ttl: float | None = None) -> Ref:
        """Store a list whose parts may lie in the store already; nothing of those is read."""
        return await asyncio.to_thread(self._keep_list, execution_id, parts, ttl)

    def _keep_list(self, execution_id: str, parts: Sequence[Part], ttl: float | None) -> Ref:
        listed: list[_Listed] = []
        for part in parts:
            if part.ref is not None:
                listed.append(_Listed(part.ref))
            for start in range(0, len(part.items or ()), _PART):
                some = (part.items or [])[start : start + _PART]
                listed.append(_Listed(self._keep(execution_id, some, ttl, None), len(some)))
        rows = sum(part.size for part in listed)
        return self._keep(execution_id, msgspec.to_builtins(listed), ttl, None, MANIFEST, rows)

    def _keep(
        self,
        execution_id: str,
        value: Any,
        ttl: float | None,
        schema: str | None,
        content_type: str | None = None,
        rows: int | None = None,
    ) -> Ref:
        draft = self.draft(".part")
        try:
            if isinstance(value, Spilled):
                written = codec.adopt(value, draft, sync=self.sync)
            else:
                written = codec.write(value, draft, sync=self.sync, rows=content_type is None)
            expires = "" if ttl is None else f".x{int(self.clock() + ttl)}"
            name = f"{written.sha256[:32]}{expires}{codec.SUFFIXES[written.content_type]}"
            place = self.folder / execution_id / name
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.replace(place)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreFailed(f"the result store in {self.folder} cannot be written: {error.strerror}") from error
        meta = {
            "content_type": content_type or written.content_type,
            "bytes": written.bytes,
            "sha256": written.sha256,
            "ttl": ttl,
            "rows": written.rows if content_type is None else rows,
            "schema": schema,
        }
        locator = {"path": f"{execution_id}/{name}"}
        return Ref(type="blob", locator=locator, auth_reference=None, meta=meta)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, reference: Mapping[str, Any]) -> Any:
        """The payload, checked."""
        return await asyncio.to_thread(self._read, reference)

    async def rows(self, reference: Mapping[str, Any], start: int, stop: int) -> list[Any]:
        """Some of its rows."""
        return await asyncio.to_thread(self._rows, reference, start, stop)

    def open(self, reference: Mapping[str, Any]) -> Iterator[bytes]:
        """The payload as bytes, block by block, as it was before it was compressed; checked before."""
        path = self._path(reference)
        codec.check(path, reference["meta"]["sha256"])
        return codec.blocks(path)

    def _read(self, reference: Mapping[str, Any]) -> Any:
        path = self._path(reference)
        meta = reference["meta"]
        codec.check(path, meta["sha256"])
        if meta["content_type"] == MANIFEST:
            return [one for part in self._parts(path) for one in self._items(part)]
        return codec.read(path, meta["content_type"])

    def _rows(self, reference: Mapping[str, Any], start: int, stop: int) -> list[Any]:
        path = self._path(reference)
        if reference["meta"]["content_type"] != MANIFEST:
            return codec.read_rows(path, reference["meta"]["content_type"], start, stop)
        found: list[Any] = []
        at = 0
        for part in self._parts(path):
            if at < stop and at + part.size > start:
                found += self._items(part)[max(0, start - at) : stop - at]
            at += part.size
        return found

    def _parts(self, path: Path) -> list[_Listed]:
        return msgspec.convert(codec.read(path, JSON), list[_Listed])

    def _items(self, part: _Listed) -> list[Any]:
        found = self._read(part.ref)
        return [found] if part.count is None else found

    def _path(self, reference: Mapping[str, Any]) -> Path:
        """Where a payload lies. References come from playbooks too: none leads out of the store."""
        said = reference.get("locator", {}).get("path")
        if not isinstance(said, str):
            raise UsageError("the reference does not say where in this result store the payload is (`locator.path`)")
        path = (self.folder / said).resolve()
        if self.folder.resolve() not in path.parents:
            raise UsageError(f"the reference leads out of the result store: {said}")
        if not path.is_file():
            raise ResultGone(f"the payload {said} is no longer there: its time had run out, or it was removed")
        return path

    # --- removing ----------------------------------------------------------------------------------------------------

    def expired(self) -> Iterator[Path]:
        """The files whose time has run out, and drafts that nobody will finish."""
        now = self.clock()
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                if path.parent.name == "drafts":
                    if path.stat().st_mtime < now - _FORGOTTEN:
                        yield path
                elif (at := _expiry(path)) is not None and at <= now:
                    yield path


def _expiry(path: Path) -> float | None:
    for part in path.name.split("."):
        if part.startswith("x") and part[1:].isdigit():
            return float(part[1:])
    return None
