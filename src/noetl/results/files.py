"""FileResults: payloads as files in a folder, one folder of it an execution.

A payload is written beside its place and then put there under the hash of its bytes, so that what lies there is whole,
and writing it twice changes nothing. When it expires, and of what kind it is, is part of its name: removing what is over
needs no index, and reading needs no trust in what a reference says of itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.expr.assign import is_larger
from noetl.expr.refs import Ref
from noetl.model.output import JSON, Spilled
from noetl.ports import Part, ResultDamaged, ResultGone, StoreFailed
from noetl.results import codec, elsewhere
from noetl.results.elsewhere import Sealer, is_elsewhere

#: the parts of a list that was stored piece by piece
MANIFEST = "application/vnd.noetl.parts+json"
_DRAFTS = "drafts"
_SUFFIXES = {**codec.SUFFIXES, MANIFEST: ".parts.json.zst"}
_NAME = re.compile(
    rf"(?P<hash>[0-9a-f]{{32}})(\.x(?P<expires>\d+))?(?P<suffix>{'|'.join(map(re.escape, _SUFFIXES.values()))})"
)
#: so many elements of a list make a part
_PART = 5_000
#: what a process that died has left among the drafts is removed after so many seconds
_FORGOTTEN = 24 * 3600.0
#: lists that are being read from their beginning to their end
_MOST_CURSORS = 4
#: files that are known to be whole
_MOST_CHECKED = 1_000
#: JSON that somebody else has written may be so many times as long as it would be without spaces
_LOOSE = 4


Elements = Generator[list[Any], None, None]


class _Listed(msgspec.Struct, frozen=True):
    """A part of a list, as its manifest has it."""

    ref: dict[str, Any]
    #: how many elements are in it; None: it is one
    count: int | None = None

    @property
    def size(self) -> int:
        return 1 if self.count is None else self.count


class Found(msgspec.Struct, frozen=True):
    """A payload that is there."""

    path: Path
    content_type: str
    #: the hash that its bytes have, or how that begins
    sha256: str


class FileResults:
    """The result store of one machine."""

    kinds = frozenset({"blob"})

    def __init__(self, folder: Path, *, clock: Callable[[], float], sync: bool = False) -> None:
        self.folder = folder
        self.clock = clock
        self.sync = sync
        #: several threads read at once
        self._lock = Lock()
        self._sealer = Sealer(folder)
        #: files whose hash was seen to be right, as they were then
        self._checked: dict[Path, tuple[int, int, str]] = {}
        #: where readers are that take a list from one end to the other
        self._cursors: dict[tuple[str, int], tuple[list[Any], Elements]] = {}

    # --- writing -----------------------------------------------------------------------------------------------------

    def draft(self, suffix: str) -> Path:
        """A new file that nobody else knows."""
        drafts = self.folder / _DRAFTS
        _make(drafts)
        return drafts / f"{os.getpid()}-{secrets.token_hex(8)}{suffix}"

    async def load(self, spilled: Spilled) -> Any:
        """What a tool spilled, as a value."""
        return await asyncio.to_thread(codec.load, spilled)

    @property
    def drafts(self) -> Path:
        """Where they are."""
        return self.folder / _DRAFTS

    def runs(self, spilled: Spilled) -> Iterator[list[Any]]:
        """The elements of a list that a tool spilled, some at a time."""
        return codec.runs(Path(spilled.path), spilled.content_type)

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
        return self._keep(execution_id, msgspec.to_builtins(listed), ttl, None, manifest_of=rows)

    def _keep(
        self, execution_id: str, value: Any, ttl: float | None, schema: str | None, *, manifest_of: int | None = None
    ) -> Ref:
        draft = self.draft(".part")
        try:
            if isinstance(value, Spilled):
                written = codec.adopt(value, draft, sync=self.sync)
            else:
                written = codec.write(value, draft, sync=self.sync, rows=manifest_of is None)
            content_type = written.content_type if manifest_of is None else MANIFEST
            expires = "" if ttl is None else f".x{int((self.clock() + ttl) * 1000)}"
            name = f"{written.sha256[:32]}{expires}{_SUFFIXES[content_type]}"
            self._put(draft, self.folder / execution_id / name)
        except OSError as error:
            raise StoreFailed(f"the result store in {self.folder} cannot be written: {error.strerror}") from error
        finally:
            draft.unlink(missing_ok=True)
        meta = {
            "content_type": content_type,
            "bytes": written.bytes,
            "sha256": written.sha256,
            "ttl": ttl,
            "rows": written.rows if manifest_of is None else manifest_of,
            "schema": schema,
        }
        return Ref(type="blob", locator={"path": f"{execution_id}/{name}"}, auth_reference=None, meta=meta)

    def _put(self, draft: Path, place: Path) -> None:
        """Give a payload its name, readable for its user alone."""
        draft.chmod(0o600)
        _make(place.parent)
        try:
            draft.replace(place)
        except FileNotFoundError:  # whoever removes what has expired took the empty folder away
            _make(place.parent)
            draft.replace(place)
        self._sync_folder(place.parent)

    def _sync_folder(self, folder: Path) -> None:
        if not self.sync:
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, reference: Mapping[str, Any]) -> Any:
        """The payload, checked."""
        return await asyncio.to_thread(self._read, reference)

    async def read_small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        """The payload if it has no more than so many bytes as compact JSON; of a larger one little is read."""
        return await asyncio.to_thread(self._read_small, reference, most)

    async def rows(self, reference: Mapping[str, Any], start: int, stop: int) -> list[Any]:
        """Some of its rows."""
        return await asyncio.to_thread(self._rows, reference, start, stop)

    def elements(self, reference: Mapping[str, Any], start: int = 0) -> Elements:
        """The elements of a list from one on, some at a time; checked before."""
        if is_elsewhere(reference):
            self._sealer.check(reference)
            yield from elsewhere.runs(reference, start)
            return
        found = self.find(reference)
        if found.content_type != MANIFEST:
            yield from codec.runs(found.path, found.content_type, start)
            return
        for part in self._parts(found):
            if start < part.size:
                yield from [[self._read(part.ref)]] if part.count is None else self.elements(part.ref, start)
            start = max(0, start - part.size)

    def is_list(self, found: Found) -> bool:
        """Whether a payload is a list."""
        if found.content_type != JSON:
            return True
        with contextlib.closing(codec.blocks(found.path)) as blocks:
            return next(blocks, b"").lstrip().startswith(b"[")

    def _read_small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        found = self.find(reference)
        if not self.is_list(found):
            size = 0
            for block in codec.blocks(found.path):
                size += len(block)
                if size > _LOOSE * most:
                    return None
            value = codec.read(found.path, found.content_type)
            return None if is_larger(value, most) else (value,)
        rows: list[Any] = []
        for run in self.elements(reference):
            rows += run
            if is_larger(rows, most):
                return None
        return (rows,)

    def sealed(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that a tool has written, which can be read from now on."""
        return self._sealer.sealed(reference)

    def _read(self, reference: Mapping[str, Any]) -> Any:
        found = None if is_elsewhere(reference) else self.find(reference)
        if found is None or found.content_type == MANIFEST:
            return [one for run in self.elements(reference) for one in run]
        return codec.read(found.path, found.content_type)

    def _rows(self, reference: Mapping[str, Any], start: int, stop: int) -> list[Any]:
        """Some elements, by whoever stands there already: a loop reads a list from its beginning to its end."""
        path = str(reference["locator"]) if is_elsewhere(reference) else str(self._place(reference))
        stop = max(start, stop)
        rows: list[Any]
        with self._lock:
            rows, more = self._cursors.pop((path, start), ([], self.elements(reference, start)))
        while len(rows) < stop - start and (run := next(more, None)) is not None:
            rows = rows + run
        if rows[stop - start :]:
            with self._lock:
                while len(self._cursors) >= _MOST_CURSORS:
                    self._cursors.pop(next(iter(self._cursors)))[1].close()
                self._cursors[path, stop] = rows[stop - start :], more
        return rows[: stop - start]

    def _parts(self, found: Found) -> list[_Listed]:
        return msgspec.convert(codec.read(found.path, JSON), list[_Listed])

    def find(self, reference: Mapping[str, Any]) -> Found:
        """Where a payload lies, and of what kind it is; its bytes are those that were stored."""
        path = self._place(reference)
        name = _NAME.fullmatch(path.name)
        assert name is not None
        said = reference.get("locator", {}).get("path")
        expires = name["expires"]
        if not path.is_file() or (expires is not None and int(expires) <= self.clock() * 1000):
            raise ResultGone(f"the payload {said} is no longer there: its time had run out, or it was removed")
        meta = reference.get("meta")
        sha256 = str((meta if isinstance(meta, Mapping) else {}).get("sha256") or name["hash"])
        self._check(path, name["hash"], sha256)
        content_type = next(kind for kind, suffix in _SUFFIXES.items() if suffix == name["suffix"])
        return Found(path, content_type, sha256)

    def _place(self, reference: Mapping[str, Any]) -> Path:
        """Where a payload would lie. References come from playbooks too: none leads out of the store."""
        kind, locator = reference.get("type"), reference.get("locator")
        if kind != "blob":
            raise UsageError(f"a reference of type `{kind}` leads to a store that is not here; this one has `blob`")
        said = locator.get("path") if isinstance(locator, Mapping) else None
        if not isinstance(said, str):
            raise UsageError("the reference does not say where in the result store its payload is (`locator.path`)")
        owner, _, name = said.partition("/")
        if not re.fullmatch(r"\w[\w-]*", owner) or owner == _DRAFTS or not _NAME.fullmatch(name):
            raise UsageError(f"the reference does not lead to a payload of this result store: {said[:200]!r}")
        return self.folder / owner / name

    def _check(self, path: Path, begins: str, sha256: str) -> None:
        """See that a file is what was stored: once, as long as it stays as it is."""
        if not sha256.startswith(begins):
            raise ResultDamaged(f"the reference and the payload {path.name} do not belong together: another sha256")
        with contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            *seen, found = self._checked.get(path, (0, 0, ""))
            if seen != [stat.st_mtime_ns, stat.st_size]:
                found = codec.sha256_of(path)
                self._checked[path] = (stat.st_mtime_ns, stat.st_size, found)
            if not found.startswith(sha256):
                raise ResultDamaged(f"the stored payload {path.name} was changed: its sha256 is another one")
            with self._lock:
                while len(self._checked) > _MOST_CHECKED:
                    self._checked.pop(next(iter(self._checked)))

    def close(self) -> None:
        """Let go of the files that are being read."""
        while self._cursors:
            self._cursors.popitem()[1][1].close()

    # --- removing ----------------------------------------------------------------------------------------------------

    def expired(self) -> Iterator[Path]:
        """The files whose time has run out, and drafts that nobody will finish."""
        now = self.clock()
        for path in sorted(self.folder.glob("*/*")):
            with contextlib.suppress(FileNotFoundError):
                if path.parent.name == _DRAFTS:
                    if path.stat().st_mtime < now - _FORGOTTEN and not _is_alive(path):
                        yield path
                elif (name := _NAME.fullmatch(path.name)) and name["expires"] and int(name["expires"]) <= now * 1000:
                    yield path

    def aged(self) -> dict[str, list[Path]]:
        """The files that have lain there for a day, by execution."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.folder.glob("*/*")):
            with contextlib.suppress(FileNotFoundError):
                if path.parent.name != _DRAFTS and path.stat().st_mtime < self.clock() - _FORGOTTEN:
                    found.setdefault(path.parent.name, []).append(path)
        return found

    def parts_of(self, path: str) -> list[bytes]:
        """The references to the parts of a list that was stored piece by piece, as text; of anything else none."""
        if not path.endswith(_SUFFIXES[MANIFEST]):
            return []
        found = self.find({"type": "blob", "locator": {"path": path}})
        return [msgspec.json.encode(part.ref) for part in self._parts(found)]

    def remove(self, path: Path) -> None:
        """Remove something of the store, and the folder of an execution with the last of it."""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        if path.parent.name != _DRAFTS:  # others are about to write there
            with contextlib.suppress(OSError):
                path.parent.rmdir()


def _make(folder: Path) -> None:
    """Make a folder of the store for its user alone, and the store itself as well."""
    if not folder.parent.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def _is_alive(draft: Path) -> bool:
    """Whether the process that a draft is of may still go on with it."""
    pid = draft.name.partition("-")[0]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
