"""PayloadStore: what is too large for the log, written down once and given back whole or by range.

A payload becomes a file, by the same rules wherever it is to lie; a backend keeps it, and brings it back as a file. Of
several shelves the first is the one that is taken when nobody asks for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from noetl.config import Secret
from noetl.errors import UsageError
from noetl.expr import Ref, is_larger
from noetl.model.output import JSON, Spilled
from noetl.ports import Part, ResultDamaged, ResultGone, StoreFailed
from noetl.results import codec, external_rows
from noetl.results.backends.backend import DRAFTS, MANIFEST, PayloadBackend, PayloadPlace, parse_place
from noetl.results.backends.folder import make_folder
from noetl.results.external_rows import ReferenceSealer, is_external
from noetl.results.garbage import Removable, is_alive, removable_file, removable_payload

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
Auth = Mapping[str, Any] | None
#: brings what a reference to objects leads to, with a credential, as files of this machine
Fetch = Callable[[Mapping[str, Any], Auth], list[Path]]


class _ListPart(msgspec.Struct, frozen=True):
    """A part of a list, as its manifest has it."""

    ref: dict[str, Any]
    #: how many elements are in it; None: it is one
    count: int | None = None

    @property
    def size(self) -> int:
        return 1 if self.count is None else self.count


def _joined_bytes(parts: Sequence[_ListPart]) -> int | None:
    """The size of a list as compact JSON, from those of its parts; None: one was stored before these were counted."""
    size = 2 + max(0, len(parts) - 1)
    for part in parts:
        meta = part.ref["meta"]
        if "stored_bytes" not in meta or meta.get("bytes") is None:
            return None
        size += meta["bytes"] - (0 if part.count is None else 2)
    return size


def stored_sha256(reference: Mapping[str, Any]) -> str | None:
    """The hash of the file that a reference leads to; references of earlier versions have no other."""
    meta = reference.get("meta")
    if not isinstance(meta, Mapping):
        return None
    found = meta.get("stored_sha256") if "stored_sha256" in meta else meta.get("sha256")
    return found if isinstance(found, str) else None


class StoredPayload(msgspec.Struct, frozen=True):
    """A payload that is there."""

    path: Path
    content_type: str
    #: the hash that its bytes have, or how that begins
    sha256: str


class PayloadStore:
    """The result store of one process. `folder` is of this machine; `also` are backends that are only read from."""

    def __init__(
        self,
        backends: Sequence[PayloadBackend],
        folder: Path,
        *,
        clock: Callable[[], float],
        sync: bool = False,
        also: Sequence[PayloadBackend] = (),
        fetch: Fetch | None = None,
        sealing: Sequence[Secret] = (),
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.sync = sync
        self._backends = {backend.kind: backend for backend in reversed(backends)}
        self._usual = backends[0].kind
        self._readable = [*backends, *also]
        self._fetch = fetch
        #: several threads read at once
        self._lock = Lock()
        self._sealer = ReferenceSealer(folder, sealing)
        #: files whose hash was seen to be right, as they were then
        self._checked: dict[Path, tuple[int, int, str]] = {}
        #: where readers are that take a list from one end to the other
        self._cursors: dict[tuple[str, int], tuple[list[Any], Elements]] = {}

    @property
    def kinds(self) -> frozenset[str]:
        """The types of references that it makes."""
        return frozenset(self._backends)

    # --- writing -----------------------------------------------------------------------------------------------------

    def draft(self, suffix: str) -> Path:
        """A new file that nobody else knows."""
        make_folder(self.drafts)
        return self.drafts / f"{os.getpid()}-{secrets.token_hex(8)}{suffix}"

    @property
    def drafts(self) -> Path:
        """Where they are."""
        return self.folder / DRAFTS

    async def load(self, spilled: Spilled) -> Any:
        """What a tool spilled, as a value."""
        return await asyncio.to_thread(codec.load, spilled)

    def read_batches(self, spilled: Spilled) -> Iterator[list[Any]]:
        """The elements of a list that a tool spilled, some at a time."""
        return codec.read_batches(Path(spilled.path), spilled.content_type)

    async def keep(
        self,
        execution_id: str,
        value: Any,
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> Ref:
        """Store a value, or what a tool spilled; what it returns is durable as the log is."""
        return await asyncio.to_thread(self._keep, execution_id, value, ttl, schema, store)

    async def keep_list(
        self,
        execution_id: str,
        parts: Sequence[Part],
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> Ref:
        """Store a list whose parts may lie in the store already; nothing of those is read."""
        return await asyncio.to_thread(self._keep_list, execution_id, parts, ttl, schema, store)

    def _keep_list(
        self, execution_id: str, parts: Sequence[Part], ttl: float | None, schema: str | None, store: str
    ) -> Ref:
        listed: list[_ListPart] = []
        for part in parts:
            if part.ref is not None:
                listed.append(_ListPart(part.ref))
            for start in range(0, len(part.items or ()), _PART):
                some = (part.items or [])[start : start + _PART]
                listed.append(_ListPart(self._keep(execution_id, some, ttl, None, store), len(some)))
        return self._keep(execution_id, msgspec.to_builtins(listed), ttl, schema, store, listed=listed)

    def _keep(
        self,
        execution_id: str,
        value: Any,
        ttl: float | None,
        schema: str | None,
        store: str,
        *,
        listed: list[_ListPart] | None = None,
    ) -> Ref:
        """Store a value; `listed`: it is the manifest of a list in these parts."""
        backend = self._backends.get(store, self._backends[self._usual])
        draft = self.draft(".part")
        try:
            written = self._write(value, draft, rows=listed is None)
            content_type = written.content_type if listed is None else MANIFEST
            expires = None if ttl is None else int((self.clock() + ttl) * 1000)
            place = PayloadPlace(execution_id, written.stored_sha256[:32], content_type, expires)
            backend.put(draft, place)
        finally:
            draft.unlink(missing_ok=True)
        meta = {
            "content_type": content_type,
            "bytes": written.bytes if listed is None else _joined_bytes(listed),
            # The hash of a list in parts is known to those alone who read all of them.
            "sha256": written.sha256 if listed is None else None,
            "ttl": ttl,
            "rows": written.rows if listed is None else sum(part.size for part in listed),
            "schema": schema,
            "stored_bytes": written.stored_bytes,
            "stored_sha256": written.stored_sha256,
        }
        return Ref(type=backend.kind, locator=backend.locator(place), auth_reference=backend.auth_reference, meta=meta)

    def _write(self, value: Any, draft: Path, *, rows: bool) -> codec.PayloadInfo:
        try:
            if isinstance(value, Spilled):
                return codec.adopt(value, draft, sync=self.sync)
            return codec.write(value, draft, sync=self.sync, rows=rows)
        except OSError as error:
            raise StoreFailed(f"the result store in {self.folder} cannot be written: {error.strerror}") from error

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, reference: Mapping[str, Any], auth: Auth = None) -> Any:
        """The payload, checked."""
        return await asyncio.to_thread(self._read, reference, auth)

    async def read_expired(self, reference: Mapping[str, Any]) -> Any:
        """The payload, checked, though its time may have run out: nobody has removed it yet."""
        return await asyncio.to_thread(self._read, reference, None, expired=True)

    async def read_small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        """The payload if it has no more than so many bytes as compact JSON; of a larger one little is read."""
        return await asyncio.to_thread(self.small, reference, most)

    async def rows(self, reference: Mapping[str, Any], start: int, stop: int, auth: Auth = None) -> list[Any]:
        """Some of its rows."""
        return await asyncio.to_thread(self._rows, reference, start, stop, auth)

    def elements(
        self, reference: Mapping[str, Any], start: int = 0, auth: Auth = None, *, expired: bool = False
    ) -> Elements:
        """The elements of a list from one on, some at a time; checked before."""
        if is_external(reference):
            self._sealer.check(reference)
            yield from external_rows.read_batches(reference, start, self._fetch_objects(reference, auth))
            return
        found = self.find(reference, expired=expired)
        if found.content_type != MANIFEST:
            yield from codec.read_batches(found.path, found.content_type, start)
            return
        for part in self._parts(found):
            if start >= part.size:
                pass
            elif part.count is None:
                yield [self._read(part.ref, expired=expired)]
            else:
                yield from self.elements(part.ref, start, expired=expired)
            start = max(0, start - part.size)

    def _fetch_objects(self, reference: Mapping[str, Any], auth: Auth) -> list[Path] | None:
        """The files of objects that somebody wrote elsewhere; None: they are files already."""
        if reference["type"] != "object_store":
            return None
        assert self._fetch is not None
        return self._fetch(reference, auth)

    def is_list(self, found: StoredPayload) -> bool:
        """Whether a payload is a list."""
        if found.content_type != JSON:
            return True
        with contextlib.closing(codec.blocks(found.path)) as blocks:
            return next(blocks, b"").lstrip().startswith(b"[")

    def small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        """The same, for whoever is in a thread already."""
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

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that a tool has written, which can be read from now on."""
        return self._sealer.seal(reference)

    def _read(self, reference: Mapping[str, Any], auth: Auth = None, *, expired: bool = False) -> Any:
        found = None if is_external(reference) else self.find(reference, expired=expired)
        if found is None or found.content_type == MANIFEST:
            return [one for run in self.elements(reference, 0, auth, expired=expired) for one in run]
        return codec.read(found.path, found.content_type)

    def _rows(self, reference: Mapping[str, Any], start: int, stop: int, auth: Auth = None) -> list[Any]:
        """Some elements, by whoever stands there already: a loop reads a list from its beginning to its end."""
        path = str(reference["locator"] if is_external(reference) else self._place(reference)[1])
        stop = max(start, stop)
        rows: list[Any]
        with self._lock:
            rows, more = self._cursors.pop((path, start), ([], self.elements(reference, start, auth)))
        while len(rows) < stop - start and (run := next(more, None)) is not None:
            rows = rows + run
        if rows[stop - start :]:
            with self._lock:
                while len(self._cursors) >= _MOST_CURSORS:
                    self._cursors.pop(next(iter(self._cursors)))[1].close()
                self._cursors[path, stop] = rows[stop - start :], more
        return rows[: stop - start]

    def _parts(self, found: StoredPayload) -> list[_ListPart]:
        return msgspec.convert(codec.read(found.path, JSON), list[_ListPart])

    def find(self, reference: Mapping[str, Any], *, expired: bool = False) -> StoredPayload:
        """Where a payload lies, and of what kind it is; its bytes are those that were stored."""
        backend, place = self._place(reference)
        if place.is_over(self.clock()) and not expired:
            raise ResultGone(
                f"the payload {place} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
            )
        path = backend.local(place)
        sha256 = stored_sha256(reference) or place.hash
        self._check(path, place.hash, sha256)
        return StoredPayload(path, place.content_type, sha256)

    def _place(self, reference: Mapping[str, Any]) -> tuple[PayloadBackend, PayloadPlace]:
        """Where a payload would lie."""
        kind = reference.get("type")
        backends = [backend for backend in self._readable if backend.kind == kind]
        for backend in backends:
            if (place := backend.place(reference)) is not None:
                return backend, place
        here = " and ".join(f"`{one}`" for one in sorted({backend.kind for backend in self._readable}))
        if not backends:
            said = f"a reference of type `{kind}` leads to a store that is not here; this one has {here}"
            raise UsageError(f"{said}: set NOETL_RESULTS as it was where the payload was stored")
        where = str(reference.get("locator"))[:200]
        raise UsageError(f"the reference leads to another store of type `{kind}` than NOETL_RESULTS names: {where}")

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
        """Let go of the files that are being read, and of connections."""
        while self._cursors:
            self._cursors.popitem()[1][1].close()
        for backend in self._readable:
            backend.close()

    # --- removing ----------------------------------------------------------------------------------------------------

    def find_expired(self) -> Iterator[Removable]:
        """What has outlived its time, and drafts that nobody will finish."""
        now = self.clock()
        for draft in sorted(self.drafts.glob("*")):
            with contextlib.suppress(FileNotFoundError):
                if draft.stat().st_mtime < now - _FORGOTTEN and not is_alive(draft):
                    yield removable_file(draft, self.folder)
        for backend in self._readable:
            for one in backend.list_entries():
                if one.place.is_over(now):
                    yield removable_payload(backend, one)
            for half in backend.list_partial(now - _FORGOTTEN):
                yield Removable("", half.display_name, half.bytes, half.remove)

    def find_aged(self) -> dict[str, list[Removable]]:
        """What has lain there for a day, by execution: payloads, and what transfers noted on this machine."""
        found: dict[str, list[Removable]] = {}
        before = self.clock() - _FORGOTTEN
        for backend in self._readable:
            for one in backend.list_entries():
                if one.since < before:
                    found.setdefault(one.place.owner, []).append(removable_payload(backend, one))
        for path in sorted(self.folder.glob("*/*")):
            owner = path.parent.name
            with contextlib.suppress(FileNotFoundError):
                if owner != DRAFTS and parse_place(f"{owner}/{path.name}") is None and path.stat().st_mtime < before:
                    found.setdefault(owner, []).append(removable_file(path, self.folder))
        return found

    def parts_of(self, path: str) -> list[bytes]:
        """The references to the parts of a list that was stored piece by piece, as text; of anything else none."""
        place = parse_place(path)
        if place is None or place.content_type != MANIFEST:
            return []
        for backend in self._readable:
            with contextlib.suppress(ResultGone):
                found = StoredPayload(backend.local(place), MANIFEST, place.hash)
                self._check(found.path, place.hash, place.hash)  # of a damaged one it cannot be told what it leads to
                return [msgspec.json.encode(part.ref) for part in self._parts(found)]
        raise ResultGone(f"the payload {path} is no longer there")
