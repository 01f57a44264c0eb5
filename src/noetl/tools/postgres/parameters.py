"""Values of playbooks as parameters and literals of PostgreSQL. Pure.

A number is what it would be if it stood in the text: whole ones `integer` or larger, others `numeric`. Text has the type
that its place wants, so it does for dates, numbers and enums too. Maps are `jsonb`. A list is an array where the server
expects one, and JSON elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from noetl.expr import sql_error

#: the server finds out which type it is
ANY = 0
BOOL, INT8, INT4, TEXT, JSON, FLOAT8, NUMERIC, JSONB = 16, 20, 23, 25, 114, 701, 1700, 3802
BOOLS, INT4S, TEXTS, INT8S, NUMERICS = 1000, 1007, 1009, 1016, 1231
#: arrays whose elements are JSON: a list in such a list is an element, and not one more dimension
OF_JSON = frozenset({199, 3807})
_NUL = "a value has a NUL character in it, which PostgreSQL's texts cannot hold"

#: an object identifier of a type, and the value as text
Parameter = tuple[int, bytes | None]


def parameter(value: Any, *, typed: bool = False) -> Parameter:
    """A value to be bound; `typed`: with a type of its own, where the server cannot tell which one is meant."""
    if value is None:
        return TEXT if typed else ANY, None
    if isinstance(value, bool):
        return BOOL, b"true" if value else b"false"
    if isinstance(value, int):
        return _whole(value), str(value).encode()
    if isinstance(value, float):
        return (NUMERIC if math.isfinite(value) else FLOAT8), repr(value).encode()
    if isinstance(value, Mapping):
        return JSONB, _json(value)
    if isinstance(value, (list, tuple)):
        kind = array_type(value)
        return kind, _json(value) if kind == JSONB else encode_text(array(value))
    return TEXT if typed else ANY, encode_text(str(value))


def list_parameter(value: list[Any], kind: int, *, is_array: bool) -> Parameter:
    """A list for a place of a type."""
    return kind, encode_text(array(value, json=kind in OF_JSON)) if is_array else _json(value)


def array_type(values: Sequence[Any]) -> int:
    """The type that a list has by itself: an array of plain values of one sort, else `jsonb`."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {str}:
        return TEXTS
    if kinds == {bool}:
        return BOOLS
    if kinds == {int}:
        return _ARRAYS[max((_whole(value) for value in values if value is not None), key=list(_ARRAYS).index)]
    return NUMERICS if kinds <= {int, float} else JSONB


#: from the narrowest to the widest
_ARRAYS = {INT4: INT4S, INT8: INT8S, NUMERIC: NUMERICS}


def _whole(value: int) -> int:
    if -(2**31) <= value < 2**31:
        return INT4
    return INT8 if -(2**63) <= value < 2**63 else NUMERIC


def array(values: Iterable[Any], *, json: bool = False) -> str:
    """A list as the text of an array."""
    return "{" + ",".join(_element(value, json=json) for value in values) + "}"


def _element(value: Any, *, json: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (list, tuple)) and not json:
        return array(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value if isinstance(value, str) and not json else _json(value).decode()
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal(value: Any) -> str:
    """A value as a literal, where nothing can be bound; lists and maps as JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, float):
        return f"'{value}'::float8"
    text = value if isinstance(value, str) else _json(value).decode()
    encode_text(text)
    return "'" + text.replace("'", "''") + "'"


def encode_text(text: str) -> bytes:
    """Text as PostgreSQL takes it."""
    if "\x00" in text:
        raise sql_error(_NUL)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise sql_error("a value is not Unicode text: half of a pair of surrogates stands alone in it") from None


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise sql_error("a value is not Unicode text: half of a pair of surrogates stands alone in it") from None
