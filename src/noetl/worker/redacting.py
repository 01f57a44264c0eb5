"""On the way out: what a pipeline knows is real, what is recorded and stored of it has no secrets in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from noetl.model.events import Fact
from noetl.model.output import PARQUET, Spilled
from noetl.model.redaction import Redactor
from noetl.pipeline.replay import OUTPUT
from noetl.ports import Keychain, Part, ResultStore

#: in the `meta` of a reference: secrets were taken out of what it leads to
_MARK: Final = "redacted"
#: parts of payloads that hold nothing but the engine's own words and numbers
_OURS = frozenset({"do", "to", "rule", "delay", "until", "stop", "kind", "status", "retryable", "task", "execution_id"})
_MADE_HERE = frozenset({"ref", "meta", "kept", "external"})
#: parts whose keys are the engine's, or are known from the playbook; below them everything is data
_FRAMES = frozenset({"output", "error", "http", "py", "pg", "set", "wait", "child", "cause"})
_CHUNK = 1 << 20


def redacted(fact: Fact, redactor: Redactor) -> Fact:
    """A fact without secrets; the end of a task says what of it was redacted, here or in the result store."""
    payload, found = _frame(fact.payload, redactor)
    places = _places(fact.payload, payload) if fact.name == "task.done" else []
    if places:
        return replace(fact, payload={**payload, "redacted": places})
    return replace(fact, payload=payload) if found else fact


def _places(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`output`, and the targets of `set`."""
    patch, kept, output = before.get("set", {}), before.get("kept", {}), before["output"]
    places = [target for target, value in patch.items() if _marked(kept.get(target)) or after["set"][target] != value]
    whole = output == after["output"] and not _marked(output["ref"])
    return places if whole else [OUTPUT, *places]


def _marked(ref: Mapping[str, Any] | None) -> bool:
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
        else:
            made[key], changed = redactor.clean(value)
        found = found or changed
    return made, found


class CleanResults:
    """The result store as the tasks of an execution see it: nothing secret gets there."""

    def __init__(self, store: ResultStore, keychain: Keychain) -> None:
        self._store = store
        self._keychain = keychain
        self._redactor = keychain.redactor
        self.kinds = store.kinds
        self.draft = store.draft
        self.sealed = store.sealed
        self.load = store.load

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
        if not isinstance(entry, str) or not isinstance(locator, Mapping) or "seal" not in locator:
            return None
        return await self._keychain.credential(entry.removeprefix("keychain/"))

    async def keep(self, execution_id: str, value: Any, **how: Any) -> dict[str, Any]:
        """Store a value without its secrets; its reference says if there were any."""
        found = False
        if self._redactor:
            value, found = await self._clean(value)
        ref = await self._store.keep(execution_id, value, **how)
        if found:
            ref["meta"][_MARK] = True
        return ref

    async def keep_list(self, execution_id: str, parts: Sequence[Part], **how: Any) -> dict[str, Any]:
        """The same of a list."""
        if self._redactor:
            parts = [replace(part, items=self._redactor.clean(part.items)[0]) for part in parts]
        return await self._store.keep_list(execution_id, parts, **how)

    async def _clean(self, value: Any) -> tuple[Any, bool]:
        if not isinstance(value, Spilled):
            return self._redactor.clean(value)
        if value.content_type == PARQUET:  # what is compressed cannot be searched as it is
            return self._redactor.clean(await self._store.load(value))
        return await asyncio.to_thread(self._copied, value)

    def _copied(self, spilled: Spilled) -> tuple[Spilled, bool]:
        """What a tool spilled, block by block into another file; the first one is gone after that."""
        source = Path(spilled.path)
        target = self._store.draft(source.suffix)
        stream = self._redactor.bytes_in_pieces()
        with source.open("rb") as read, target.open("wb") as written:
            while block := read.read(_CHUNK):
                written.write(stream.feed(block))
            written.write(stream.finish())
        source.unlink()
        return replace(spilled, path=str(target)), stream.found
