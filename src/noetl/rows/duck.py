"""DuckDB, which is an optional part of an installation: the module, names and literals in its SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from noetl.errors import NoetlError

NOT_INSTALLED = "DuckDB is not installed; it comes with the extra `duckdb`: pip install 'noetl[duckdb]'"


class NoDuckDB(NoetlError):
    """The extra is not installed."""


def duckdb() -> Any:
    """The module; NoDuckDB: it is not installed."""
    try:
        import duckdb as module
    except ImportError:
        raise NoDuckDB(NOT_INSTALLED) from None
    return module


def name(text: str) -> str:
    """One name, quoted."""
    return '"' + text.replace('"', '""') + '"'


def names(texts: Iterable[str]) -> str:
    """Names in a list."""
    return ", ".join(name(text) for text in texts)


def make_distinct(text: str, others: Iterable[str]) -> str:
    """A name that none of the others is like; DuckDB does not tell capitals from small letters."""
    taken = {other.lower() for other in others}
    while text.lower() in taken:
        text += "_"
    return text


def literal(value: Any) -> str:
    """A value as a literal: lists of plain values as lists, maps and everything nested as JSON text."""
    value = bindable(value)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"'{value}'::DOUBLE"
    if isinstance(value, list):
        return "[" + ", ".join(literal(one) for one in value) + "]"
    # No literal holds the character that ends texts in C, but one can be put in.
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in str(value).split("\x00"))


def bindable(value: Any) -> Any:
    """A value as it is bound: maps, and lists that hold more than values of one type, as JSON text."""
    if isinstance(value, Mapping):
        return _json(value)
    if isinstance(value, (list, tuple)):
        kinds = {type(one) for one in value} - {type(None)}
        plain = len(kinds) <= 1 or kinds == {int, float}
        return list(value) if plain and kinds <= {str, int, float, bool} else _json(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**127) < value < 2**127:
        return str(value)
    return value


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
