"""Text files cut into chunks of whole rows, by bytes: nothing is parsed that is not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

_BLOCK = 1 << 18


class Piece(NamedTuple):
    """Some rows as they stand in a file."""

    body: bytes
    rows: int
    #: where the next row begins
    end: int
    #: whether no row follows
    last: bool


def pieces(file: IO[bytes], start: int, size: int, *, quote: bytes | None) -> Iterator[Piece]:
    """The rows of a file from a place on, so many at once. A line is a row, unless its `quote` is not closed."""
    held: list[bytes] = []
    rows, offset = 0, start
    waiting: Piece | None = None
    for line_group in _groups(file, quote):
        for body, count in _portions(line_group, size, rows):
            held.append(body)
            rows += count
            if rows < size:
                continue
            whole = b"".join(held)
            offset += len(whole)
            if waiting is not None:
                yield waiting
            waiting, held, rows = Piece(whole, rows, offset, last=False), [], 0
    if waiting is not None:
        yield waiting._replace(last=not rows)
    if rows:
        whole = b"".join(held)
        yield Piece(whole, rows, offset + len(whole), last=True)


def _portions(lines: list[bytes], size: int, rows: int) -> Iterator[tuple[bytes, int]]:
    """Rows in portions that fill up to a chunk; lines that hold nothing are no rows."""
    at = 0
    while at < len(lines):
        some = lines[at : at + size - rows]
        at += len(some)
        blank = sum(1 for line in some if not line.strip(b"\r\n"))
        count = len(some) - blank
        yield b"".join(some), count
        rows = (rows + count) % size


def _groups(file: IO[bytes], quote: bytes | None) -> Iterator[list[bytes]]:
    """Lists of rows, each with the end of its line."""
    rest = b""
    while block := file.read(_BLOCK):
        text = rest + block
        lines = text.splitlines(keepends=True) if b"\r" not in text else _lines(text)
        rest = b"" if lines and lines[-1].endswith(b"\n") else (lines.pop() if lines else b"")
        if quote is not None and any(line.count(quote) & 1 for line in lines):
            lines, rest = _joined(lines, quote, rest)
        if lines:
            yield lines
    if rest:
        yield [rest]


def _lines(text: bytes) -> list[bytes]:
    """Lines that end with `\\n`: a carriage return alone ends none."""
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _joined(lines: list[bytes], quote: bytes, rest: bytes) -> tuple[list[bytes], bytes]:
    """Lines put together while a quote is open; what is still open at the end goes before the rest."""
    rows: list[bytes] = []
    open_row: list[bytes] = []
    for line in lines:
        odd = line.count(quote) & 1
        if not open_row and not odd:
            rows.append(line)
            continue
        open_row.append(line)
        if odd and len(open_row) > 1:
            rows.append(b"".join(open_row))
            open_row = []
    return rows, b"".join(open_row) + rest
