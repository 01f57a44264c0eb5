"""PostgreSQL as a source: one COPY in one snapshot, whose rows are counted and never looked into.

Where `order_by` names unique columns, a later attempt goes on behind the key of the last row that was recorded.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.drivers.datahost import DataHostFailed, HostCall
from noetl.rows.duck import names
from noetl.tools.transfer.file_sources import FILL, ChunkRead, RowSource
from noetl.tools.transfer.postgres_copy import CopiedChunk, PgClient, PgColumn, refusal

if TYPE_CHECKING:
    import psycopg

#: what the driver says when the next row has not come
_NOT_YET = (0, b"")
#: rows are put together before they are too many objects
_BLOCK = 1 << 18
#: the driver reads as much at once as its buffer takes, 16 kB, and makes that larger only for a message that is
_WIDEN = f"SELECT repeat('x', {_BLOCK})"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OF_TYPES = (
    "SELECT t.oid, t.typname, format_type(t.oid, $2), t.typcategory = 'A', e.typname "
    "FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.oid = $1"
)
_FULL = "SELECT count(*) FROM pg_attribute WHERE attrelid = $1 AND attname = ANY($2) AND attnotnull"
#: what lies in front of precision and scale where PostgreSQL packs them
_PACKED = 4


class PostgresSource(RowSource):
    """The rows of a query."""

    def __init__(self, given: Mapping[str, Any], scratch: Path, size: int, running: HostCall) -> None:
        import psycopg

        self._scratch, self._size = scratch, size
        self._order: list[str] = given.get("order_by") or []
        self._interrupted = False
        self._whole = bool(given.get("whole"))
        #: the table that the columns are from, where it is one
        self._origin = 0
        self._client = PgClient(given)
        try:
            with running.attach(self._client):
                self._client.do(_SNAPSHOT)
                self._client.do(_WIDEN)
                self._query = self._bind(*given["query"])
                self._columns = self._describe()
        except psycopg.Error as error:
            self.close()
            raise refusal(error, _prefix_message(error, "the source's query")) from None
        except BaseException:
            self.close()
            raise

    def _bind(self, text: str, params: list[Any]) -> str:
        """The query with its values as literals, made by the driver: COPY takes no parameters."""
        import psycopg

        return psycopg.ClientCursor(self._client.connection).mogrify(text.encode(), [_value(one) for one in params])

    def _describe(self) -> list[PgColumn]:
        cursor = self._client.do(f"SELECT * FROM (\n{self._query}\n) AS noetl_rows LIMIT 0")
        result = cursor.pgresult
        assert result is not None
        self._origin = result.ftable(0) if self._whole and result.nfields else 0
        found = [
            self._column((result.fname(at) or b"").decode(), result.ftype(at), result.fmod(at))
            for at in range(result.nfields)
        ]
        seen: set[str] = set()
        for one in found:
            if one.name in seen:
                raise DataHostFailed(
                    "sql", f"the source's query has two columns `{one.name}`: give one of them another name"
                )
            seen.add(one.name)
        for key in self._order:
            if key not in seen:
                has = ", ".join(f"`{one.name}`" for one in found)
                raise DataHostFailed(
                    "sql", f"`order_by` names a column `{key}` that the rows do not have; they have {has}"
                )
        return found

    def _column(self, key: str, kind: int, mod: int) -> PgColumn:
        _, sort, spelled, is_array, element = self._client.one(_OF_TYPES, [kind, mod])
        digits = None
        if sort == "numeric" and mod >= _PACKED:
            packed = mod - _PACKED
            scale = packed & 0x7FF
            digits = packed >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale
        return PgColumn(key, spelled, sort, digits, element if is_array else None)

    # --- reading ---------------------------------------------------------------------------------------------------------

    def chunks(self, running: HostCall, position: Mapping[str, Any], *, together: bool) -> Iterator[ChunkRead]:  # noqa: ARG002
        import psycopg

        try:
            yield from self._chunks(position, FILL if together else 0)
        except psycopg.Error as error:
            raise refusal(error, _prefix_message(error, "the source's query")) from None

    def interrupt(self) -> None:
        self._interrupted = True  # the server may not hear it
        self._client.interrupt()

    def _chunks(self, position: Mapping[str, Any], fill: int) -> Iterator[ChunkRead]:
        first, number = int(position.get("rows", 0)), 0
        waiting: ChunkRead | None = None
        for blocks, rows, last_row in self._portions(self._statement(position), fill):
            if waiting is not None:
                yield waiting
            path = self._scratch / f"copied-{number % 4}"
            chunk = CopiedChunk(blocks, rows, first, self._columns, path)
            first, number = first + rows, number + 1
            waiting = ChunkRead(
                chunk, last=False, position=self._position_after(first, last_row), chunks=-(-rows // self._size)
            )
        self._client.do("COMMIT")
        if waiting is not None:
            yield waiting._replace(last=True)
        elif not position:
            empty = CopiedChunk([], 0, 0, self._columns, self._scratch / "copied-0")
            yield ChunkRead(empty, last=True, position={"rows": 0}, chunks=0)

    def _statement(self, position: Mapping[str, Any]) -> str:
        if not self._order:
            return f"COPY (\n{self._query}\n) TO STDOUT (FORMAT csv)"
        key, rows = position.get("key"), int(position.get("rows", 0))
        behind = f"WHERE {self._after_condition(key)}" if key is not None else ""
        ordered = f"SELECT * FROM (\n{self._query}\n) AS noetl_rows {behind} ORDER BY {names(self._order)}"
        if key is None and rows:
            ordered += f" OFFSET {rows}"
        return f"COPY ({ordered}) TO STDOUT (FORMAT csv)"

    def _after_condition(self, key: list[str]) -> str:
        """What is true of the rows behind a key. Nulls come last, and a comparison that meets one is not true but unknown."""
        behind = f"({names(self._order)}) > ({self._literals(key)})"
        return f"({behind}) IS NOT FALSE" if self._may_be_null() else behind

    def _may_be_null(self) -> bool:
        """Whether a key may have a null; asked because no index finds what IS NOT FALSE. Joins in a query make nulls of
        columns that have none, so only those of a table are known.
        """
        if not self._origin:
            return True
        (full,) = self._client.one(_FULL, [self._origin, self._order])
        return bool(full < len(set(self._order)))

    def _literals(self, values: list[str]) -> str:
        from psycopg import sql

        return ", ".join(sql.Literal(one).as_string(self._client.connection) for one in values)

    def _portions(self, statement: str, fill: int) -> Iterator[tuple[list[bytes], int, bytes]]:
        """Blocks of whole rows, how many rows they are, and the last one of them."""
        size, held = self._size, []
        rows = length = given = 0
        last_row = b""
        for some in self._rows(statement):
            at = 0
            while at < len(some):
                part = some[at : at + size - rows % size]
                at, rows = at + len(part), rows + len(part)
                held.append(b"".join(part))
                length += len(held[-1])
                last_row = part[-1]
                # The first two are small: the targets have something to begin with while more is read.
                if rows % size == 0 and length >= (fill if given > 1 else 0):
                    yield held, rows, bytes(last_row)
                    held, rows, length, given = [], 0, 0, given + 1
        if rows:
            yield held, rows, bytes(last_row)

    def _rows(self, statement: str) -> Iterator[list[Any]]:
        """Rows as the server sends them, one a message, some at a time."""
        from psycopg.pq import ExecStatus

        pg = self._client.connection.pgconn
        pg.send_query(statement.encode())
        while pg.flush():
            select.select([], [pg.socket], [], 1.0)
        result = self._read_result()
        if result is None or result.status != ExecStatus.COPY_OUT:
            raise _error(result, pg)
        yield from self._receive_rows()
        result = self._read_result()
        if result is None or result.status != ExecStatus.COMMAND_OK:
            raise _error(result, pg)
        while pg.get_result() is not None:
            pass

    def _receive_rows(self) -> Iterator[list[Any]]:
        take = partial(self._client.connection.pgconn.get_copy_data, 1)
        got: list[Any] = []
        size = 0
        while True:
            before, length = len(got), 0
            for length, row in iter(take, _NOT_YET):
                if length < 0:
                    break
                got.append(row)
            size += sum(map(len, got[before:]))
            over = length < 0
            if got and (over or size >= _BLOCK or len(got) >= self._size):
                yield got
                got, size = [], 0
            if over:
                return
            self._wait()

    def _read_result(self) -> Any:
        pg = self._client.connection.pgconn
        while pg.is_busy():
            self._wait()
        return pg.get_result()

    def _wait(self) -> None:
        if self._interrupted:
            raise DataHostFailed("cancelled", "it was interrupted")
        pg = self._client.connection.pgconn
        select.select([pg.socket], [], [], 1.0)
        pg.consume_input()

    def _position_after(self, rows: int, last_row: bytes) -> dict[str, Any]:
        """Where to go on: behind a key, and where a part of that is null, behind so many rows."""
        if not self._order:
            return {"rows": rows}
        fields = dict(zip((one.name for one in self._columns), fields_of(last_row), strict=True))
        key = [fields[column] for column in self._order]
        return {"rows": rows} if None in key else {"rows": rows, "key": key}

    def close(self) -> None:
        self._client.close()


def fields_of(row: bytes) -> list[str | None]:
    """The fields of one row of CSV as PostgreSQL writes it: what is empty and not quoted is null."""
    text, fields, at = row.decode().removesuffix("\n"), [], 0
    while at <= len(text):
        if text[at : at + 1] != '"':
            end = text.find(",", at)
            end = len(text) if end < 0 else end
            fields.append(text[at:end] or None)
            at = end + 1
            continue
        end = at + 1
        while text[end] != '"' or text[end + 1 : end + 2] == '"':
            end += 1 if text[end] != '"' else 2
        fields.append(text[at + 1 : end].replace('""', '"'))
        at = end + 2
    return fields


def _value(value: Any) -> Any:
    """A value as it is bound: maps, and lists that hold more than plain values, as JSON."""
    from psycopg.types.json import Jsonb

    nested = isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value)
    return Jsonb(value) if nested or isinstance(value, dict) else value


def _prefix_message(error: psycopg.Error, what: str) -> str | None:
    said = error.diag.message_primary
    return f"{what}: {said}" if said else None


def _error(result: Any, pg: Any) -> psycopg.Error:
    import psycopg
    from psycopg.errors import error_from_result

    if result is not None and result.error_message:
        return error_from_result(result)
    return psycopg.OperationalError(pg.error_message.decode("utf-8", "replace").strip() or "the server is gone")
