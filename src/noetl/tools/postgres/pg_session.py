"""Statements on one connection: sent with their parameters, their rows taken some at a time as they come.

Rows are never all in memory here, whatever the statement is: the server sends them as they are read. That is what a
cursor would do, and it holds for `INSERT … RETURNING` as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import psycopg
from psycopg import capabilities, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch, send
from psycopg.types import TypeInfo

from noetl.drivers.postgres import task_failure
from noetl.drivers.spilled_data import output_limit, over_limit
from noetl.model.output import NDJSON, Spilled
from noetl.ports import Call, World
from noetl.rows.columns import Columns
from noetl.tools.postgres.connection_pool import PgPool
from noetl.tools.postgres.parameters import ANY, NotFinite, Parameter, list_parameter, parameter

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult


# Rows on their way out of a database: held while they are few, in a file as soon as they are many and nobody looks.


class Rows:
    """The rows of one statement, some at a time."""

    def __init__(self, call: Call, world: World) -> None:
        self._world = world
        self._spill = call.spill
        self._limit = output_limit(call)
        self._encode = msgspec.json.Encoder().encode_lines
        self._held: list[dict[str, Any]] = []
        self._columns = Columns()
        self._path: Path | None = None
        self._file: IO[bytes] | None = None
        self.count = 0
        #: as lines of JSON
        self.bytes = 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Take more rows. Failing: there are more than there may be."""
        if not rows:
            return
        lines = self._encode(rows)
        self.count += len(rows)
        self.bytes += len(lines)
        if self.bytes > self._limit:
            raise task_failure("limit", over_limit("the result", self._limit))
        if self._file is not None:
            self._write(rows, lines)
            return
        self._held += rows
        if self._spill is not None and self.bytes > self._spill:
            self._path = self._world.draft(".ndjson")
            self._file = self._path.open("wb", buffering=1 << 20)
            held, self._held = self._held, []
            self._write(held, self._encode(held))

    def _write(self, rows: list[dict[str, Any]], lines: bytes) -> None:
        assert self._file is not None
        self._columns.add(rows)
        self._file.write(lines)

    def finish(self) -> list[dict[str, Any]] | Spilled:
        """All of them, or where they are."""
        if self._file is None:
            return self._held
        self._file.close()
        return Spilled(str(self._path), NDJSON, self.count, self._columns.types())

    def discard(self) -> None:
        """Forget them, and the file."""
        self._held = []
        if self._file is not None and self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def unique(names: Sequence[str]) -> list[str]:
    """Names of columns, those that come again with a number behind them: a map has each key once."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        number, made = 0, name
        while made in seen or (number and made in taken):
            number += 1
            made = f"{name}_{number}"
        seen.add(made)
        found.append(made)
    return found


#: so many rows are taken at a time; a few large ones must not fill the memory
_AT_ONCE = 100
#: after so many of these runs others have their turn
_TURNS = 10
_STATUS = pq.ExecStatus
_ROWS = (_STATUS.TUPLES_CHUNK, _STATUS.SINGLE_TUPLE, _STATUS.TUPLES_OK)
_COPIES = (_STATUS.COPY_IN, _STATUS.COPY_OUT, _STATUS.COPY_BOTH)

#: types below are PostgreSQL's own
_FIRST_MADE = 16_384
_ELEMENT = "SELECT CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END AS element FROM pg_type WHERE oid = $1"

Take = Callable[[list[dict[str, Any]]], None]


class PgSession:
    """A connection while a task has it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], pool: PgPool) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pool = pool

    async def command(self, text: str) -> None:
        """Run text of our own, or several statements of it, that yields nothing."""
        self._pgconn.send_query(text.encode())
        await self._read_results(None)

    async def run(self, text: str, values: list[Any], take: Take | None = None, *, typed: bool = False) -> int:
        """Run one statement; how many rows it yielded or changed."""
        given = await self._parameters(text, values, typed=typed)
        self._pgconn.send_query_params(
            text.encode(), [value for _, value in given], param_types=[kind for kind, _ in given]
        )
        if capabilities.has_stream_chunked():
            self._pgconn.set_chunked_rows_mode(_AT_ONCE)
        else:  # of an older libpq, each row comes by itself
            self._pgconn.set_single_row_mode()
        return await self._read_results(take)

    async def _read_results(self, take: Take | None) -> int:
        """All that the server says to what was sent; how many rows were meant by it. psycopg.Error: it refused."""
        count, turn = 0, 0
        refused: psycopg.Error | None = None
        reader = _RowReader(self._connection)
        await self._wait(send(self._pgconn))
        while (result := await self._next_result(refused)) is not None:
            status = result.status
            if status == _STATUS.FATAL_ERROR:
                refused = refused or error_from_result(result, encoding="utf-8")
            elif status in _COPIES:
                raise task_failure("sql", "`COPY` from or to a client cannot be part of a task")
            elif status in _ROWS and result.ntuples:
                count += result.ntuples
                if take is not None:
                    await self._register_arrays(reader, result)
                    take(reader.rows(result))
            elif status == _STATUS.COMMAND_OK:
                count = result.command_tuples or 0
            turn += 1
            if turn % _TURNS == 0:
                await asyncio.sleep(0)
        if refused is not None:
            raise refused
        return count

    async def _next_result(self, refused: psycopg.Error | None) -> PGresult | None:
        """The next answer; None: that was all."""
        try:
            found: PGresult | None = await self._wait(fetch(self._pgconn))
        except psycopg.OperationalError:
            if refused is not None:
                raise refused from None  # it had said so, and then left
            raise
        return found

    async def _register_arrays(self, reader: _RowReader, result: PGresult) -> None:
        """Have arrays read as such whose elements are of a type that somebody has made, such as an enum."""
        if not reader.is_new:
            return
        kinds = {kind for number in range(result.nfields) if (kind := result.ftype(number)) >= _FIRST_MADE}
        if unknown := kinds - self._pool.elements.keys():
            await self._pool.learn_arrays(unknown)
        for kind in kinds:
            if element := self._pool.elements[kind]:
                TypeInfo(f"noetl {element}", element, kind).register(self._connection)

    async def _wait(self, generator: PQGen[Any]) -> Any:
        try:
            return await self._connection.wait(generator)
        except psycopg.OperationalError as error:
            # A server that closes a connection says why, and may have been heard although nothing can be read any more.
            last = self._pgconn.get_result() if error.sqlstate is None else None
            if last is not None and last.error_field(pq.DiagnosticField.SQLSTATE):
                raise error_from_result(last, encoding="utf-8") from None
            raise

    # --- parameters ----------------------------------------------------------------------------------------------------

    async def _parameters(self, text: str, values: list[Any], *, typed: bool) -> list[Parameter]:
        if typed or not any(isinstance(value, (list, tuple)) for value in values):
            return [parameter(value, typed=typed) for value in values]
        kinds = await self._infer_types(text, values)
        return [
            list_parameter(list(value), kind, is_array=await self._is_array(kind))
            if isinstance(value, (list, tuple))
            else parameter(value)
            for value, kind in zip(values, kinds, strict=True)
        ]

    async def _infer_types(self, text: str, values: list[Any]) -> list[int]:
        """The types of a statement's parameters: the server knows best whether a list is an array or JSON."""
        known = self._pool.inferred.get(text)
        if known is not None:
            return known
        said = [ANY if isinstance(value, (list, tuple)) else parameter(value)[0] for value in values]
        self._pgconn.send_prepare(b"", text.encode(), said)
        await self._read_results(None)
        self._pgconn.send_describe_prepared(b"")
        await self._wait(send(self._pgconn))
        described = await self._wait(fetch(self._pgconn))
        while (await self._wait(fetch(self._pgconn))) is not None:
            pass
        if described.status != _STATUS.COMMAND_OK:
            raise error_from_result(described, encoding="utf-8")
        found = [described.param_type(number) for number in range(described.nparams)]
        self._pool.remember(text, found)
        return found

    async def _is_array(self, kind: int) -> bool:
        if kind < _FIRST_MADE:
            known = self._connection.adapters.types.get(kind)
            return known is not None and known.array_oid == kind
        found: list[dict[str, Any]] = []
        if kind not in self._pool.elements:
            await self.run(_ELEMENT, [kind], found.extend)
            self._pool.elements[kind] = int(found[0]["element"]) if found else 0
        return bool(self._pool.elements[kind])


class _RowReader:
    """Reads the rows of one statement."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._read = Transformer(connection)
        self._names: list[str] = []

    @property
    def is_new(self) -> bool:
        """Whether nothing was read yet."""
        return not self._names

    def rows(self, result: PGresult) -> list[dict[str, Any]]:
        fresh = self.is_new
        if fresh:
            self._names = unique([(result.fname(number) or b"").decode() for number in range(result.nfields)])
        self._read.set_pgresult(result, set_loaders=fresh)
        try:
            return self._read.load_rows(0, result.ntuples, self._row)
        except NotFinite as error:
            said = f"the column {self._locate_column(result, str(error))} holds a number that JSON has no form for: {error}"
            raise task_failure("result-not-json", said) from None

    def _row(self, values: Any) -> dict[str, Any]:
        return dict(zip(self._names, values, strict=True))

    def _locate_column(self, result: PGresult, text: str) -> str:
        wanted = text.encode()
        for column, name in enumerate(self._names):
            if any(wanted in (result.get_value(row, column) or b"") for row in range(result.ntuples)):
                return f"`{name}`"
        return "`?`"
