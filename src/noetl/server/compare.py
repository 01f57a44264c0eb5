"""Two values held against each other, at any depth. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place at which two values differ; `a` or `b` is left out where nothing is there."""

    path: str
    a: Any = msgspec.UNSET
    b: Any = msgspec.UNSET


def changes(path: str, a: Any, b: Any) -> Iterator[Change]:
    """Where two values differ, as deep down as can be said."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _at(_below(path, key), a.get(key, msgspec.UNSET), b.get(key, msgspec.UNSET))
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            left = a[index] if index < len(a) else msgspec.UNSET
            right = b[index] if index < len(b) else msgspec.UNSET
            yield from _at(f"{path}[{index}]", left, right)
    elif not same(a, b):
        yield Change(path, a, b)


def _at(path: str, a: Any, b: Any) -> Iterator[Change]:
    if a is msgspec.UNSET or b is msgspec.UNSET:
        yield Change(path, a, b)
    else:
        yield from changes(path, a, b)


def _below(path: str, key: str) -> str:
    plain = key.isidentifier()
    if not path:
        return key if plain else f'["{key}"]'
    return f"{path}.{key}" if plain else f'{path}["{key}"]'


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same as JSON: 1 is 1.0 but not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)
