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


def pieces(file: IO[bytes], start: int, size: int, *, quote: bytes | None, fill: int = 0) -> Iterator[Piece]:
    """The rows of a file from a place on, so many at once. A line is a row, unless its `quote` is not closed.

    A piece has `size` rows, or the smallest multiple of it that takes `fill` bytes.
    """
    held: list[bytes] = []
    rows, length, offset = 0, 0, start
    waiting: Piece | None = None
    for block in _blocks(file, quote):
        for body, count in (
            [(block.text, block.rows)] if _whole(block, rows, length, size, fill) else block.cut(size, rows)
        ):
            held.append(body)
            rows += count
            length += len(body)
            if not rows or rows % size or length < fill:
                continue
            offset += length
            if waiting is not None:
                yield waiting
            waiting = Piece(b"".join(held), rows, offset, last=False)
            held, rows, length = [], 0, 0
    if waiting is not None:
        yield waiting._replace(last=not rows)
    if rows:
        yield Piece(b"".join(held), rows, offset + length, last=True)


class _Block(NamedTuple):
    """Whole rows. Where every line is one of them they are counted, and not yet told apart."""

    text: bytes
    rows: int
    lines: list[bytes] | None = None

    def cut(self, size: int, rows: int) -> Iterator[tuple[bytes, int]]:
        """The rows in portions that fill up to a chunk, of which `rows` are there; lines that hold nothing are none."""
        lines = self.lines if self.lines is not None else _lines(self.text)
        at = 0
        while at < len(lines):
            some = lines[at : at + size - rows % size]
            at += len(some)
            count = sum(1 for line in some if line.strip(b"\r\n"))
            yield b"".join(some), count
            rows += count


def _whole(block: _Block, rows: int, length: int, size: int, fill: int) -> bool:
    """Whether no piece ends inside of a block."""
    if block.lines is not None:
        return False
    return length + len(block.text) < fill or rows % size + block.rows < size


def _blocks(file: IO[bytes], quote: bytes | None) -> Iterator[_Block]:
    others = bytes(set(range(256)) - {*b"\r\n", *(quote or b"")})
    rest = b""
    while some := file.read(_BLOCK):
        text = rest + some
        end = text.rfind(b"\n") + 1
        text, rest = text[:end], text[end:]
        if not text:
            continue
        # Of what ends lines and quotes alone, which is short, everything can be told but whether lines are empty.
        marks = text.translate(None, others)
        if quote is not None and _has_open(marks, quote):
            lines, open_row = _joined(_lines(text), quote)
            rest = open_row + rest
            if lines:
                yield _Block(b"".join(lines), len(lines), lines)
        elif text[:1] in b"\r\n" or b"\n\n" in text or (b"\r" in marks and b"\n\r" in text):
            yield _Block(text, 0, _lines(text))
        else:
            yield _Block(text, marks.count(b"\n"))
    if rest:
        yield _Block(rest, 1, [rest])


def _has_open(marks: bytes, quote: bytes) -> bool:
    """Whether a line leaves a quote open: where none does, quotes come in pairs."""
    return quote in marks and quote in marks.replace(b"\r", b"").replace(quote + quote, b"")


def _lines(text: bytes) -> list[bytes]:
    """Lines that end with `\\n`: a carriage return alone ends none."""
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _joined(lines: list[bytes], quote: bytes) -> tuple[list[bytes], bytes]:
    """Lines put together while a quote is open, and what is still open at the end."""
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
    return rows, b"".join(open_row)
