"""Plain data to YAML text, a key or an item per line: what was never a file, to be read like one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.lang.emit import key_text, scalar_text
from noetl.lang.node import PLAIN


def dump(value: Any) -> str:
    """The text of a value."""
    return "".join(f"{line}\n" for line in _lines(value, 0))


def _lines(value: Any, col: int) -> Iterator[str]:
    """The lines of a value that stands at a column."""
    pad = " " * col
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            head = f"{pad}{key_text(key, key, PLAIN, flow=False)}:"
            if _is_block(item):
                yield head
                yield from _lines(item, col + 2)
            else:
                yield f"{head} {_scalar(item, col)}"
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, col + 2) if _is_block(item) else [f"{pad}  {_scalar(item, col)}"]
            yield f"{pad}- {first[col + 2 :]}"
            yield from rest
    else:
        yield pad + _scalar(value, col)


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _scalar(value: Any, col: int) -> str:
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, list) else scalar_text(value, PLAIN, col=col)
