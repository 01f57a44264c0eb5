"""Payloads compared by content and checked for damage. Equal results of two runs have different references."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from noetl.errors import NoetlError
from noetl.model.output import JSON
from noetl.ports import ResultGone
from noetl.results import codec
from noetl.results.backends.backend import MANIFEST


class PayloadFile(Protocol):
    """A payload as a file."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def content_type(self) -> str:
        """What it is."""


class PayloadFinder(Protocol):
    """Where payloads lie."""

    def find(self, reference: Mapping[str, Any]) -> PayloadFile:
        """The payload of a reference, checked."""


def content_of(store: PayloadFinder, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Rows, bytes and hash of a payload; of a list in parts those of the parts, since its index holds their places."""
    meta = _meta(reference)
    if not _is_manifest(reference):
        return {name: meta.get(name) for name in ("rows", "bytes", "sha256")}
    try:
        parts = [content_of(store, part) for part in parts_of(store, reference)]
    except NoetlError as error:
        stored = meta.get("stored_sha256") or meta.get("sha256")
        return {"rows": meta.get("rows"), "sha256": stored, "unreadable": _describe_damage(error)}
    whole = hashlib.sha256("\n".join(str(part["sha256"]) for part in parts).encode())
    size = sum(part.get("bytes") or 0 for part in parts)
    return {"rows": meta.get("rows"), "bytes": size, "sha256": whole.hexdigest()}


def find_damage(store: PayloadFinder, reference: Mapping[str, Any]) -> Iterator[str]:
    """Why a payload, or a part of it, cannot be read; nothing if all of it is there as it was stored."""
    try:
        store.find(reference)
        parts = parts_of(store, reference) if _is_manifest(reference) else []
    except NoetlError as error:
        yield str(error)
        return
    for part in parts:
        yield from find_damage(store, part)


def parts_of(store: PayloadFinder, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The references to the parts of a list that was stored piece by piece."""
    return [part["ref"] for part in codec.read(store.find(reference).path, JSON)]


def _describe_damage(error: NoetlError) -> str:
    return "it is gone" if isinstance(error, ResultGone) else "it is damaged"


def _is_manifest(reference: Mapping[str, Any]) -> bool:
    return bool(_meta(reference).get("content_type") == MANIFEST)


def _meta(reference: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = reference.get("meta")
    return meta if isinstance(meta, Mapping) else {}
