"""PostgreSQL inside the data host: a connection that can be interrupted, and rows as its COPY writes them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.drivers.datahost import DataHostFailed
from noetl.drivers.postgres import NOT_INSTALLED, from_connect_error, from_statement_error
from noetl.rows.duck import literal, name
from noetl.tools.transfer.chunks import BUFFER, Chunk, LazyFile, replace_columns

if TYPE_CHECKING:
    import psycopg


# Settings of a connection: text means the same everywhere.


#: how values are written as text, whatever the server, the database or the user have set
_SETTLED = (
    "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 1; SET standard_conforming_strings = on"
)
#: a server that knows how looks for us now and then, so that work for somebody who was killed does not go on
_LOOKING = "SET client_connection_check_interval = '2s'"
#: a server that is gone without a word is found out within a minute or so, unless the address says otherwise
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_CANCEL_S = 2.0
_FULL = "53100"


class PgClient:
    """One connection, which works statement by statement unless a transaction was begun."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        try:
            import psycopg
        except ImportError:
            raise DataHostFailed("fail", NOT_INSTALLED) from None
        try:
            where: dict[str, Any] = {**_ALIVE, **psycopg.conninfo.conninfo_to_dict(**given["connect"])}
            self.connection: psycopg.Connection[Any] = psycopg.connect(
                **where, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor
            )
        except (psycopg.Error, UnicodeError) as error:
            raise DataHostFailed(**from_connect_error(error, f"the credential `{given['auth']}`").failure) from None
        try:
            self.connection.execute(_SETTLED)
            with contextlib.suppress(psycopg.Error):
                self.connection.execute(_LOOKING)
        except psycopg.Error as error:
            self.close()
            raise refusal(error) from None

    def do(self, text: str, params: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run a statement; values are bound, as `$1`."""
        return self.connection.execute(text.encode(), params or None)

    def one(self, text: str, params: Sequence[Any] = ()) -> Any:
        """The first row of a statement's result; None: there is none."""
        return self.do(text, params).fetchone()

    def all(self, text: str, params: Sequence[Any] = ()) -> list[Any]:
        """All rows of a statement's result."""
        return list(self.do(text, params).fetchall())

    @property
    def lost(self) -> bool:
        """Whether nobody answers any more."""
        return bool(self.connection.closed or self.connection.broken)

    def rollback(self) -> None:
        """End a transaction, if there is one; that of a lost connection ends by itself."""
        import psycopg

        with contextlib.suppress(psycopg.Error):
            if not self.lost:
                self.do("ROLLBACK")

    def interrupt(self) -> None:
        """Have the server stop what it does; whoever asks does not wait for it."""

        def cancel() -> None:
            import psycopg

            with contextlib.suppress(psycopg.Error):
                self.connection.cancel_safe(timeout=_CANCEL_S)

        threading.Thread(target=cancel, daemon=True).start()

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


def refusal(error: psycopg.Error, message: str | None = None) -> DataHostFailed:
    """What PostgreSQL refused, as the failure of a task; `message` says it better than the server alone."""
    found = from_statement_error(error).failure
    said = message or found["message"]
    if error.sqlstate == _FULL:
        said = f"the disk of the server is full: {said}"
    diag = error.diag
    said = ". ".join(part for part in (said, diag.message_detail, diag.message_hint) if part)
    return DataHostFailed(**{**found, "message": said})


# Rows as `COPY … TO STDOUT (FORMAT csv)` writes them. Another PostgreSQL takes them as they are. For everything else DuckDB
# reads them: SQL turns what the two write in different ways, such as arrays and bytes, into what DuckDB has a type for.


#: DuckDB makes room for lines of twice as many bytes, unless it is told of longer ones
_LINE = 1_000_000
_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "UINTEGER",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timetz": "TIMETZ",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
    "json": "JSON",
    "jsonb": "JSON",
    "bytea": "BLOB",
}
#: elements of arrays that JSON has a form for without quotes
_NUMBERS = frozenset({"int2", "int4", "int8", "oid", "float4", "float8", "numeric"})
_MOST_DIGITS = 38
#: digits that a double always keeps
_SURE = 15
_TOKENS = r'"(?:[^"\\]|\\.)*"|[^{},"]+|[{},]'


class PgColumn(NamedTuple):
    """A column of a query's result."""

    name: str
    #: the type as PostgreSQL spells it, with its lengths, and its name in the catalogue
    spelled: str
    type: str
    #: of `numeric`: digits, and those behind the point
    digits: tuple[int, int] | None = None
    #: of an array the type of its elements
    element: str | None = None

    @property
    def duck(self) -> str:
        """The type that DuckDB has for its values; what it has none for is text."""
        if self.element is not None:
            return "JSON"
        if self.type == "numeric" and self.digits is not None:
            precision, scale = self.digits
            return f"DECIMAL({precision}, {scale})" if 0 <= scale <= precision <= _MOST_DIGITS else "VARCHAR"
        return _TYPES.get(self.type, "VARCHAR")


class CopiedChunk(Chunk):
    """Rows of a query of PostgreSQL."""

    keeps_types = True

    def __init__(self, blocks: Sequence[bytes], rows: int, first: int, columns: Sequence[PgColumn], path: Path) -> None:
        super().__init__(rows, first, sum(map(len, blocks)))
        #: the text, in pieces that may end anywhere
        self.blocks = blocks
        self.pg = {one.name: one for one in columns}
        self._file = LazyFile(path, blocks)

    def columns(self) -> dict[str, str]:
        return {key: one.duck for key, one in self.pg.items()}

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:  # noqa: ARG002  they are what they are
        made = {key: text for key, one in self.pg.items() if (text := _convert_column(one))}
        read = {key: "VARCHAR" if key in made else one.duck for key, one in self.pg.items()}
        return self._read(read, made)

    def as_text(self) -> str:
        """What stands behind FROM where all columns are text, as PostgreSQL wrote it."""
        return self._read(dict.fromkeys(self.pg, "VARCHAR"), {})

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:  # noqa: ARG002
        return self.as_text(), name(column)

    def bodies(self, connection: Any, chosen: str = "*") -> Sequence[bytes]:
        if any(one.type == "numeric" and one.duck == "VARCHAR" for one in self.pg.values()):
            return _NumbersChunk(self).bodies(connection, chosen)
        return super().bodies(connection, chosen)

    def with_numbers(self, connection: Any) -> str:
        """What stands behind FROM where numbers without limits are JSON: as numbers if no digit is lost, else as text."""
        free = [key for key, one in self.pg.items() if one.type == "numeric" and one.duck == "VARCHAR"]
        made = ", ".join(f"{_number(name(key))} AS {name(key)}" for key in free)
        return f"(SELECT * REPLACE ({made}) FROM {self.relation(connection, {})})"

    def _read(self, types: Mapping[str, str], made: Mapping[str, str]) -> str:
        columns = ", ".join(f"{literal(key)}: {literal(kind)}" for key, kind in types.items())
        options = "auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"'"
        options += ", null_padding = false, allow_quoted_nulls = false"
        if any(map(_has_long_line, self.blocks)):
            options += f", max_line_size = {2 * self.bytes}"
        else:
            options += f", {BUFFER}"
        found = f"read_csv({literal(str(self._file.path()))}, {options}, columns = {{{columns}}})"
        return replace_columns(found, made)

    def forget(self) -> None:
        self._file.forget()


def _has_long_line(block: bytes) -> bool:
    """Whether so many bytes follow each other that end no line."""
    at = 0
    while len(block) - at > _LINE:
        end = block.rfind(b"\n", at, at + _LINE)
        if end < 0:
            return True
        at = end + 1
    return False


class _NumbersChunk(Chunk):
    """The same rows on their way to JSON."""

    def __init__(self, chunk: CopiedChunk) -> None:
        super().__init__(chunk.size, chunk.first, chunk.bytes)
        self._chunk = chunk

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:  # noqa: ARG002
        return self._chunk.with_numbers(connection)


def _convert_column(column: PgColumn) -> str | None:
    """What makes of the text that was read what its type says; None: it is that."""
    if column.element is not None:
        return _array(name(column.name), column.element)
    return f"unhex(substr({name(column.name)}, 3))" if column.type == "bytea" else None


def _array(text: str, element: str) -> str:
    """An array as JSON, of whatever depth: its tokens are looked at one by one, as PostgreSQL quotes them."""
    plain = "to_json(t)"
    if element in _NUMBERS:
        finite = _number("t") if element == "numeric" else "CAST(t AS JSON)"
        plain = f"CASE WHEN t IN ('NaN', 'Infinity', '-Infinity') THEN to_json(t) ELSE {finite} END"
    elif element == "bool":
        plain = "to_json(t = 't')"
    quoted = r"""to_json(regexp_replace(t[2:-2], '\\(.)', '\1', 'gs'))"""
    if element in ("json", "jsonb"):
        quoted, plain = r"""CAST(regexp_replace(t[2:-2], '\\(.)', '\1', 'gs') AS JSON)""", "CAST(t AS JSON)"
    value = f"CASE WHEN t[1] = '\"' THEN {quoted} WHEN upper(t) = 'NULL' THEN CAST('null' AS JSON) ELSE {plain} END"
    token = f"CASE t WHEN '{{' THEN '[' WHEN '}}' THEN ']' WHEN ',' THEN ',' ELSE CAST({value} AS VARCHAR) END"
    tokens = rf"regexp_extract_all(regexp_replace({text}, '^\[[^=]*\]=', ''), {literal(_TOKENS)}, 0, 's')"
    return f"CAST(array_to_string(list_transform({tokens}, lambda t: {token}), '') AS JSON)"


def _number(text: str) -> str:
    """A number of any length as JSON: a number if no digit is lost."""
    digits = rf"length(ltrim(regexp_replace({text}, '[^0-9]', '', 'g'), '0'))"
    plain = rf"regexp_full_match({text}, '-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?')"
    return f"CASE WHEN {plain} AND {digits} <= {_SURE} THEN CAST({text} AS JSON) ELSE to_json({text}) END"
