"""Parquet files put together without looking at their rows: their groups of rows are copied, and one description is made of all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from noetl.rows.thrift import Field, Listed, Malformed, Struct, read_struct, written

_MAGIC = b"PAR1"
_BLOCK = 1 << 20
#: behind a description: its length, and the mark
_TAIL = 8
_I64, _LIST, _STRUCT = 6, 9, 12
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


class Unlike(Exception):
    """Files that cannot be put together this way."""


def join(parts: Sequence[Path], whole: Path) -> None:
    """One file of the rows of all, in this order. Unlike: their columns are not the same; nothing is left behind then."""
    with whole.open("wb") as out:
        try:
            _join(parts, out)
        except (Malformed, Unlike, KeyError) as error:
            whole.unlink()
            raise Unlike(str(error)) from error


def _join(parts: Sequence[Path], out: IO[bytes]) -> None:
    out.write(_MAGIC)
    rows, groups = 0, []
    first: Struct | None = None
    for path in parts:
        with path.open("rb") as file:
            about, end = _description(file)
            first = about if first is None else first
            if _likeness(about) != _likeness(first):
                raise Unlike(f"{path.name} has other columns")
            shift = out.tell() - len(_MAGIC)
            file.seek(len(_MAGIC))
            _copy(file, out, end - len(_MAGIC))
        rows += about[_ROWS].value
        groups += [_shifted(group, shift) for group in about[_GROUPS].value.values]
        if groups and len(groups) * len(groups[0][_COLUMNS].value.values) > _MOST:
            raise Unlike("they have too many groups of rows")
    assert first is not None
    told = written({**first, _ROWS: Field(_I64, rows), _GROUPS: Field(_LIST, Listed(_STRUCT, groups))})
    out.write(told + len(told).to_bytes(4, "little") + _MAGIC)


def _description(file: IO[bytes]) -> tuple[Struct, int]:
    """What a file says of itself, and where that begins."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length + _TAIL + len(_MAGIC) > size:
        raise Malformed("it is no Parquet file")
    file.seek(size - _TAIL - length)
    about = read_struct(file.read(length))
    if not about.keys() <= _KNOWN_OF_FILE:
        raise Unlike("it is encrypted")
    return about, size - _TAIL - length


def _likeness(about: Struct) -> Struct:
    """What must be the same in all of them."""
    return {number: field for number, field in about.items() if number not in (_ROWS, _GROUPS)}


def _shifted(group: Struct, by: int) -> Struct:
    """A group of rows that lies so many bytes further behind."""
    columns = group[_COLUMNS].value
    moved = [_shifted_column(column, by) for column in columns.values]
    whole = {number: field for number, field in group.items() if number != _ORDINAL}
    return _moved({**whole, _COLUMNS: Field(_LIST, Listed(columns.type, moved))}, (_GROUP_AT,), by)


def _shifted_column(column: Struct, by: int) -> Struct:
    if _FILE in column or _ENCRYPTED & column.keys():
        raise Unlike("a column lies in another file, or is encrypted")
    about = column[_ABOUT]
    kept = {number: field for number, field in column.items() if number not in _INDEXES}
    return _moved({**kept, _ABOUT: Field(about.type, _moved(about.value, _PLACES, by))}, (_COLUMN_AT,), by)


def _moved(struct: Struct, places: Sequence[int], by: int) -> Struct:
    there = {number: struct[number] for number in places if number in struct and struct[number].value}
    return {**struct, **{number: Field(field.type, field.value + by) for number, field in there.items()}}


def _copy(file: IO[bytes], out: IO[bytes], length: int) -> None:
    """The next bytes of a file."""
    while some := file.read(min(length, _BLOCK)):
        out.write(some)
        length -= len(some)
