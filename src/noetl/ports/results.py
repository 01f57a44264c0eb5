"""Results: where large payloads are kept, and how they are read. Each docstring is the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.errors import NoetlError
from noetl.model.output import Spilled


class ResultGone(NoetlError):
    """A payload was removed: its time had run out."""


class ResultDamaged(NoetlError):
    """A payload is not what was stored."""


class Results(Protocol):
    """Where large payloads lie. A reference is a map of `type`, `locator`, `auth_reference` and `meta`.

    Whatever cannot be read raises ResultGone (it was removed), ResultDamaged (it is not what was stored) or another
    NoetlError that says why.
    """

    async def read(self, reference: Mapping[str, Any], auth: Mapping[str, Any] | None = None) -> Any:
        """The payload, checked against its `sha256`. `auth` is a credential for what a tool has written elsewhere."""

    async def rows(
        self, reference: Mapping[str, Any], start: int, stop: int, auth: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The rows from `start` up to and without `stop`; fewer where there are no more."""


class Part(msgspec.Struct, frozen=True):
    """Some elements of a list, or one that lies in the store already."""

    items: list[Any] | None = None
    ref: dict[str, Any] | None = None


class ResultStore(Results, Protocol):
    """Results that can be added to."""

    async def read_expired(self, reference: Mapping[str, Any]) -> Any:
        """The same of a payload that may have outlived its time, as long as it is still there."""

    @property
    def kinds(self) -> frozenset[str]:
        """The types of references that it makes: `blob`, `object_store`, `relational`, `nats`."""

    async def keep(
        self,
        execution_id: str,
        value: Any,
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> dict[str, Any]:
        """Store a value, or what a tool spilled, and give its reference; it is durable when this returns.

        `store` is one of `kinds`, or `auto`. StoreFailed: it cannot be stored, now or at all.
        """

    async def keep_list(
        self,
        execution_id: str,
        parts: Sequence[Part],
        *,
        ttl: float | None = None,
        schema: str | None = None,
        store: str = "auto",
    ) -> dict[str, Any]:
        """The same of a list, some of whose elements may be stored already; those are not read."""

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to files that a tool has written elsewhere, made one that `read` and `rows` believe."""

    def draft(self, suffix: str) -> Path:
        """A new file on the same disk, for what is to be spilled."""

    async def load(self, spilled: Spilled) -> Any:
        """What a tool spilled, as a value; its file is gone after that."""

    def read_batches(self, spilled: Spilled) -> Iterator[list[Any]]:
        """The elements of a list that a tool spilled, some at a time; its file stays."""
