"""On the way out: what a pipeline knows is real, what is recorded and stored of it has no secrets in it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec.structs import replace

from noetl.drivers.spilled_data import reopen_path
from noetl.model.events import Fact
from noetl.model.output import NDJSON, PARQUET, Spilled
from noetl.pipeline import OUTPUT
from noetl.ports import Part, ResultStore
from noetl.redaction import JsonRedactor, Redactor
from noetl.rows.columns import Columns

# Drafts: files that tools are not done with. What may hold a secret has no name, or goes with the process that made it.


_LOCK = ".lock"


def open_unnamed_file(folder: Path) -> IO[bytes]:
    """A new file that no other process can open by a name; it is gone when it is closed, or its process killed."""
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), "w+b")
    except (AttributeError, OSError):  # not on this system, or not on this disk
        return tempfile.TemporaryFile(dir=folder)


def give_name(file: IO[bytes], path: Path) -> None:
    """Make an unnamed file one that others can open."""
    try:
        where = os.open("/proc/self/fd", os.O_RDONLY)
        try:
            os.link(str(file.fileno()), path, src_dir_fd=where, follow_symlinks=True)
        finally:
            os.close(where)
    except OSError:  # what once had a name cannot get another
        file.seek(0)
        with path.open("xb") as named:
            shutil.copyfileobj(file, named, 1 << 20)


class DraftClaim:
    """Says to other processes that the drafts of this one are in use; with the process, the claim ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = folder / f"{os.getpid()}{_LOCK}"
        self._file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def release(self) -> None:
        """Nothing is in use any more."""
        os.close(self._file)
        if not any(self._folder.glob(f"{os.getpid()}-*")):
            self._lock.unlink(missing_ok=True)


def sweep_drafts(folder: Path) -> None:
    """Remove what processes that were killed have left."""
    for lock in folder.glob(f"*{_LOCK}"):
        with contextlib.suppress(OSError), lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob(f"{lock.name.removesuffix(_LOCK)}-*"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


# What tools have left in files, without secrets: looked through in blocks, and written anew only if there are any.


_CHUNK = 1 << 20
#: rows, some at a time
Runs = Callable[[Spilled], Iterator[list[Any]]]


def rewrite_spill(spilled: Spilled, target: Path, redactor: Redactor, runs: Runs) -> Spilled | None:
    """The same in another file without its secrets; None: there are none in it, and nothing was written."""
    if spilled.content_type == PARQUET:  # what is compressed cannot be searched as it is
        if not any(redactor.clean(run)[1] for run in runs(spilled)):
            return None
        return _rows(runs(spilled), target, redactor)
    source = Path(spilled.path)
    if not holds_secret(blocks(source), redactor):
        return None
    cleaner = JsonRedactor(redactor)
    _write(target, cleaner.through(blocks(source)))
    columns = spilled.columns
    if columns is not None:
        columns = {cleaner.memory.key(name): _type(kind, cleaner) for name, kind in columns.items()}
    return replace(spilled, path=str(target), columns=columns, redacted=True, compact=False)


def holds_secret(some: Iterable[bytes], redactor: Redactor) -> bool:
    """Whether blocks of JSON may hold a secret, also across their borders."""
    held = b""
    for block in some:
        held += block
        if redactor.is_in_foreign_json(held.decode("utf-8", "replace")):
            return True
        held = held[-redactor.reach :]
    return False


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK), b"")


def _rows(runs: Iterable[list[Any]], target: Path, redactor: Redactor) -> Spilled:
    columns, count = Columns(), 0
    encode = msgspec.json.Encoder().encode_lines

    def lines() -> Iterator[bytes]:
        nonlocal count
        for run in runs:
            clean = redactor.clean(run)[0]
            columns.add(clean)
            count += len(clean)
            yield encode(clean)

    _write(target, lines())
    return Spilled(str(target), NDJSON, count, columns.types(), redacted=True)


def _type(kind: str, cleaner: JsonRedactor) -> str:
    """The type of a column; a number that was a secret is a text now."""
    return "JSON" if cleaner.found_numbers and kind in ("BIGINT", "DOUBLE") else kind


def _write(target: Path, data: Iterable[bytes]) -> None:
    try:
        with target.open("xb") as file:
            file.writelines(data)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


#: in the `meta` of a reference: secrets were taken out of what it leads to
_MARK: Final = "redacted"
#: parts of payloads that hold nothing but the engine's own words and numbers
_OURS = frozenset(
    {"do", "to", "rule", "delay", "until", "limit", "stop", "kind", "status", "retryable", "task", "execution_id", "mode",
     "part", "ends"}
)  # fmt: skip
_MADE_HERE = frozenset({"ref", "meta", "kept", "external"})
#: parts whose keys are the engine's, or are known from the playbook; below them everything is data
_FRAMES = frozenset({"output", "error", "http", "py", "pg", "set", "wait", "child", "cause"})
_SUFFIX: Final = ".clean"
_NOTHING: Final = Redactor()


def redact_facts(facts: list[Fact], redactor: Redactor) -> list[Fact]:
    """Facts without secrets. Nearly always there are none: then one look at all of them is enough."""
    if not redactor:
        return facts
    looked_at = redactor.may_hold([fact.payload for fact in facts])
    return [redact_fact(fact, redactor if looked_at else _NOTHING) for fact in facts]


def redact_fact(fact: Fact, redactor: Redactor) -> Fact:
    """A fact without secrets; the end of a task says what of it was redacted, here or in the result store."""
    payload, found = _frame(fact.payload, redactor) if redactor else (fact.payload, False)
    places = _places(fact.payload, payload) if fact.name == "task.done" else []
    if places:
        return replace(fact, payload={**payload, "redacted": places})
    return replace(fact, payload=payload) if found else fact


def _places(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`output`, and the targets of `set`."""
    patch, kept, output = before.get("set", {}), before.get("kept", {}), before["output"]
    places = [target for target, value in patch.items() if _has_mark(kept.get(target)) or after["set"][target] != value]
    whole = output == after["output"] and not _has_mark(output["ref"])
    return places if whole else [OUTPUT, *places]


def _has_mark(ref: Mapping[str, Any] | None) -> bool:
    return ref is not None and bool(ref["meta"].get(_MARK))


def _frame(part: Mapping[str, Any], redactor: Redactor) -> tuple[dict[str, Any], bool]:
    """A map whose keys stay as they are."""
    made: dict[str, Any] = {}
    found = False
    for key, value in part.items():
        if key in _FRAMES and isinstance(value, Mapping):
            made[key], changed = _frame(value, redactor)
        elif key in _MADE_HERE or (key in _OURS and not isinstance(value, (Mapping, list))):
            made[key], changed = value, False
        else:  # what says how far a task is counts, and does not quote
            made[key], changed = redactor.clean(value, numbers=key != "progress")
        found = found or changed
    return made, found


Credential = Callable[[str], Awaitable[Mapping[str, Any]]]


class CleanResults:
    """The result store as the tasks of an execution see it: nothing secret gets there."""

    def __init__(self, store: ResultStore, redactor: Redactor, credential: Credential | None = None) -> None:
        self._store = store
        self._redactor = redactor
        #: gives a credential of the execution by its name
        self._credential = credential
        self.kinds = store.kinds
        self.draft = store.draft
        self.seal = store.seal
        self.load = store.load
        self.read_expired = store.read_expired
        self.read_batches = store.read_batches

    async def read(self, reference: Mapping[str, Any], auth: Mapping[str, Any] | None = None) -> Any:
        """The payload, with the execution's own credential if its reference names one."""
        return await self._store.read(reference, auth or await self._auth(reference))

    async def rows(
        self, reference: Mapping[str, Any], start: int, stop: int, auth: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Some of its rows, in the same way."""
        return await self._store.rows(reference, start, stop, auth or await self._auth(reference))

    async def _auth(self, reference: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The store opens its own payloads; what a tool has written elsewhere is opened as the tool did it."""
        entry, locator = reference.get("auth_reference"), reference.get("locator")
        if self._credential is None or not isinstance(locator, Mapping) or "seal" not in locator:
            return None
        return await self._credential(entry.removeprefix("keychain/")) if isinstance(entry, str) else None

    async def keep(self, execution_id: str, value: Any, **how: Any) -> dict[str, Any]:
        """Store a value without its secrets; its reference says if there were any."""
        if isinstance(value, Spilled):
            value = await asyncio.to_thread(self._redact_spill, value)
            found = bool(value.redacted)
        else:
            value, found = self._redactor.clean(value)
        ref = await self._store.keep(execution_id, value, **how)
        if found:
            ref["meta"][_MARK] = True
        return ref

    async def keep_list(self, execution_id: str, parts: Sequence[Part], **how: Any) -> dict[str, Any]:
        """The same of a list."""
        if self._redactor:
            parts = [replace(part, items=self._redactor.clean(part.items)[0]) for part in parts]
        return await self._store.keep_list(execution_id, parts, **how)

    async def adopt(self, file: IO[bytes], about: Spilled) -> Spilled:
        """A file that had no name as one that has: with nothing secret in it."""
        return await asyncio.to_thread(self._adopt_file, file, about)

    def _adopt_file(self, file: IO[bytes], about: Spilled) -> Spilled:
        with file:
            file.flush()
            unnamed = replace(about, path=str(reopen_path(file)))
            clean = (
                rewrite_spill(unnamed, self.draft(_SUFFIX), self._redactor, self.read_batches)
                if self._redactor
                else None
            )
            if clean is not None:
                return clean
            path = self.draft(_SUFFIX)
            give_name(file, path)
            return replace(about, path=str(path), redacted=False)

    def _redact_spill(self, spilled: Spilled) -> Spilled:
        """What a tool has left under a name, which is looked into if nobody has done so yet."""
        if not self._redactor or spilled.redacted is not None:
            return spilled
        source = Path(spilled.path)
        try:
            clean = rewrite_spill(spilled, self.draft(_SUFFIX), self._redactor, self.read_batches)
        except BaseException:
            source.unlink(missing_ok=True)
            raise
        if clean is not None:
            source.unlink()
        return clean or spilled
