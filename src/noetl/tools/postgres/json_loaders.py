"""Values of PostgreSQL as JSON has them, by the rules that hold for all tools: ISO 8601, exact numbers, base64.

They are taken from the server's own text, which knows every value of every type: dates before Christ and `infinity` too.
"""

from __future__ import annotations

from binascii import a2b_hex, b2a_base64
from typing import TYPE_CHECKING, Any

import msgspec
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

if TYPE_CHECKING:
    from psycopg import AsyncConnection

#: what a server is told when a connection begins, so that its texts are those that are read here
SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
}
#: digits that a double always keeps
_SURE = 15
#: and those that it has at most
_MOST = 17
_AS_TEXT = [
    "date",
    "time",
    "timetz",
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
        text = bytes(data).decode().replace(" ", "T", 1)
        return f"{text}:00" if text[-3:-2] in ("+", "-") else text


class _Numeric(Loader):
    """A number if no digit is lost, else text."""

    def load(self, data: Buffer) -> int | float | str:
        text = bytes(data).decode()
        if "." not in text and text.lstrip("-").isdigit():
            number = int(text)
            return number if -(2**63) <= number < 2**63 else _exact_number(text)
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
    "numeric": _Numeric,
    "float4": _Float,
    "float8": _Float,
    "bytea": _Bytes,
    "json": _Json,
    "jsonb": _Json,
}
