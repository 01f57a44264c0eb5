"""Shelf: a result store in memory, for houses without a disk."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from noetl.model.output import Spilled
from noetl.ports import Part, ResultGone

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


class Shelf:
    """Keeps payloads as bytes, by their hash. All shelves are one, as all executions of a machine have one store."""

    kinds = frozenset({"blob"})
    payloads: ClassVar[dict[str, bytes]] = {}

    async def keep(
        self,
        execution_id: str,
        value: Any,
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> dict[str, Any]:
        assert store in ("auto", "blob")
        assert not isinstance(value, Spilled)
        body = msgspec.json.encode(value)
        name = hashlib.sha256(body).hexdigest()[:16]
        self.payloads[name] = body
        rows = len(value) if isinstance(value, list) else None
        meta = {"bytes": len(body), "rows": rows, "ttl": ttl, "schema": schema}
        return {"type": "blob", "locator": {"path": name}, "auth_reference": None, "meta": meta}

    async def keep_list(
        self,
        execution_id: str,
        parts: Sequence[Part],
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> dict[str, Any]:
        whole: list[Any] = []
        for part in parts:
            whole += [await self.read(part.ref)] if part.ref is not None else part.items or []
        return await self.keep(execution_id, whole, ttl=ttl, schema=schema, store=store)

    async def read(self, reference: Mapping[str, Any]) -> Any:
        name = reference["locator"]["path"]
        if name not in self.payloads:
            raise ResultGone(f"{name} is gone")
        return msgspec.json.decode(self.payloads[name])

    async def read_expired(self, reference: Mapping[str, Any]) -> Any:
        return await self.read(reference)

    async def rows(self, reference: Mapping[str, Any], start: int, stop: int) -> list[Any]:
        rows: list[Any] = (await self.read(reference))[start:stop]
        return rows

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        return dict(reference)

    def draft(self, suffix: str) -> Path:
        raise NotImplementedError

    def read_batches(self, spilled: Spilled) -> Iterator[list[Any]]:
        raise NotImplementedError

    async def load(self, spilled: Spilled) -> Any:
        raise NotImplementedError
