"""Chunks as text that `COPY … FROM STDIN (FORMAT csv)` takes: as they are where that is possible, else written by DuckDB."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from noetl.drivers.datahost import DataHostFailed
from noetl.drivers.postgres import is_lost
from noetl.rows.duck import literal, name, names
from noetl.tools.transfer.chunks import Chunk, CsvChunk, StagedChunk
from noetl.tools.transfer.diagnosis import explain_error
from noetl.tools.transfer.mapping import Column, MappedChunk
from noetl.tools.transfer.postgres_copy import CopiedChunk, refusal
from noetl.tools.transfer.targets.postgres_tables import Pairs, PgTableColumn, check
from noetl.tools.transfer.targets.target import TargetChunk

if TYPE_CHECKING:
    import psycopg


_PIECE = 1 << 20
_BLOCK = 1 << 18
_JSON = ("json", "jsonb")
#: dates and times that DuckDB had to be told how to read
_TIMES = ("DATE", "TIME", "TIMESTAMP")
_TOKENS = r'"(?:[^"\\]|\\.)*"|[^\[\],"\s]+|[\[\],]'
_NESTED = ("STRUCT", "MAP", "UNION")


class CopyText(NamedTuple):
    """What is sent, for which columns, and how it is to be read."""

    columns: list[PgTableColumn]
    options: str
    blocks: Sequence[bytes] | Path

    def pieces(self) -> Iterator[bytes]:
        """The text."""
        if not isinstance(self.blocks, Path):
            yield from self.blocks
            return
        with self.blocks.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def whole(self) -> bytes:
        """All of it, where a mistake is looked for."""
        return b"".join(self.pieces())


@contextlib.contextmanager
def copy_text(mapped: MappedChunk, columns: Sequence[PgTableColumn], given: TargetChunk) -> Iterator[CopyText]:
    """A chunk for a COPY into these columns, one for each of the mapping's."""
    if is_raw(mapped.chunk, mapped.columns):
        raw = _raw(mapped, columns)
        if raw is not None:
            yield raw
            return
    path = Path(given.scratch) / f"copy-{id(mapped)}"
    try:
        _write(mapped, columns, given.connection, path)
        yield CopyText(list(columns), "FORMAT csv", path)
    finally:
        path.unlink(missing_ok=True)


def is_raw(chunk: Chunk, columns: Sequence[Column]) -> bool:
    """Whether the text of a chunk may do as it is: each of its columns goes into one of the table."""
    whole = sorted(one.source or "" for one in columns) == sorted(chunk.columns())
    return whole and (isinstance(chunk, CopiedChunk) or (isinstance(chunk, CsvChunk) and chunk.dialect is not None))


def _raw(mapped: MappedChunk, columns: Sequence[PgTableColumn]) -> CopyText | None:
    chunk = mapped.chunk
    by_source = {one.source: into for one, into in zip(mapped.columns, columns, strict=True)}
    ordered = [by_source[key] for key in chunk.columns()]
    if isinstance(chunk, CopiedChunk):
        # Text can be read by any type, except that JSON keeps its own.
        return CopyText(ordered, "FORMAT csv", chunk.blocks)
    assert isinstance(chunk, CsvChunk)
    assert chunk.dialect is not None
    delimiter, quote = chunk.dialect
    if any(one.is_array or one.type == "bytea" for one in columns):
        return None
    if not is_copy_ready(chunk):
        return None
    options = f"FORMAT csv, DELIMITER {literal(delimiter)}, QUOTE {literal(quote)}, ESCAPE {literal(quote)}"
    return CopyText(ordered, f"{options}, FORCE_NULL ({names(one.name for one in ordered)})", [chunk.body])


def is_copy_ready(chunk: Chunk) -> bool:
    """Whether the text of a chunk is as COPY wants it. It takes time to find out, and is known from then on."""
    if not isinstance(chunk, CsvChunk) or chunk.dialect is None:
        return False
    if chunk.regular is None:
        delimiter, quote = (mark.encode() for mark in chunk.dialect)
        chunk.regular = len(delimiter) == 1 and is_regular(chunk.body, delimiter, quote)
    return chunk.regular


def is_regular(body: bytes, delimiter: bytes, quote: bytes) -> bool:
    """Whether COPY sees the same rows: quotes around whole fields, no empty lines, one way to end a line, no old end mark."""
    ends: set[bool] = set()
    for block in _blocks(body, quote):
        # To COPY each quote opens or closes: every second part is inside. One of nothing lies between two that stand for a quote.
        parts = block.split(quote)
        outside = parts[::2]
        if not len(parts) % 2:
            return False
        if not {part[-1:] for part in outside[:-1]} <= {delimiter, b"\n", b""}:
            return False
        if not {part[:1] for part in outside[1:]} <= {delimiter, b"\n", b"\r", b""}:
            return False
        lines = b"\n" + quote.join(outside)
        if b"\n\n" in lines or b"\n\r" in lines or b"\n\\." in lines:
            return False
        returns = lines.count(b"\r")
        if returns and not returns == lines.count(b"\r\n") == lines.count(b"\n") - 1:
            return False
        ends.add(bool(returns))
    return len(ends) <= 1


def _blocks(body: bytes, quote: bytes) -> Iterator[bytes]:
    """Whole rows, not too many: others want to have their turn in between."""
    start = end = quotes = 0
    while start < len(body):
        seen, end = end, body.find(b"\n", max(end, start + _BLOCK)) + 1 or len(body)
        quotes += body.count(quote, seen, end)
        if end == len(body) or not quotes % 2:
            yield body[start:end]
            start = end


# --- by DuckDB ---------------------------------------------------------------------------------------------------------


def check_kept(mapped: MappedChunk, columns: Sequence[PgTableColumn], doubts: Pairs, connection: Any) -> None:
    """Failing: a value of these columns would be another in the table."""
    chunk = mapped.chunk
    source, types = _build_source(mapped, columns, connection)
    texts = {into.name: _text(one, into, types) for one, into in doubts}
    try:
        check(connection, source, texts, doubts, chunk.first)
    except Exception as error:
        raise explain_error(error, chunk, connection, types) from error


def _write(mapped: MappedChunk, columns: Sequence[PgTableColumn], connection: Any, path: Path) -> None:
    chunk = mapped.chunk
    source, types = _build_source(mapped, columns, connection)
    pairs = zip(mapped.columns, columns, strict=True)
    chosen = ", ".join(f"{_text(one, into, types)} AS {name(into.name)}" for one, into in pairs)
    # In a table of one column a null would else be an empty line, and so would text that is empty.
    quoted = ", FORCE_QUOTE *" if len(columns) == 1 else ""
    try:
        query = f"COPY (SELECT {chosen} FROM {source}) TO {literal(str(path))} (FORMAT csv, HEADER false{quoted})"
        connection.execute(query)
    except Exception as error:
        raise explain_error(error, chunk, connection, types) from error


def _build_source(mapped: MappedChunk, columns: Sequence[PgTableColumn], connection: Any) -> tuple[str, dict[str, str]]:
    """What stands behind FROM, and the types that its columns are read with."""
    chunk = mapped.chunk
    types = _as_read(mapped, columns)
    if isinstance(chunk, CopiedChunk):
        return chunk.as_text(), types
    return chunk.relation(connection, {} if isinstance(chunk, StagedChunk) else types), types


def _as_read(mapped: MappedChunk, columns: Sequence[PgTableColumn]) -> dict[str, str]:
    """The types that DuckDB reads columns with: as text, wherever PostgreSQL can make of it what it should be."""
    chunk = mapped.chunk
    known = dict(chunk.columns())
    if isinstance(chunk, StagedChunk):
        return known
    if isinstance(chunk, CsvChunk):
        told = chunk.dialect is None
        return {key: kind if told and kind.startswith(_TIMES) else "VARCHAR" for key, kind in known.items()}
    wanted = dict.fromkeys(known, "VARCHAR")
    if not isinstance(chunk, CopiedChunk):
        pairs = zip(mapped.columns, columns, strict=True)
        wanted |= {one.source: "JSON" for one, into in pairs if one.source and (into.type in _JSON or into.is_array)}
    return wanted


def _text(column: Column, into: PgTableColumn, types: dict[str, str]) -> str:
    """An expression whose text PostgreSQL reads as the value that it should be."""
    if column.source is None:
        return _constant(column.value, into)
    text, kind = name(column.source), types[column.source]
    nested = kind.endswith("]") or kind.startswith(_NESTED)
    if into.is_array:
        return _array(f"CAST(to_json({text}) AS VARCHAR)" if nested else f"CAST({text} AS VARCHAR)")
    if into.type == "bytea":
        return f"'\\x' || hex({text})" if kind == "BLOB" else _bytes(f"CAST({text} AS VARCHAR)")
    if nested or (into.type in _JSON and kind not in ("VARCHAR", "JSON")):
        return f"to_json({text})"
    return f"to_base64({text})" if kind == "BLOB" else text


def _constant(value: Any, into: PgTableColumn) -> str:
    if value is None:
        return "NULL"
    if into.type in _JSON:
        return literal(msgspec.json.encode(value).decode())
    if isinstance(value, (list, dict)):
        text = literal(msgspec.json.encode(value).decode())
        return _array(text) if into.is_array else text
    return _bytes(literal(str(value))) if into.type == "bytea" else f"CAST({literal(value)} AS VARCHAR)"


def _bytes(text: str) -> str:
    """Bytes as text: as PostgreSQL writes them, or base64 as everywhere else."""
    return f"CASE WHEN {text} LIKE '\\x%' THEN {text} ELSE '\\x' || hex(from_base64({text})) END"


def _array(text: str) -> str:
    """A JSON list as an array of PostgreSQL, of whatever depth; text that is none is left to PostgreSQL."""
    quoted = """'"' || replace(replace(json_extract_string(t, '$'), '\\', '\\\\'), '"', '\\"') || '"'"""
    token = (
        "CASE WHEN t = '[' THEN '{' WHEN t = ']' THEN '}' WHEN t = ',' THEN ',' WHEN t = 'null' THEN 'NULL' "
        f"WHEN t[1] = '\"' THEN {quoted} ELSE t END"
    )
    tokens = f"regexp_extract_all({text}, {literal(_TOKENS)}, 0, 's')"
    made = f"array_to_string(list_transform({tokens}, lambda t: {token}), '')"
    return f"CASE WHEN {text}[1] = '[' THEN {made} ELSE {text} END"


# What COPY refused, as column, row and value of the source.


#: `COPY t, line 3, column amount: "abc"`; without a column where the row as a whole is wrong
_PLACE = re.compile(r'^COPY .*?, line (\d+)(?:, column (.+?))?(?:: (?:"(.*)"|null input))?$', re.DOTALL | re.MULTILINE)
_UNIQUE, _NULL = "23505", "23502"
#: what says that values are wrong, not the statement or the server
_OF_VALUES = ("22", "23")
_MOST = 200


def copy_failure(error: psycopg.Error, mapped: MappedChunk, sent: CopyText | None) -> DataHostFailed:
    """The failure of a chunk, with the place if there is one."""
    chunk, diag, state = mapped.chunk, error.diag, error.sqlstate or ""
    if is_lost(error) or not state.startswith(_OF_VALUES):
        return refusal(error)
    said = diag.message_primary or str(error)
    match = _PLACE.search(diag.context or "")
    if match is None or sent is None:
        among = f"(among rows {chunk.first + 1:,} to {chunk.first + chunk.size:,})"
        return refusal(error, f"{said} {among}") if state.startswith("23") else _explain_unplaced(error, said, among)
    quote = getattr(chunk, "dialect", None)
    row = chunk.first + _row(sent.whole(), int(match[1]), (quote[1] if quote else '"').encode())
    column = match[2] or diag.column_name
    if column is None:
        detail = f" ({diag.message_detail})" if state == _UNIQUE and diag.message_detail else ""
        shown = f": {match[3][:_MOST]!r}" if match[3] and not detail else ""
        return DataHostFailed("type", f"row {row:,}: {said}{detail}{shown}", row=row, code=state)
    source = next((one.source for one in mapped.columns if one.name == column and one.source), column)
    if state == _NULL:
        return DataHostFailed(
            "type", f"row {row:,}: column `{column}` must not be empty", column=column, row=row, code=state
        )
    value = (match[3] or "")[:_MOST]
    came = f" (from `{source}`)" if source != column else ""
    message = f"column `{column}`{came}, row {row:,}: {value!r} does not fit: {said}"
    return DataHostFailed("type", message, column=column, row=row, value=value, code=state)


def empty_key_failure(error: psycopg.Error, keys: list[str], failing: DataHostFailed) -> DataHostFailed:
    """The same of an upsert: a key that is empty is told as what it is."""
    column = error.diag.column_name
    if error.sqlstate != _NULL or column not in keys:
        return failing
    row = failing.failure.get("row")
    where = f"row {row:,} has" if row is not None else "a row has"
    message = f"{where} no value for `{column}`, the `key` of the upsert"
    return DataHostFailed("type", message, column=column, **({"row": row} if row is not None else {}))


def _explain_unplaced(error: psycopg.Error, said: str, among: str) -> DataHostFailed:
    return DataHostFailed("type", f"{said} {among}", code=error.sqlstate)


def _row(text: bytes, line: int, quote: bytes) -> int:
    """The row that PostgreSQL means by a line: it counts rows, and with them most ends of lines inside of quotes."""
    said = number = 0
    counted = b"\r"  # as long as it has not seen how lines end
    for number, row in enumerate(_rows(text, quote), 1):
        said += 1 + row.rstrip(b"\r\n").count(counted)
        if said >= line:
            break
        if number == 1:
            counted = b"\r" if row.endswith(b"\r\n") else b"\n"
    return max(1, number)


def _rows(text: bytes, quote: bytes) -> Iterator[bytes]:
    """Lines, put together where an end of one is inside of quotes."""
    held: list[bytes] = []
    odd = 0
    for one in text.split(b"\n"):
        held.append(one)
        odd ^= one.count(quote) & 1
        if not odd:
            yield b"\n".join(held) + b"\n"
            held = []
