"""Text files cut into chunks of whole rows, by bytes: nothing is parsed that is not looked at."""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple, cast

from noetl.drivers.datahost import DataHostFailed, HostCall, open_database

# What the name of a file says of what is in it: the one place for sources and targets.


_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}
ENDINGS = tuple(_BY_SUFFIX)


class UnknownFormat(Exception):
    """Nobody can tell the format of a file."""


def format_of(path: str, given: Any) -> str:
    """The format of a file: `given`, or what its name says; lines of JSON are told by the name alone. Nameless: neither."""
    told = next((_BY_SUFFIX[suffix] for suffix in reversed(_suffixes(path)) if suffix in _BY_SUFFIX), None)
    found = told if given in (None, "json") and told == "ndjson" else given or told
    if found is None:
        raise UnknownFormat(f"the format of `{path}` cannot be told by its name: give `format` (csv, json, parquet)")
    if found == "parquet" and is_zipped(path):
        raise UnknownFormat(f"`{path}`: Parquet is compressed by itself, and is no `.gz`")
    return str(found)


def is_zipped(path: str | PurePath) -> bool:
    """Whether a file is compressed with gzip."""
    return _suffixes(path)[-1:] == [".gz"]


def delimiter_of(path: str | PurePath) -> str:
    """What separates the columns of a CSV file that is written."""
    return "\t" if ".tsv" in _suffixes(path) else ","


def _suffixes(path: str | PurePath) -> list[str]:
    return [suffix.lower() for suffix in PurePath(path).suffixes]


# Files made readable first: text of another encoding as UTF-8, a JSON array as an object a line.


_AT_ONCE = 10_000
_REWRITE_BLOCK = 1 << 20
_SPACE = b" \t\r\n"


def open_text(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_zipped(path) else path.open("rb")


def to_utf8(path: Path, encoding: str | None, scratch: Path) -> Path:
    """A file whose text is UTF-8: the file itself, or another. Failing: it is not of that encoding."""
    if encoding is None or _is_utf8(encoding):
        return path
    made = scratch / f"utf8-{path.name.removesuffix('.gz')}"
    with open_text(path) as file, made.open("w", encoding="utf-8", newline="") as out:
        text = io.TextIOWrapper(file, encoding, newline="")
        try:
            while block := text.read(_REWRITE_BLOCK):
                out.write(block.removeprefix("\ufeff") if not out.tell() else block)
        except UnicodeError as error:
            why = error.reason if isinstance(error, UnicodeDecodeError) else error
            raise DataHostFailed("type", f"the source: `{path}` is not {encoding}: {why}", at="source") from None
    return made


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")
    except LookupError:
        message = (
            f"`source.encoding`: nobody knows an encoding {encoding!r}; utf-8, latin-1, cp1252 and utf-16 are some"
        )
        raise DataHostFailed("type", message) from None


def to_json_lines(path: Path, running: HostCall, config: Any, scratch: Path) -> Path:
    """A JSON file that is an array, with one of its objects a line."""
    _refuse_cut_off(path)
    lines = scratch / "array.ndjson"
    with open_database(running, None, config) as connection, lines.open("wb") as file:
        connection.execute("SELECT json(json) FROM read_json_objects($1, format = 'auto')", [str(path)])
        while some := connection.fetchmany(_AT_ONCE):
            file.write(b"".join(row[0].encode() + b"\n" for row in some))
    return lines


def _refuse_cut_off(path: Path) -> None:
    """Failing: an array has no end. DuckDB takes one that ends behind a comma."""
    first = last = b""
    with open_text(path) as file:
        if not is_zipped(path) and path.stat().st_size > 2 * _REWRITE_BLOCK:
            first = file.read(_REWRITE_BLOCK).strip(_SPACE)[:1]
            file.seek(-_REWRITE_BLOCK, io.SEEK_END)
        while block := file.read(_REWRITE_BLOCK):
            held = block.strip(_SPACE)
            first, last = first or held[:1], held[-1:] or last
    if first == b"[" and last != b"]":
        message = f"the source: the array in `{path}` has no end: the file was cut off"
        raise DataHostFailed("type", message, at="source")


_BLOCK = 1 << 18
#: no row is longer, for DuckDB reads none that is half as long; so a quote that is open for as long is never closed
_LONGEST = 4 << 20


class UnclosedQuote(Exception):
    """A quote that is opened and not closed, `rows` rows behind the place where reading began."""

    def __init__(self, text: bytes) -> None:
        super().__init__("a quote is opened and never closed")
        self.text = text
        self.rows = 0


class Piece(NamedTuple):
    """Some rows as they stand in a file."""

    body: bytes
    rows: int
    #: where the next row begins
    end: int
    #: whether no row follows
    last: bool


def pieces(
    file: IO[bytes],
    start: int,
    size: int,
    *,
    quote: bytes | None,
    delimiter: bytes = b",",
    nothing: bytes | None = b"\r\n",
    fill: int = 0,
) -> Iterator[Piece]:
    """The rows of a file from a place on, so many at once. A line is a row, unless its `quote` is not closed.

    A quote opens a field at the beginning of one alone. A line that has no more than bytes of `nothing` is no row; None:
    every line is one. A piece has `size` rows, or the smallest multiple of it that takes `fill` bytes.
    """
    held: list[bytes] = []
    rows, length, offset, before = 0, 0, start, 0
    waiting: Piece | None = None
    try:
        for block in _blocks(file, _Rules(quote, delimiter, nothing)):
            whole = _fits_in_piece(block, rows, length, size, fill)
            for body, count in [(block.text, block.rows)] if whole else block.cut(size, rows):
                held.append(body)
                rows += count
                before += count
                length += len(body)
                if not rows or rows % size or length < fill:
                    continue
                offset += length
                if waiting is not None:
                    yield waiting
                waiting = Piece(b"".join(held), rows, offset, last=False)
                held, rows, length = [], 0, 0
    except UnclosedQuote as error:
        error.rows += before
        raise
    if waiting is not None:
        yield waiting._replace(last=not rows)
    if rows:
        yield Piece(b"".join(held), rows, offset + length, last=True)


class _Rules:
    """How the rows of a file are told apart."""

    def __init__(self, quote: bytes | None, delimiter: bytes, nothing: bytes | None) -> None:
        self.quote, self.nothing = quote, nothing
        if quote is not None:
            q, d = re.escape(quote), re.escape(delimiter)
            plain = b"[^\\n" + d + b"]*+" if len(delimiter) == 1 else b"(?:(?!" + d + b")[^\\n])*+"
            field = b"(?:" + q + b"(?:[^" + q + b"]++|" + q + q + b")*+" + q + b"|(?!" + q + b"))" + plain
            row = b"(?:" + field + d + b")*+" + field + b"(?:\\n|\\Z)"
            self._row, self._rows = re.compile(row), re.compile(row + b"|[\\s\\S]++")

    def rows(self, text: bytes) -> tuple[list[bytes], bytes]:
        """The rows of whole lines, and what is left because a quote is still open."""
        found = self._rows.findall(text)
        while found and not found[-1]:
            found.pop()
        open_row = found.pop() if found and not self._row.fullmatch(found[-1]) else b""
        return found, open_row

    def is_row(self, line: bytes) -> bool:
        """Whether a line holds anything."""
        return self.nothing is None or bool(line.strip(self.nothing))

    def are_rows(self, text: bytes) -> bool:
        """Whether all lines do, as far as that is quickly told."""
        if self.nothing is None:
            return True
        return text[:1] not in self.nothing and not any(b"\n%c" % byte in text for byte in self.nothing)


class _Block(NamedTuple):
    """Whole rows. Where every line is one of them they are counted, and not yet told apart."""

    text: bytes
    rows: int
    rules: _Rules
    lines: list[bytes] | None = None

    def cut(self, size: int, rows: int) -> Iterator[tuple[bytes, int]]:
        """The rows in portions that fill up to a chunk, of which `rows` are there; lines that hold nothing are none."""
        lines = self.lines if self.lines is not None else _lines(self.text)
        at = 0
        while at < len(lines):
            some = lines[at : at + size - rows % size]
            at += len(some)
            count = sum(map(self.rules.is_row, some))
            yield b"".join(some), count
            rows += count


def _fits_in_piece(block: _Block, rows: int, length: int, size: int, fill: int) -> bool:
    """Whether no piece ends inside of a block."""
    if block.lines is not None:
        return False
    return length + len(block.text) < fill or rows % size + block.rows < size


def _blocks(file: IO[bytes], rules: _Rules) -> Iterator[_Block]:
    quote = rules.quote
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
            lines, open_row = rules.rows(text)
            rest = open_row + rest
            if lines:
                yield _Block(b"".join(lines), len(lines), rules, lines)
            if len(open_row) > _LONGEST:
                raise UnclosedQuote(open_row)
        elif rules.are_rows(text):
            yield _Block(text, marks.count(b"\n"), rules)
        else:
            yield _Block(text, 0, rules, _lines(text))
    if rest:
        if quote is not None and rules.rows(rest)[1]:
            raise UnclosedQuote(rest)
        yield _Block(rest, 1, rules, [rest])


def _has_open(marks: bytes, quote: bytes) -> bool:
    """Whether a line leaves a quote open: where none does, quotes come in pairs."""
    return quote in marks and quote in marks.replace(b"\r", b"").replace(quote + quote, b"")


def _lines(text: bytes) -> list[bytes]:
    """Lines that end with `\\n`: a carriage return alone ends none."""
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
