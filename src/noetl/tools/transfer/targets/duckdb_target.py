"""Rows to a table of a DuckDB file.

How many chunks are in is a row of a table beside, written in the transactions that bring them in; so a chunk that is
brought a second time after a crash is known. With `replace` the chunks go to a table of another name first.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from noetl.drivers.datahost import Database, DataHostFailed, HostCall
from noetl.rows.duck import literal, make_distinct, name, names
from noetl.tools.transfer.column_types import cast_value
from noetl.tools.transfer.diagnosis import explain_error
from noetl.tools.transfer.mapping import Column, MappedChunk
from noetl.tools.transfer.targets.target import Target, TargetChunk, TargetContext

_MARKERS = '"noetl_transfers"'
#: tables are made and dropped by one transfer at a time; who else marks chunks in a file, by file
_catalogue = threading.RLock()
_marking: dict[str, int] = {}


class TableTarget(Target):
    """A table; made from the first rows if it is not there."""

    def __init__(self, given: Mapping[str, Any], around: TargetContext) -> None:
        super().__init__(given, around)
        *schema, self._name = str(given["table"]).split(".")
        self._schema = schema[-1] if schema else "main"
        self._file: str = given["file"]
        self._keys: list[str] = given.get("key") or []
        self._database: Any = None
        self._connection: Any = None
        self._in_transaction = False
        self._known: dict[str, str] | None = None
        #: chunks and rows that are there to stay
        self._committed = (0, 0)
        #: an earlier attempt came as far as that, and the crash came behind it
        self._finished = False

    @property
    def _table(self) -> str:
        return f"{name(self._schema)}.{name(self.stage if self.replaces else self._name)}"

    # --- taking it up --------------------------------------------------------------------------------------------------

    def open(self, running: HostCall) -> int:
        self._database = Database(running, self._file, self.context.config)
        self._connection = self._database.connection
        with _catalogue, running.attach(self._connection):
            _marking[self._file] = _marking.get(self._file, 0) + 1
            if self._schema != "main":
                self._do(f"CREATE SCHEMA IF NOT EXISTS {name(self._schema)}")
            self._do(f"CREATE TABLE IF NOT EXISTS {_MARKERS} (transfer VARCHAR, chunks BIGINT, total BIGINT)")
            found = self._one(f"SELECT chunks, total FROM {_MARKERS} WHERE transfer = $1", [self.context.token])
            if found is None and self.context.final:
                self._finished, found = True, (self.context.recorded, self.context.rows)
            if found is None:
                kept = 0 if self.replaces else self.context.recorded
                self._do(f"DROP TABLE IF EXISTS {self._table}" if self.replaces else "SELECT 1")
                found = (kept, self.context.rows if kept else 0)
                self._do(f"INSERT INTO {_MARKERS} VALUES ($1, $2, $3)", [self.context.token, *found])
        self.chunks, self.rows = self._committed = found
        return self.chunks

    def restart(self, running: HostCall) -> bool:
        if self.chunks and self.mode in ("append", "insert"):
            return False
        with running.attach(self._connection):
            if self.replaces:
                self._do(f"DROP TABLE IF EXISTS {self._table}")
            self._do(f"DELETE FROM {_MARKERS} WHERE transfer = $1", [self.context.token])
            self._do(f"INSERT INTO {_MARKERS} VALUES ($1, 0, 0)", [self.context.token])
        self._finished = False
        self.chunks, self.rows = self._committed = (0, 0)
        return True

    # --- chunks ----------------------------------------------------------------------------------------------------------

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:
        if given.index < self.chunks:
            return {}, b""
        with running.attach(self._connection) as connection:
            mapped = self.projection.of(given.chunk, given.about, given.connection)
            types = self._types(mapped)
            self._database.reserve_memory(given.chunk.bytes)
            if not self._in_transaction:
                self._do("BEGIN")
                self._in_transaction = True
            try:
                self._insert(mapped, types)
                marker = f"UPDATE {_MARKERS} SET chunks = $1, total = $2 WHERE transfer = $3"
                self._do(marker, [given.following, self.rows + given.chunk.size, self.context.token])
            except Exception as error:
                self._rollback()
                wanted = {one.source: types[one.name] for one in mapped.columns if one.source}
                raise explain_error(error, mapped.chunk, connection, wanted) from error
            finally:
                if mapped.chunk is not given.chunk:
                    mapped.chunk.forget()
        self.chunks = given.following
        self.rows += given.chunk.size
        return {}, b""

    def _types(self, mapped: MappedChunk) -> dict[str, str]:
        """The table's columns; a table that is not there is made. Failing: the rows have others."""
        if self._known is None:
            with _catalogue:
                self._known = self._describe_table() or self._create_table(mapped)
        lower = {key.lower(): (key, kind) for key, kind in self._known.items()}
        for one in mapped.columns:
            if one.name.lower() not in lower:
                has = ", ".join(f"`{key}`" for key in self._known)
                row = mapped.chunk.row_with(one.source) if one.source else None
                where = f"row {row:,}: " if row is not None else ""
                way = "; drop the table first if it is to have other columns" if self.replaces else ""
                said = f"{where}the table `{self.given['table']}` has no column `{one.name}`; it has {has}{way}"
                place: dict[str, Any] = {"column": one.name} | ({} if row is None else {"row": row})
                raise DataHostFailed("sql", said, **place)
        return {one.name: lower[one.name.lower()][1] for one in mapped.columns}

    def _describe_table(self, table: str | None = None) -> dict[str, str]:
        rows = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database() "
            "AND schema_name = $1 AND table_name = $2 ORDER BY column_index",
            [self._schema, table or (self.stage if self.replaces else self._name)],
        ).fetchall()
        return dict(rows)

    def _create_table(self, mapped: MappedChunk) -> dict[str, str]:
        types = self._describe_table(self._name) if self.replaces else {}
        if not types:
            known = mapped.chunk.columns()
            types = {one.name: known[one.source] if one.source else _sort(one.value) for one in mapped.columns}
        if not types:
            raise DataHostFailed(
                "type", f"the table `{self.given['table']}` is not there, and the rows have no columns"
            )
        columns = ", ".join(f"{name(key)} {kind}" for key, kind in types.items())
        self._do(f"CREATE TABLE {self._table} ({columns})")
        return types

    def _insert(self, mapped: MappedChunk, types: Mapping[str, str]) -> None:
        columns = mapped.columns
        wanted = {one.source: types[one.name] for one in columns if one.source}
        source = mapped.chunk.relation(self._connection, wanted)
        known = mapped.chunk.columns() if mapped.chunk.keeps_types else {}
        casts = [cast_value(_expression(one), known.get(one.source or "", ""), types[one.name]) for one in columns]
        chosen = ", ".join(f"{cast} AS {name(one.name)}" for cast, one in zip(casts, columns, strict=True))
        select = f"SELECT {chosen} FROM {source}"
        if self.mode == "upsert":
            self._upsert(select, [one.name for one in columns], mapped)
        else:
            self._do(f"INSERT INTO {self._table} ({names(one.name for one in columns)}) {select}")

    def _upsert(self, select: str, columns: list[str], mapped: MappedChunk) -> None:
        lacking = [key for key in self._keys if key not in columns]
        if lacking:
            raise DataHostFailed("type", f"the rows have no column `{lacking[0]}`, which is the `key` of the upsert")
        empty = " OR ".join(f"{name(key)} IS NULL" for key in self._keys)
        at = name(make_distinct("noetl_n", columns))
        null = self._one(
            f"SELECT {at} FROM (SELECT row_number() OVER () AS {at}, * FROM ({select})) WHERE {empty} LIMIT 1"
        )
        if null is not None:
            row = mapped.chunk.first + null[0]
            raise DataHostFailed(
                "type", f"row {row:,} has no value for `{', '.join(self._keys)}`, the `key` of the upsert"
            )
        # Of rows with the same key in one chunk the last one counts, as if they had come one by one.
        last = f"row_number() OVER (PARTITION BY {names(self._keys)} ORDER BY {at} DESC) = 1"
        source = f"SELECT * FROM (SELECT *, row_number() OVER () AS {at} FROM ({select})) QUALIFY {last}"
        same = " AND ".join(f"t.{name(key)} = s.{name(key)}" for key in self._keys)
        others = [key for key in columns if key not in self._keys]
        update = ", ".join(f"{name(key)} = s.{name(key)}" for key in others)
        matched = f"WHEN MATCHED THEN UPDATE SET {update} " if update else ""
        values = ", ".join(f"s.{name(key)}" for key in columns)
        self._do(
            f"MERGE INTO {self._table} t USING ({source}) s ON {same} {matched}"
            f"WHEN NOT MATCHED THEN INSERT ({names(columns)}) VALUES ({values})"
        )

    def commit(self, running: HostCall) -> None:
        if self._in_transaction:
            with running.attach(self._connection):
                self._do("COMMIT")
                self._database.release_pages()
            self._in_transaction = False
            self._committed = (self.chunks, self.rows)

    # --- the end ---------------------------------------------------------------------------------------------------------

    def finish(self, running: HostCall) -> dict[str, Any] | None:
        with _catalogue, running.attach(self._connection):
            if not self._finished:
                self._do("BEGIN")
                self._in_transaction = True
                if self.replaces:
                    self._swap()
                self._do(f"DELETE FROM {_MARKERS} WHERE transfer = $1", [self.context.token])
                self._do("COMMIT")
                self._in_transaction = False
        locator = {"file": self._file, "table": f"{self._schema}.{self._name}"}
        meta = {"content_type": "application/vnd.duckdb", "rows": self.rows}
        return {"type": "relational", "locator": locator, "auth_reference": None, "meta": meta}

    def _swap(self) -> None:
        """Put the new rows in place of the old ones; a table that says more than its columns keeps its definition."""
        final = f"{name(self._schema)}.{name(self._name)}"
        staged, there = self._describe_table(), self._describe_table(self._name)
        if not staged:  # there were no rows
            if there:
                self._do(f"DELETE FROM {final}")
            return
        if there and self._is_special():
            self._do(f"DELETE FROM {final}")
            self._do(f"INSERT INTO {final} BY NAME SELECT * FROM {self._table}")
            self._do(f"DROP TABLE {self._table}")
            return
        self._do(f"DROP TABLE IF EXISTS {final}")
        self._do(f"ALTER TABLE {self._table} RENAME TO {name(self._name)}")

    def _is_special(self) -> bool:
        here = "database_name = current_database() AND schema_name = $1 AND table_name = $2"
        looks = [
            f"SELECT 1 FROM duckdb_constraints() WHERE {here}",
            f"SELECT 1 FROM duckdb_indexes() WHERE {here}",
            f"SELECT 1 FROM duckdb_columns() WHERE {here} AND column_default IS NOT NULL",
        ]
        return any(self._one(look, [self._schema, self._name]) is not None for look in looks)

    def _tidy(self) -> None:
        """The markers go with the last transfer that needs them."""
        if not _marking[self._file] and self._one(f"SELECT 1 FROM {_MARKERS}") is None:
            self._do(f"DROP TABLE {_MARKERS}")

    def abort(self, running: HostCall) -> bool:
        self._rollback()
        with _catalogue, running.attach(self._connection):
            if self.replaces:
                self._do(f"DROP TABLE IF EXISTS {self._table}")
            self._do(f"DELETE FROM {_MARKERS} WHERE transfer = $1", [self.context.token])
        return self.replaces

    def close(self) -> None:
        if self._connection is not None:
            with _catalogue:
                _marking[self._file] -= 1
                with contextlib.suppress(Exception):  # it does no harm where it is
                    self._tidy()
            self._database.close()
            self._connection = None

    def _rollback(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            self.chunks, self.rows = self._committed
            self._do("ROLLBACK")

    def _do(self, text: str, params: list[Any] | None = None) -> None:
        self._connection.execute(text, params or [])

    def _one(self, text: str, params: list[Any] | None = None) -> Any:
        return self._connection.execute(text, params or []).fetchone()


def _expression(column: Column) -> str:
    return name(column.source) if column.source else literal(column.value)


def _sort(value: Any) -> str:
    from noetl.tools.transfer.column_types import columns_of

    return columns_of([{"value": value}])["value"]
