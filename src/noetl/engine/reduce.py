"""Reducers: what the iterations of a parallel loop wrote, in index order, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.model.scope import merged


def reduced(how: str, values: list[Any]) -> Any:
    """The one value; a TypeError says that these values cannot be reduced so."""
    return REDUCERS[how](values)


def _union(values: list[Any]) -> list[Any]:
    found: dict[bytes, Any] = {}
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            # As JSON, true is not 1, and long lists are looked up rather than gone through.
            found.setdefault(msgspec.json.encode(item, order="deterministic"), item)
    return list(found.values())


def _merge(values: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for value in values:
        if not isinstance(value, Mapping):
            raise TypeError(f"{type(value).__name__} is not a map")
        made = merged(made, value)
    return made


REDUCERS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": len,
    "append": list,
    "union": _union,
    "merge": _merge,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
