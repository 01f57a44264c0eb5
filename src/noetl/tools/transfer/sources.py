"""Sources, in the data host: each yields chunks, from a position on that it has given before."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec

from noetl.rows.duck import literal, names
from noetl.tools.datahost.databases import opened
from noetl.tools.datahost.failing import Failing
from noetl.tools.datahost.host import Running
from noetl.tools.transfer.chunks import Chunk, Csv, Lines, Staged, Values
from noetl.tools.transfer.diagnosis import uneven
from noetl.tools.transfer.sampling import SAMPLE, columns_of
from noetl.tools.transfer.splitting import pieces

_AT_ONCE = 10_000
#: what is read at once has so many bytes, or is one chunk; DuckDB is quickest with as many rows as it keeps in a group
_FILL = 4 << 20
#: DuckDB's word for a part of a dialect that was not seen
_NONE = "(empty)"


class Read(NamedTuple):
    """A chunk or several in one, whether it is the last, and where to go on behind it."""

    chunk: Chunk
    last: bool
    position: dict[str, Any]
    chunks: int = 1


class Source:
    """Where rows come from."""

    #: rows in all, where they can be known
    total: int | None = None
    #: what must not have changed for the same rows to come again, from the same place on
    identity: Any = None

    def chunks(self, running: Running, position: Mapping[str, Any], *, together: bool) -> Iterator[Read]:
        """The chunks from a position on; `{}` is the start. `together`: nobody minds to take several in one."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what is held."""


class Fed(Source):
    """Rows that the engine hands over: a value in hand, the pages of an API, the parts of a stored result."""

    def __init__(self, given: Mapping[str, Any], scratch: Path, size: int) -> None:
        self.total = given.get("total")
        self._scratch, self._size = scratch, size
        self._held: list[Any] = []
        self._ended = False
        self._types: dict[str, str] | None = None

    def feed(self, rows: list[Any], *, ended: bool) -> None:
        """Take more rows."""
        self._held += rows
        self._ended = ended

    @property
    def wants(self) -> bool:
        """Whether there have to be more rows before there is a chunk."""
        return not self._ended and len(self._held) <= self._size

    def chunks(self, running: Running, position: Mapping[str, Any], *, together: bool) -> Iterator[Read]:  # noqa: ARG002
        first, skip = 0, int(position.get("rows", 0))
        while self._held:
            some, self._held = self._held[: self._size], self._held[self._size :]
            start, first = first, first + len(some)
            if first <= skip:
                continue
            chunk = Values(some, start, self._scratch, self._types)
            yield Read(chunk, self._ended and not self._held, {"rows": first})
            if self._types is None and self.total is None:
                self._types = _quietly(chunk)


def _quietly(chunk: Values) -> dict[str, str] | None:
    """The columns of the first chunk are those of all; rows that are no maps have none."""
    try:
        return chunk.columns()
    except Failing:
        return None


class Text(Source):
    """A CSV file, or one with a JSON object a line."""

    def __init__(self, given: Mapping[str, Any], scratch: Path, size: int, running: Running) -> None:
        self._path = Path(given["path"])
        self._scratch, self._size = scratch, size
        self._lines = given["format"] != "csv"
        self.identity = identity_of(self._path)
        self.whole = self._path.stat().st_size if not self._zipped else None
        self._start, self._options = 0, ""
        self._quote: bytes | None = None
        self._types = self._sample() if self._lines else self._sniff(running)

    @property
    def _zipped(self) -> bool:
        return self._path.suffix == ".gz"

    def _open(self) -> IO[bytes]:
        if self._zipped:
            return cast("IO[bytes]", gzip.open(self._path, "rb"))
        return self._path.open("rb")

    def _sample(self) -> dict[str, str]:
        with self._open() as file:
            rows = (decoded(line, number, self._path) for number, line in enumerate(file, 1) if line.strip())
            return columns_of(islice(rows, SAMPLE))

    def _sniff(self, running: Running) -> dict[str, str]:
        with opened(running, None, {}) as connection:
            found = connection.execute(
                "SELECT Delimiter, Quote, Escape, NewLineDelimiter, Comment, SkipRows, HasHeader, Columns, DateFormat, "
                "TimestampFormat FROM sniff_csv($1)",
                [str(self._path)],
            ).fetchone()
        delimiter, quote, escape, newline, comment, skipped, header, columns, dates, times = found
        problem = uneven(self._path, columns[0]["name"]) if len(columns) == 1 and not self._zipped else None
        if problem is not None:
            raise problem
        quote, escape = (None if part in (_NONE, None, "") else part for part in (quote, escape))
        if comment not in (_NONE, None, "") or skipped or escape not in (None, quote) or newline == "\\r":
            raise Unsplittable
        quote = quote or '"'
        self._quote = quote.encode()
        options = [
            "auto_detect = false, header = false, null_padding = false",
            f"delim = {literal(delimiter)}, quote = {literal(quote)}, escape = {literal(quote)}",
        ]
        options += [f"dateformat = {literal(dates)}"] if dates else []
        options += [f"timestampformat = {literal(times)}"] if times else []
        self._options = ", ".join(options)
        self._start = self._behind_header() if header else 0
        return {column["name"]: column["type"] for column in columns}

    def _behind_header(self) -> int:
        with self._open() as file:
            first = next(pieces(file, 0, 1, quote=self._quote), None)
        return first.end if first is not None else 0

    def chunks(self, running: Running, position: Mapping[str, Any], *, together: bool) -> Iterator[Read]:  # noqa: ARG002
        offset, first = int(position.get("offset", self._start)), int(position.get("rows", 0))
        with self._open() as file:
            file.seek(offset)
            cut = pieces(file, offset, self._size, quote=self._quote, fill=_FILL if together else 0)
            for number, piece in enumerate(cut):
                path = self._scratch / f"chunk-{number % 4}"
                path.write_bytes(piece.body)
                chunk: Chunk
                if self._lines:
                    chunk = Lines(path, piece.rows, first, self._types)
                else:
                    chunk = Csv(path, piece.rows, first, self._types, self._options)
                first += piece.rows
                yield Read(chunk, piece.last, {"offset": piece.end, "rows": first}, -(-piece.rows // self._size))


class Unsplittable(Exception):
    """A dialect of CSV whose rows only DuckDB can tell apart."""


class Query(Source):
    """Whatever DuckDB can read: its result is staged on disk in one go, so that chunks are ranges of it."""

    def __init__(self, query: str, params: list[Any], running: Running, *, given: Mapping[str, Any], size: int) -> None:
        self._size = size
        self._stage = given["scratch"] / f"stage_{uuid.uuid4().hex}.duckdb"
        alias = f"noetl_staging_{uuid.uuid4().hex}"
        with opened(running, given.get("file"), given["config"]) as connection:
            connection.execute(f"ATTACH {literal(str(self._stage))} AS {alias}")
            connection.execute(f"CREATE TABLE {alias}.main.staged AS {query}", params)
            self.total = connection.execute(f"SELECT count(*) FROM {alias}.main.staged").fetchone()[0]
            described = connection.execute(f"SELECT * FROM {alias}.main.staged LIMIT 0").description
            connection.execute(f"DETACH {alias}")
        self._types = {column[0]: str(column[1]) for column in described}
        self._bytes = self._stage.stat().st_size

    def chunks(self, running: Running, position: Mapping[str, Any], *, together: bool) -> Iterator[Read]:  # noqa: ARG002
        total = self.total or 0
        one = max(1, self._bytes * self._size // max(1, total))
        chunks = max(1, _FILL // one) if together else 1
        for first in range(int(position.get("rows", 0)), total, self._size * chunks):
            rows = min(self._size * chunks, total - first)
            size = self._bytes * rows // total
            chunk = Staged(self._stage, first, rows, size, self._types)
            yield Read(chunk, first + rows >= total, {"rows": first + rows}, -(-rows // self._size))

    def close(self) -> None:
        self._stage.unlink(missing_ok=True)


def source_of(given: Mapping[str, Any], running: Running, scratch: Path, size: int) -> Source:
    """The source of a transfer."""
    if given["kind"] in ("data", "http"):
        return Fed(given, scratch, size)
    given = {**given, "scratch": scratch}
    if given["kind"] == "duckdb":
        text, params = given["query"]
        if order := given.get("order_by"):
            text = f"SELECT * FROM (\n{text}\n) ORDER BY {names(order)}"
        return Query(text, params, running, given=given, size=size)
    path = Path(given["path"])
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is not there"
        raise Failing("fail", f"the source's file `{path}` {what}")
    if given["format"] in ("csv", "ndjson"):
        try:
            return Text(given, scratch, size, running)
        except Unsplittable:
            return _staged(path, f"FROM read_csv({literal(str(path))})", running, given, size)
    if given["format"] == "parquet":
        return _staged(path, f"FROM read_parquet({literal(str(path))})", running, given, size)
    return _array(path, running, given, scratch=scratch, size=size)


def _staged(path: Path, query: str, running: Running, given: Mapping[str, Any], size: int) -> Source:
    made = Query(query, [], running, given=given, size=size)
    made.identity = identity_of(path)
    return made


def _array(path: Path, running: Running, given: Mapping[str, Any], *, scratch: Path, size: int) -> Source:
    """A JSON file that is an array: its objects are written one a line first."""
    lines = scratch / "array.ndjson"
    with opened(running, None, given["config"]) as connection, lines.open("wb") as file:
        query = "SELECT json(json) FROM read_json_objects($1, format = 'auto')"
        connection.execute(query, [str(path)])
        while some := connection.fetchmany(_AT_ONCE):
            file.write(b"".join(row[0].encode() + b"\n" for row in some))
    made = Text({**given, "path": str(lines), "format": "ndjson"}, scratch, size, running)
    made.identity = identity_of(path)
    return made


def identity_of(path: Path) -> list[int]:
    """What tells whether a file is still the same."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def decoded(line: bytes, number: int, path: Path) -> Any:
    """A line of JSON; Failing: it is none."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode("utf-8", "replace").strip()
        raise Failing("type", f"`{path}` line {number:,} is not JSON ({error}): {shown!r}", row=number) from None
