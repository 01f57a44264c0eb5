"""Parquet files put together without looking at their rows: their groups of rows are copied, and one description is made of all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

# Values of Thrift's compact protocol, in which Parquet describes its files: read, changed and written, whatever they mean.


_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_BOOLS = (_TRUE, _FALSE)
_DOUBLE_BYTES = 8
#: what fits beside the type in one byte
_SHORT = 15


class ThriftList(NamedTuple):
    """A list: the type of its elements, and these."""

    type: int
    values: list[Any]


class ThriftField(NamedTuple):
    """A field of a struct."""

    type: int
    value: Any


#: by number; numbers are not in the order of anything else
Struct = dict[int, ThriftField]


class MalformedThrift(Exception):
    """Bytes that are no such value, or hold what Parquet has no use for."""


def read_struct(text: bytes) -> Struct:
    """The struct that bytes begin with."""
    try:
        return _StructReader(text).struct()
    except (IndexError, RecursionError) as error:
        raise MalformedThrift(str(error)) from error


def encode_struct(struct: Struct) -> bytes:
    """A struct as bytes."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _StructReader:
    def __init__(self, text: bytes) -> None:
        self._text, self._at = text, 0

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = ThriftField(head & 0xF, self._value(head & 0xF))
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
        raise MalformedThrift(f"a value of type {kind}")

    def _list(self) -> ThriftList:
        head = self._byte()
        count = self._varint() if head >> 4 == _SHORT else head >> 4
        kind = head & 0xF
        one = self._byte if kind in _BOOLS else lambda: self._value(kind)
        return ThriftList(kind, [one() for _ in range(count)])

    def _byte(self) -> int:
        self._at += 1
        return self._text[self._at - 1]

    def _bytes(self, length: int) -> bytes:
        self._at += length
        if self._at > len(self._text):
            raise MalformedThrift("it ends too early")
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


def _write_list(out: bytearray, listed: ThriftList) -> None:
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


_MAGIC = b"PAR1"
_BLOCK = 1 << 20
#: behind a description: its length, and the mark
_TAIL = 8
_I64 = 6
#: by their numbers in `parquet.thrift`: of a file
_ROWS, _GROUPS, _KEYED = 3, 4, 5
_KNOWN_OF_FILE = frozenset({1, 2, _ROWS, _GROUPS, _KEYED, 6, 7})
#: of a group of rows: its columns, where it begins, the which it is
_COLUMNS, _GROUP_AT, _ORDINAL = 1, 5, 7
#: of a column: its file, where that tells of it, and what does
_FILE, _COLUMN_AT, _ABOUT = 1, 2, 3
#: indexes of a column's pages, which hold places themselves: readers do without
_INDEXES = frozenset({4, 5, 6, 7})
#: of what tells of it: places
_PLACES = (9, 10, 11, 14)
#: an encrypted column has these
_ENCRYPTED = frozenset({8, 9})
#: columns of groups that are described in one file; with more, readers would be slower than it takes to write it anew
_MOST = 20_000


class IncompatibleFiles(Exception):
    """Files that cannot be put together this way."""


def join(parts: Sequence[Path], whole: Path) -> None:
    """One file of the rows of all, in this order. Unlike: their columns are not the same; nothing is left behind then."""
    with whole.open("wb") as out:
        try:
            _join(parts, out)
        except (MalformedThrift, IncompatibleFiles, KeyError) as error:
            whole.unlink()
            raise IncompatibleFiles(str(error)) from error


def _join(parts: Sequence[Path], out: IO[bytes]) -> None:
    out.write(_MAGIC)
    rows, groups = 0, []
    first: Struct | None = None
    for path in parts:
        with path.open("rb") as file:
            about, end = _description(file)
            first = about if first is None else first
            if _common_description(about) != _common_description(first):
                raise IncompatibleFiles(f"{path.name} has other columns")
            shift = out.tell() - len(_MAGIC)
            file.seek(len(_MAGIC))
            _copy(file, out, end - len(_MAGIC))
        rows += about[_ROWS].value
        groups += [_shift_group(group, shift) for group in about[_GROUPS].value.values]
        if groups and len(groups) * len(groups[0][_COLUMNS].value.values) > _MOST:
            raise IncompatibleFiles("they have too many groups of rows")
    assert first is not None
    told = encode_struct(
        {**first, _ROWS: ThriftField(_I64, rows), _GROUPS: ThriftField(_LIST, ThriftList(_STRUCT, groups))}
    )
    out.write(told + len(told).to_bytes(4, "little") + _MAGIC)


def _description(file: IO[bytes]) -> tuple[Struct, int]:
    """What a file says of itself, and where that begins."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length + _TAIL + len(_MAGIC) > size:
        raise MalformedThrift("it is no Parquet file")
    file.seek(size - _TAIL - length)
    about = read_struct(file.read(length))
    if not about.keys() <= _KNOWN_OF_FILE:
        raise IncompatibleFiles("it is encrypted")
    return about, size - _TAIL - length


def _common_description(about: Struct) -> Struct:
    """What must be the same in all of them."""
    return {number: field for number, field in about.items() if number not in (_ROWS, _GROUPS)}


def _shift_group(group: Struct, by: int) -> Struct:
    """A group of rows that lies so many bytes further behind."""
    columns = group[_COLUMNS].value
    moved = [_shift_column(column, by) for column in columns.values]
    whole = {number: field for number, field in group.items() if number != _ORDINAL}
    return _shift_offsets({**whole, _COLUMNS: ThriftField(_LIST, ThriftList(columns.type, moved))}, (_GROUP_AT,), by)


def _shift_column(column: Struct, by: int) -> Struct:
    if _FILE in column or _ENCRYPTED & column.keys():
        raise IncompatibleFiles("a column lies in another file, or is encrypted")
    about = column[_ABOUT]
    kept = {number: field for number, field in column.items() if number not in _INDEXES}
    return _shift_offsets(
        {**kept, _ABOUT: ThriftField(about.type, _shift_offsets(about.value, _PLACES, by))}, (_COLUMN_AT,), by
    )


def _shift_offsets(struct: Struct, places: Sequence[int], by: int) -> Struct:
    there = {number: struct[number] for number in places if number in struct and struct[number].value}
    return {**struct, **{number: ThriftField(field.type, field.value + by) for number, field in there.items()}}


def _copy(file: IO[bytes], out: IO[bytes], length: int) -> None:
    """The next bytes of a file."""
    while some := file.read(min(length, _BLOCK)):
        out.write(some)
        length -= len(some)
