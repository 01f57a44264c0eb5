"""Values of playbooks as parameters and literals of PostgreSQL. Pure.

A number is what it would be if it stood in the text: whole ones `integer` or larger, others `numeric`. Text has the type
that its place wants, so it does for dates, numbers and enums too. Maps are `jsonb`. A list is an array where the server
expects one, and JSON elsewhere.
"""

from __future__ import annotations

import math
from binascii import a2b_hex, b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

from noetl.expr import sql_error

if TYPE_CHECKING:
    from psycopg import AsyncConnection


# Values of PostgreSQL as JSON has them, by the rules that hold for all tools: ISO 8601, exact numbers, base64.
#
# They are taken from the server's own text, which knows every value of every type: dates before Christ and `infinity` too.


#: what a server is told when a connection begins, so that its texts are those that are read here
SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}
#: digits that a double always keeps
_SURE = 15
#: and those that it has at most
_MOST = 17
#: characters of a whole number that is read as one
_LONGEST = 4_000
_AS_TEXT = [
    "date",
    "time",
    "interval",
    "uuid",
    "inet",
    "cidr",
    "record",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsmultirange",
    "tstzmultirange",
    "datemultirange",
]


class NotFinite(Exception):
    """A number that JSON has no form for."""


def prepare(connection: AsyncConnection[Any]) -> None:
    """Have a connection read values so."""
    for name in _AS_TEXT:
        connection.adapters.register_loader(name, TextLoader)
    for name, loader in _LOADERS.items():
        connection.adapters.register_loader(name, loader)


class _Timestamp(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode().replace(" ", "T", 1)


class _Zoned(Loader):
    def load(self, data: Buffer) -> str:
        return _to_utc(bytes(data).decode().replace(" ", "T", 1))


class _ZonedTime(Loader):
    def load(self, data: Buffer) -> str:
        return _to_utc(bytes(data).decode(), day="2000-01-01T")


def _to_utc(text: str, day: str = "") -> str:
    """A time with a zone in UTC, which it is already unless the statements have set another zone."""
    if text.endswith("+00"):
        return f"{text}:00"
    try:
        moment = datetime.fromisoformat(day + text).astimezone(UTC)
    except (ValueError, OverflowError):  # before Christ, or `infinity`
        return f"{text}:00" if text[-3:-2] in ("+", "-") else text
    return moment.isoformat()[len(day) :]


class _Numeric(Loader):
    """A number if no digit is lost, else text."""

    def load(self, data: Buffer) -> int | float | str:
        text = bytes(data).decode()
        if "." not in text and len(text) <= _LONGEST and text.lstrip("-").isdigit():
            return int(text)
        return float(text) if len(text) <= _SURE and text[-1:].isdigit() else _exact_number(text)


def _exact_number(text: str) -> int | float | str:
    from decimal import Decimal

    if text[-1:].isdigit() and len(text.replace(".", "").lstrip("-0").rstrip("0")) > _MOST:
        return text
    exact = Decimal(text)
    if not exact.is_finite():
        raise NotFinite(text)
    number = float(exact)
    return number if Decimal(repr(number)) == exact else text


class _Float(Loader):
    def load(self, data: Buffer) -> float:
        number = float(data)
        if number - number != 0:  # infinite, or not a number
            raise NotFinite(bytes(data).decode())
        return number


class _Bytes(Loader):
    def load(self, data: Buffer) -> str:
        return b2a_base64(a2b_hex(bytes(data)[2:]), newline=False).decode()


class _Json(Loader):
    def load(self, data: Buffer) -> Any:
        return msgspec.json.decode(data)


_LOADERS: dict[str, type[Loader]] = {
    "timestamp": _Timestamp,
    "timestamptz": _Zoned,
    "timetz": _ZonedTime,
    "numeric": _Numeric,
    "float4": _Float,
    "float8": _Float,
    "bytea": _Bytes,
    "json": _Json,
    "jsonb": _Json,
}


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
