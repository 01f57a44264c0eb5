"""Values of Thrift's compact protocol, in which Parquet describes its files: read, changed and written, whatever they mean."""

from __future__ import annotations

from typing import Any, NamedTuple

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_BOOLS = (_TRUE, _FALSE)
_DOUBLE_BYTES = 8
#: what fits beside the type in one byte
_SHORT = 15


class Listed(NamedTuple):
    """A list: the type of its elements, and these."""

    type: int
    values: list[Any]


class Field(NamedTuple):
    """A field of a struct."""

    type: int
    value: Any


#: by number; numbers are not in the order of anything else
Struct = dict[int, Field]


class Malformed(Exception):
    """Bytes that are no such value, or hold what Parquet has no use for."""


def read_struct(text: bytes) -> Struct:
    """The struct that bytes begin with."""
    try:
        return _Reader(text).struct()
    except (IndexError, RecursionError) as error:
        raise Malformed(str(error)) from error


def written(struct: Struct) -> bytes:
    """A struct as bytes."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, text: bytes) -> None:
        self._text, self._at = text, 0

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = Field(head & 0xF, self._value(head & 0xF))
        return found

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind in _BOOLS:
            return None  # its type says which
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _DOUBLE:
            return self._bytes(_DOUBLE_BYTES)
        if kind == _BYTE:
            return self._byte()
        raise Malformed(f"a value of type {kind}")

    def _list(self) -> Listed:
        head = self._byte()
        count = self._varint() if head >> 4 == _SHORT else head >> 4
        kind = head & 0xF
        one = self._byte if kind in _BOOLS else lambda: self._value(kind)
        return Listed(kind, [one() for _ in range(count)])

    def _byte(self) -> int:
        self._at += 1
        return self._text[self._at - 1]

    def _bytes(self, length: int) -> bytes:
        self._at += length
        if self._at > len(self._text):
            raise Malformed("it ends too early")
        return self._text[self._at - length : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _write_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(struct.items()):
        if 0 < number - before <= _SHORT:
            out.append(number - before << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _zigzag(number))
        before = number
        if kind not in _BOOLS:
            _write(out, kind, value)
    out.append(0)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_varint(out, _zigzag(value))
    elif kind == _BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == _STRUCT:
        _write_struct(out, value)
    elif kind == _DOUBLE:
        out += value
    elif kind in (_LIST, _SET):
        _write_list(out, value)
    else:  # a byte, or a truth in a list
        out.append(value)


def _write_list(out: bytearray, listed: Listed) -> None:
    count = len(listed.values)
    out.append(min(count, _SHORT) << 4 | listed.type)
    if count >= _SHORT:
        _write_varint(out, count)
    for value in listed.values:
        _write(out, listed.type, value)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else ~value << 1 | 1
