"""Sources, in the data host: each yields chunks, from a position on that it has given before."""

from __future__ import annotations

import contextlib
import csv
import io
import uuid
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

import msgspec

from noetl.drivers.datahost import DataHostFailed, HostCall, open_database
from noetl.rows.duck import literal, name, names
from noetl.tools.transfer.chunks import (
    BUFFER,
    Chunk,
    CsvChunk,
    JsonChunk,
    JsonLinesChunk,
    StagedChunk,
    ValuesChunk,
    column_map,
    replace_columns,
)
from noetl.tools.transfer.column_types import SAMPLE, cast_value, columns_of, exact_types
from noetl.tools.transfer.diagnosis import explain_unclosed, source_failure, unreadable_failure
from noetl.tools.transfer.text_files import Piece, UnclosedQuote, is_zipped, open_text, pieces, to_json_lines, to_utf8

# How a CSV file is written, as DuckDB finds it out; and why it cannot, where rows have not all as many columns.


_ASKED = (
    "Delimiter, Quote, Escape, NewLineDelimiter, Comment, SkipRows, HasHeader, Columns, DateFormat, TimestampFormat"
)
_DELIMITERS = ",;\t|"
#: no row is longer that DuckDB reads, and so neither a line nor a field
_LONGEST_ROW = 4 << 20
#: of so much of a file the lines are looked at that may be a title
_HEAD = 1 << 16
#: lines that a title may have
_LONGEST_TITLE = 10


def sniff(connection: Any, path: Path, delimiter: str | None) -> tuple[Any, ...]:
    """What is asked of a file. Left to itself DuckDB would pass over whatever comes before the longest rows."""
    given = f", delim = {literal(delimiter)}" if delimiter else ""
    return _query_sniffer(connection, path, f"{given}, skip = {_title(path, delimiter)}")


def _title(path: Path, delimiter: str | None) -> int:
    """How many lines are a title: they have no delimiter, and an empty line sets them off from one that has."""
    lines = [line.strip() for line in _lines(path, _LONGEST_TITLE + 1)]
    below = next((at for at, line in enumerate(lines) if _has(line, delimiter)), 0)
    return below if below > 1 and lines[0] and not lines[below - 1] else 0


def _query_sniffer(connection: Any, path: Path, options: str) -> tuple[Any, ...]:
    query = f"SELECT {_ASKED} FROM sniff_csv($1, {BUFFER}{options})"
    found: tuple[Any, ...] = connection.execute(query, [str(path)]).fetchone()
    return found


def find_uneven_row(path: Path, delimiter: str | None) -> Exception | None:
    """The first row of a CSV file that has not as many columns as its header; DuckDB takes such a file for one column."""
    delimiter = delimiter or next((one for one in _DELIMITERS if one in "".join(_lines(path, 1))), None)
    if delimiter is None or len(delimiter) != 1:
        return None
    csv.field_size_limit(_LONGEST_ROW)
    with (
        contextlib.suppress(csv.Error),
        open_text(path) as file,
        io.TextIOWrapper(file, "utf-8-sig", "replace", newline="") as text,
    ):
        reader = csv.reader(_read_bounded_lines(text), delimiter=delimiter)
        wanted = len(next(reader, []))
        for number, row in enumerate((one for one in reader if one), 1):
            if len(row) != wanted:
                others = "the others have" if number > 1 else "the line above it has"
                shown = delimiter.join(row)[:200]
                return source_failure(f"row {number:,} has {len(row)} columns, {others} {wanted}: {shown!r}", number)
    return None


def _has(line: str, delimiter: str | None) -> bool:
    return delimiter in line if delimiter else any(one in line for one in _DELIMITERS)


def _lines(path: Path, count: int) -> list[str]:
    """The first lines of a file, the last of them perhaps not to its end: a file may be one line, and however long."""
    with open_text(path) as file:
        head = file.read(_HEAD)
    end = b"\n" if b"\n" in head else b"\r"
    return [line.decode("utf-8", "replace") for line in head.split(end)[:count]]


def _read_bounded_lines(text: TextIO) -> Iterator[str]:
    """Lines. csv.Error: one is longer than any row is."""
    while line := text.readline(_LONGEST_ROW):
        if len(line) == _LONGEST_ROW:
            raise csv.Error("a line has no end")
        yield line


#: what is read at once has so many bytes, or is one chunk; DuckDB is quickest with more rows than it keeps in a group
FILL = 6 << 20
#: DuckDB's word for a part of a dialect that was not seen
_NONE = "(empty)"
#: how dates are written that everybody reads the same way
_ISO = "%Y-%m-%d"


class ChunkRead(NamedTuple):
    """A chunk or several in one, whether it is the last, and where to go on behind it."""

    chunk: Chunk
    last: bool
    position: dict[str, Any]
    chunks: int = 1


class RowSource:
    """Where rows come from."""

    #: rows in all, where they can be known
    total: int | None = None
    #: what must not have changed for the same rows to come again, from the same place on
    identity: Any = None

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:
        """The chunks from a position on; `{}` is the start. `together`: nobody minds to take several in one."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Have what is being read end soon."""

    def close(self) -> None:
        """Let go of what is held."""


class FedSource(RowSource):
    """Rows that the engine hands over: a value in hand, the pages of an API, the parts of a stored result."""

    def __init__(self, given: Mapping[str, Any], scratch: Path, size: int) -> None:
        self.total = given.get("total")
        self._scratch, self._size = scratch, size
        self._held: list[bytes] = []
        #: of those that are held, how many were handed on
        self._gone = 0
        self._ended = False
        #: rows behind which an earlier attempt had to stop: a chunk ends there, however few rows it has
        self._cuts: list[int] = list(given.get("cuts") or ())
        #: no more rows come in this attempt, though there are some
        self._cut = False
        #: rows before those that are held
        self._first = 0
        self._types: dict[str, str] | None = None

    def begin(self, position: Mapping[str, Any]) -> None:
        """Say how many rows came before those that will be fed."""
        self._first = int(position.get("rows", 0))

    def feed(self, lines: bytes, *, ended: bool, cut: bool) -> None:
        """Take more rows."""
        del self._held[: self._gone]
        self._gone = 0
        if lines:
            self._held += lines.split(b"\n")
        self._ended, self._cut = ended, cut

    @property
    def _wanted(self) -> int:
        """The most rows that the next chunk may have."""
        return min([self._size, *(cut - self._first for cut in self._cuts if cut > self._first)])

    @property
    def wants(self) -> bool:
        """Whether there have to be more rows before there is a chunk: one more than it has, to know if it is the last."""
        left = len(self._held) - self._gone
        return not self._ended and left <= self._wanted and not (self._cut and left)

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:  # noqa: ARG002
        while self._gone < len(self._held):
            some = self._held[self._gone : self._gone + self._wanted]
            self._gone += len(some)
            start, self._first = self._first, self._first + len(some)
            chunk = JsonChunk(some, start, self._scratch, self._types)
            yield ChunkRead(chunk, self._ended and self._gone == len(self._held), {"rows": self._first})
            if self._types is None and self.total is None:
                self._types = _columns_or_none(chunk)


def _columns_or_none(chunk: ValuesChunk) -> dict[str, str] | None:
    """The columns of the first chunk are those of all; rows that are no maps have none."""
    try:
        return chunk.columns()
    except DataHostFailed:
        return None


class TextSource(RowSource):
    """A CSV file, or one with a JSON object a line."""

    def __init__(self, given: Mapping[str, Any], scratch: Path, size: int, running: HostCall) -> None:
        self._path = Path(given["path"])
        self._scratch, self._size = scratch, size
        self._lines = given["format"] != "csv"
        self.identity = identity_of(self._path)
        self.whole = self._path.stat().st_size if not is_zipped(self._path) else None
        self._start, self._options = 0, ""
        self._quote: bytes | None = None
        self._delimiter = b","
        self._dialect: tuple[str, str] | None = None
        #: whether the columns are known without any row
        self._named = False
        self._one_column = False
        found = self._sample() if self._lines else self._sniff(running, given)
        self._given: list[str] = list(given.get("columns") or ())
        self._types = apply_types(found, given.get("columns"), running)

    def _sample(self) -> dict[str, str]:
        with open_text(self._path) as file:
            if file.read(len(BOM_UTF8)) == BOM_UTF8:
                self._start = len(BOM_UTF8)
            file.seek(self._start)
            rows = (decode_line(line, number, self._path) for number, line in enumerate(file, 1) if line.strip())
            return columns_of(islice(rows, SAMPLE))

    def _sniff(self, running: HostCall, given: Mapping[str, Any]) -> dict[str, str]:
        wanted = given.get("delimiter")
        with open_database(running, None, {}) as connection:
            try:
                delimiter, quote, escape, newline, comment, skipped, header, columns, dates, times = sniff(
                    connection, self._path, wanted
                )
            except Exception as error:
                raise find_uneven_row(self._path, wanted) or unreadable_failure(error, self._path) from error
            if len(columns) == 1 and not wanted and (problem := find_uneven_row(self._path, None)):
                raise problem
            quote, escape = (None if part in (_NONE, None, "") else part for part in (quote, escape))
            if comment not in (_NONE, None, "") or skipped or escape not in (None, quote) or newline == "\\r":
                raise Unsplittable(skipped)
            quote = quote or ("" if self._begins_with(b'"') else '"')
            self._quote, self._delimiter = quote.encode() or None, delimiter.encode()
            options = [
                "auto_detect = false, header = false, null_padding = false",
                f"delim = {literal(delimiter)}, quote = {literal(quote)}, escape = {literal(quote)}",
            ]
            options += [f"dateformat = {literal(dates)}"] if dates else []
            options += [f"timestampformat = {literal(times)}"] if times else []
            self._options = ", ".join(options)
            self._dialect = (delimiter, quote) if quote and dates in (None, "", _ISO) and not times else None
            self._named = bool(header)
            self._one_column = len(columns) == 1
            self._start = self._behind_header() if header else 0
            types = {column["name"]: column["type"] for column in columns}
            how = self._options.replace("header = false", f"header = {str(header).lower()}, ignore_errors = true")
            texts = column_map(dict.fromkeys(types, "VARCHAR"))
            return exact_types(
                connection, f"read_csv({literal(str(self._path))}, {how}, {BUFFER}, columns = {texts})", types
            )

    def _begins_with(self, mark: bytes) -> bool:
        """Whether a mark was there to be seen, where the dialect was found out."""
        with open_text(self._path) as file:
            return mark in file.read(FILL)

    def _pieces(self, file: IO[bytes], offset: int, size: int, fill: int = 0) -> Iterator[Piece]:
        nothing = b" \t\r\n" if self._lines else None if self._one_column else b"\r\n"
        return pieces(file, offset, size, quote=self._quote, delimiter=self._delimiter, nothing=nothing, fill=fill)

    def _behind_header(self) -> int:
        with open_text(self._path) as file:
            first = next(self._pieces(file, 0, 1), None)
        return first.end if first is not None else 0

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:  # noqa: ARG002
        offset, first = int(position.get("offset", self._start)), int(position.get("rows", 0))
        begun = first
        with open_text(self._path) as file:
            file.seek(offset)
            number = -1
            try:
                for number, piece in enumerate(self._pieces(file, offset, self._size, FILL if together else 0)):
                    chunk = self._chunk(number, piece, first)
                    first += piece.rows
                    yield ChunkRead(
                        chunk, piece.last, {"offset": piece.end, "rows": first}, -(-piece.rows // self._size)
                    )
            except UnclosedQuote as error:
                raise explain_unclosed(error, begun) from None
        if number < 0 and not position and self._named:
            empty = Piece(b"", 0, offset, last=True)
            yield ChunkRead(self._chunk(0, empty, 0), last=True, position={"offset": offset, "rows": 0}, chunks=0)

    def _chunk(self, number: int, piece: Piece, first: int) -> Chunk:
        path = self._scratch / f"chunk-{number % 4}"
        if self._lines:
            path.write_bytes(piece.body)
            made = JsonLinesChunk(path, piece.rows, first, self._types, self._given)
            made.sampled = first + piece.rows <= SAMPLE
            return made
        text = CsvChunk(piece.body, path, piece.rows, first, types=self._types, options=self._options)
        text.dialect = self._dialect
        return text


class Unsplittable(Exception):
    """A dialect of CSV whose rows only DuckDB can tell apart, below so many lines of a title."""

    def __init__(self, skipped: int) -> None:
        super().__init__()
        self.skipped = skipped


class QuerySource(RowSource):
    """Whatever DuckDB can read: its result is staged on disk in one go, so that chunks are ranges of it."""

    def __init__(
        self, query: str, params: list[Any], running: HostCall, *, given: Mapping[str, Any], size: int
    ) -> None:
        self._size = size
        self._stage = given["scratch"] / f"stage_{uuid.uuid4().hex}.duckdb"
        alias = f"noetl_staging_{uuid.uuid4().hex}"
        with open_database(running, given.get("file"), given["config"]) as connection:
            connection.execute(f"ATTACH {literal(str(self._stage))} AS {alias}")
            connection.execute(f"CREATE TABLE {alias}.main.staged AS {query}", params)
            self.total = connection.execute(f"SELECT count(*) FROM {alias}.main.staged").fetchone()[0]
            described = connection.execute(f"SELECT * FROM {alias}.main.staged LIMIT 0").description
            connection.execute(f"DETACH {alias}")
        self._types = {column[0]: str(column[1]) for column in described}
        self._bytes = self._stage.stat().st_size

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:  # noqa: ARG002
        total = self.total or 0
        if not total and not position:
            yield ChunkRead(StagedChunk(self._stage, 0, 0, 0, self._types), last=True, position={"rows": 0}, chunks=0)
        one = max(1, self._bytes * self._size // max(1, total))
        chunks = max(1, FILL // one) if together else 1
        for first in range(int(position.get("rows", 0)), total, self._size * chunks):
            rows = min(self._size * chunks, total - first)
            size = self._bytes * rows // total
            chunk = StagedChunk(self._stage, first, rows, size, self._types)
            yield ChunkRead(chunk, first + rows >= total, {"rows": first + rows}, -(-rows // self._size))

    def close(self) -> None:
        self._stage.unlink(missing_ok=True)


def source_of(given: Mapping[str, Any], running: HostCall, scratch: Path, size: int) -> RowSource:
    """The source of a transfer."""
    if given["kind"] in ("data", "http"):
        return FedSource(given, scratch, size)
    given = {**given, "scratch": scratch}
    if given["kind"] == "duckdb":
        text, params = given["query"]
        if order := given.get("order_by"):
            text = f"SELECT * FROM (\n{text}\n) ORDER BY {names(order)}"
        return QuerySource(text, params, running, given=given, size=size)
    path = Path(given["path"])
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is not there"
        raise DataHostFailed("fail", f"the source's file `{path}` {what}")
    made = _of_file(to_utf8(path, given.get("encoding"), scratch), running, given, scratch=scratch, size=size)
    made.identity = identity_of(path)
    return made


def _of_file(path: Path, running: HostCall, given: Mapping[str, Any], *, scratch: Path, size: int) -> RowSource:
    if given["format"] == "parquet":
        return QuerySource(f"FROM read_parquet({literal(str(path))})", [], running, given=given, size=size)
    if given["format"] == "json":
        path = to_json_lines(path, running, given["config"], scratch)
    try:
        kind = "csv" if given["format"] == "csv" else "ndjson"
        return TextSource({**given, "path": str(path), "format": kind}, scratch, size, running)
    except Unsplittable as found:
        options = [f"skip = {found.skipped}"]  # else it would look for them anew
        options += [f"delim = {literal(given['delimiter'])}"] if given.get("delimiter") else []
        kinds = _normalize_types(given["columns"], running) if given.get("columns") else {}
        options += [f"types = {column_map(dict.fromkeys(kinds, 'VARCHAR'))}"] if kinds else []
        read = f"read_csv({', '.join([literal(str(path)), *options])})"
        made = {key: cast_value(name(key), "VARCHAR", kind) for key, kind in kinds.items()}
        return QuerySource(f"FROM {replace_columns(read, made)}", [], running, given=given, size=size)


def apply_types(found: dict[str, str], given: Any, running: HostCall) -> dict[str, str]:
    """The types of columns, some of which the author gives. Failing: there is no such column or type."""
    for column in given or ():
        if column not in found:
            has = ", ".join(f"`{key}`" for key in found) or "no columns"
            raise DataHostFailed("type", f"`source.columns` names `{column}`, the file has {has}")
    return {**found, **(_normalize_types(given, running) if given else {})}


def _normalize_types(given: Mapping[str, Any], running: HostCall) -> dict[str, str]:
    """Types as DuckDB spells them, whatever authors call them. Failing: there is no such type."""
    made: dict[str, str] = {}
    with open_database(running, None, {}) as connection:
        for column, kind in given.items():
            try:
                made[column] = str(connection.execute(f"SELECT CAST(NULL AS {kind})").description[0][1])
            except Exception as error:
                said = str(error).splitlines()[0].partition(": ")[2]
                raise DataHostFailed("type", f"`source.columns.{column}`: {said}") from error
    return made


def identity_of(path: Path) -> list[int]:
    """What tells whether a file is still the same."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def decode_line(line: bytes, number: int, path: Path) -> Any:
    """A line of JSON; Failing: it is none."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode("utf-8", "replace").strip()
        raise DataHostFailed("type", f"`{path}` line {number:,} is not JSON ({error}): {shown!r}", row=number) from None
