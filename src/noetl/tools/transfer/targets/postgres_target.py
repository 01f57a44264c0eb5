"""Rows to a table of PostgreSQL.

Each write is one transaction, and the number of chunks that are in is a row of `noetl_transfers` which changes in it; so what came
of a commit whose answer was lost can be looked up, and a chunk that is brought a second time is known. With `replace` rows go to a
table of another name, and at the end in one transaction to where they belong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl.drivers.datahost import DataHostFailed, HostCall, open_database
from noetl.drivers.postgres import is_lost
from noetl.rows.duck import name, names
from noetl.tools.transfer.chunks import Chunk
from noetl.tools.transfer.mapping import MappedChunk
from noetl.tools.transfer.postgres_copy import CopiedChunk, PgClient, refusal
from noetl.tools.transfer.targets import postgres_tables
from noetl.tools.transfer.targets.copy_input import (
    CopyText,
    check_kept,
    copy_failure,
    copy_text,
    empty_key_failure,
    is_copy_ready,
    is_raw,
)
from noetl.tools.transfer.targets.postgres_tables import PgTable, PgTableColumn, find_doubtful
from noetl.tools.transfer.targets.target import Target, TargetChunk, TargetContext

# What is noted in PostgreSQL of a transfer: a row that changes with the rows that come in.


_TABLE = "noetl_transfers"
_COLUMNS = "transfer text PRIMARY KEY, chunks bigint NOT NULL, total bigint NOT NULL, changed timestamptz NOT NULL DEFAULT now()"
#: what nobody has taken up again for so long is not going to be
_OLD = "30 days"
#: any number that nobody else has; tables are made by one at a time
_LOCK = 6_038_477_210


class Markers:
    """The marker of one target."""

    def __init__(self, schema: str, token: str) -> None:
        self._schema, self._token = schema, token
        self._table = f"{name(schema)}.{name(_TABLE)}"

    def read(self, client: PgClient) -> tuple[int, int] | None:
        """How many chunks and rows are in; whoever is just bringing some in is waited for. None: nothing is noted."""
        import psycopg

        if not client.one("SELECT to_regclass($1)::oid", [self._table])[0]:
            try:
                self._make(client)
            except psycopg.errors.InsufficientPrivilege as error:
                raise self._permission_failure(error) from None
        query = f"SELECT chunks, total FROM {self._table} WHERE transfer = $1 FOR UPDATE"
        row = client.one(query, [self._token])
        return (row[0], row[1]) if row else None

    def _make(self, client: PgClient) -> None:
        client.do("BEGIN")
        client.do("SELECT pg_advisory_xact_lock($1)", [_LOCK])
        if not client.one("SELECT 1 FROM pg_namespace WHERE nspname = $1", [self._schema]):
            client.do(f"CREATE SCHEMA IF NOT EXISTS {name(self._schema)}")
        client.do(f"CREATE TABLE IF NOT EXISTS {self._table} ({_COLUMNS})")
        client.do("COMMIT")

    def _permission_failure(self, error: Exception) -> DataHostFailed:
        message = (
            f"the table `{self._schema}.{_TABLE}`, in which transfers note what they have brought in, cannot be made: "
            f"{' '.join(str(error).split())}. Allow it (GRANT CREATE ON SCHEMA {name(self._schema)}), or make it once: "
            f"CREATE TABLE {self._table} ({_COLUMNS})"
        )
        return DataHostFailed("sql", message, code="42501")

    def begin(self, client: PgClient, chunks: int, rows: int) -> None:
        """Note that there is a transfer. Failing: another attempt has just done so."""
        query = f"INSERT INTO {self._table} VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
        self._check_single(client.do(query, [self._token, chunks, rows]).rowcount)

    def advance(self, client: PgClient, before: tuple[int, int], now: tuple[int, int]) -> None:
        """Note what comes in with this transaction. Failing: another attempt was there meanwhile."""
        query = f"UPDATE {self._table} SET chunks = $1, total = $2, changed = now() WHERE transfer = $3 AND chunks = $4"
        self._check_single(client.do(query, [*now, self._token, before[0]]).rowcount)

    def reset(self, client: PgClient, before: int) -> bool:
        """Note that nothing is in; False: another attempt was there meanwhile."""
        query = f"UPDATE {self._table} SET chunks = 0, total = 0 WHERE transfer = $1 AND chunks = $2"
        return client.do(query, [self._token, before]).rowcount == 1

    def end(self, client: PgClient) -> None:
        """Forget the transfer: all of it is in. Failing: another attempt was there meanwhile."""
        self._check_single(client.do(f"DELETE FROM {self._table} WHERE transfer = $1", [self._token]).rowcount)

    def _check_single(self, changed: int) -> None:
        if changed != 1:
            raise self.conflict_failure()

    def conflict_failure(self) -> DataHostFailed:
        """It is another's."""
        message = f"another attempt at this transfer has gone on with it (it is noted in `{self._schema}.{_TABLE}`)"
        return DataHostFailed("sql", message)

    def sweep(self, client: PgClient) -> None:
        """Remove what transfers left behind that nobody took up again; next time does as well as now."""
        import psycopg

        old = f"DELETE FROM {self._table} WHERE changed < now() - interval '{_OLD}' RETURNING transfer"
        with contextlib.suppress(psycopg.Error):
            for (token,) in client.all(old):
                client.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(f'noetl_stage_{token}')}")


#: where rows of an upsert are before they are held against the table; each connection has its own
_TEMPORARY = "pg_temp.noetl_upsert"


class PostgresTarget(Target):
    """A table; made from the first rows if it is not there."""

    def __init__(self, given: Mapping[str, Any], around: TargetContext) -> None:
        super().__init__(given, around)
        self._keys: list[str] = given.get("key") or []
        self._client: PgClient | None = None
        self._schema = self._name = ""
        self._markers: Markers | None = None
        self._table: PgTable | None = None
        self._staged: tuple[str, ...] | None = None
        self._unique = False
        #: an earlier attempt came as far as that, and the crash came behind it
        self._finished = False

    @property
    def _open_client(self) -> PgClient:
        assert self._client is not None
        return self._client

    @property
    def _open_markers(self) -> Markers:
        assert self._markers is not None
        return self._markers

    # --- taking it up --------------------------------------------------------------------------------------------------

    def open(self, running: HostCall) -> int:
        self._client = PgClient(self.given)
        with self._translate_errors(running):
            self._schema, self._name = postgres_tables.resolve_table(self._open_client, str(self.given["table"]))
            self._markers = Markers(self._schema, self.context.token)
            found = self._open_markers.read(self._open_client)
            if found is None and self.context.final:
                self._finished, found = True, (self.context.recorded, self.context.rows)
            if found is None:
                kept = 0 if self.replaces else self.context.recorded
                found = (kept, self.context.rows if kept else 0)
                if self.replaces:
                    self._open_client.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(self.stage)}")
                self._open_markers.begin(self._open_client, *found)
        self.chunks, self.rows = found
        return self.chunks

    def restart(self, running: HostCall) -> bool:
        if self.chunks and self.mode in ("append", "insert"):
            return False
        with self._translate_errors(running):
            if self._finished:
                self._open_markers.begin(self._open_client, 0, 0)
            elif not self._start_again():
                raise self._open_markers.conflict_failure()
        self._finished = False
        self.chunks = self.rows = 0
        return True

    def _start_again(self) -> bool:
        """Forget what was staged, and that there was anything; False: it is another attempt's by now."""
        self._open_client.do("BEGIN")
        ours = self._open_markers.reset(self._open_client, self.chunks)
        if ours and self.replaces:
            self._open_client.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(self.stage)}")
        self._open_client.do("COMMIT")
        self._table = None
        return ours

    # --- chunks ----------------------------------------------------------------------------------------------------------

    def takes(self, chunk: Chunk) -> bool:
        if not isinstance(chunk, CopiedChunk) or not self.projection.only_renames:
            return False
        return is_raw(chunk, self.projection.of(chunk, {}, None).columns)

    def prepare(self, chunk: Chunk) -> None:
        is_copy_ready(chunk)

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:
        if given.index < self.chunks:
            return {}, b""
        mapped = self.projection.of(given.chunk, given.about, given.connection)
        try:
            with self._translate_errors(running):
                table = self._prepare_table(mapped)
            columns = table.match_columns(mapped)
            self._check(running, mapped, columns, given)
            with copy_text(mapped, columns, given) as sent, running.attach(self._open_client):
                self._copy_chunk(table, mapped, sent, given)
        finally:
            if mapped.chunk is not given.chunk:
                mapped.chunk.forget()
        self.chunks = given.following
        self.rows += given.chunk.size
        return {}, b""

    def _check(self, running: HostCall, mapped: MappedChunk, columns: list[PgTableColumn], given: TargetChunk) -> None:
        """Failing: a value would be another in the table. Rows of PostgreSQL come without anybody who could look."""
        if not (doubts := find_doubtful(mapped, columns)):
            return
        if given.connection is not None:
            check_kept(mapped, columns, doubts, given.connection)
            return
        with open_database(running, None, self.context.config) as connection:
            check_kept(mapped, columns, doubts, connection)

    def _prepare_table(self, mapped: MappedChunk) -> PgTable:
        """The table that rows are copied to; what is missing is made."""
        if self._table is not None:
            return self._table
        final = postgres_tables.describe_table(self._open_client, self._schema, self._name)
        into = self.stage if self.replaces else self._name
        table = postgres_tables.describe_table(self._open_client, self._schema, self.stage) if self.replaces else final
        if table is None:
            self._make(final, into, mapped)
            table = postgres_tables.describe_table(self._open_client, self._schema, into)
            assert table is not None
        if self.mode == "upsert":
            self._check_keys(mapped, table)
            self._unique = postgres_tables.has_unique(self._open_client, table, self._keys)
        self._table = table
        return table

    def _make(self, final: PgTable | None, into: str, mapped: MappedChunk) -> None:
        if final is not None:
            stage = f"{name(self._schema)}.{name(into)}"
            postgres_tables.make_stage(self._open_client, stage, final.match_columns(mapped))
            return
        types = postgres_tables.types_of(self._open_client, mapped)
        if not types:
            raise DataHostFailed(
                "type", f"the table `{self.given['table']}` is not there, and the rows have no columns"
            )
        if self.mode == "upsert":
            self._check_keys(mapped, None)
        postgres_tables.make(self._open_client, self._schema, into, types, self._keys if self.mode == "upsert" else ())

    def _check_keys(self, mapped: MappedChunk, table: PgTable | None) -> None:
        columns = [one.name for one in (table.match_columns(mapped) if table else mapped.columns)]
        lacking = [key for key in self._keys if key not in columns]
        if lacking:
            raise DataHostFailed("type", f"the rows have no column `{lacking[0]}`, which is the `key` of the upsert")

    def _copy_chunk(self, table: PgTable, mapped: MappedChunk, sent: CopyText, given: TargetChunk) -> None:
        """One transaction: the marker, the rows."""
        import psycopg

        client = self._open_client
        try:
            if self.mode == "upsert":
                self._make_temporary(sent.columns)
            client.do("BEGIN")
            self._open_markers.advance(
                client, (self.chunks, self.rows), (given.following, self.rows + given.chunk.size)
            )
            if self.mode == "upsert":
                self._copy(_TEMPORARY, sent)
                for statement in postgres_tables.merge(
                    table, sent.columns, self._keys, _TEMPORARY, unique=self._unique
                ):
                    client.do(statement)
                client.do(f"TRUNCATE {_TEMPORARY}")
            else:
                self._copy(table.quoted, sent)
        except psycopg.Error as error:
            client.rollback()
            raise empty_key_failure(error, self._keys, copy_failure(error, mapped, sent)) from error
        except BaseException:
            client.rollback()
            raise
        self._commit(given.following)

    def _make_temporary(self, columns: Sequence[PgTableColumn]) -> None:
        wanted = tuple(one.name for one in columns)
        if self._staged == wanted:
            return
        filled = [one._replace(not_null=one.not_null or one.name in self._keys) for one in columns]
        self._open_client.do(f"DROP TABLE IF EXISTS {_TEMPORARY}")
        postgres_tables.make_stage(self._open_client, _TEMPORARY, filled, kind="TEMPORARY")
        self._staged = wanted

    def _copy(self, into: str, sent: CopyText) -> None:
        statement = f"COPY {into} ({names(one.name for one in sent.columns)}) FROM STDIN ({sent.options})"
        with self._open_client.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for piece in sent.pieces():
                copy.write(piece)
                self.bytes += len(piece)

    def _commit(self, chunks: int) -> None:
        """Commit; where the answer is lost, the marker tells what became of it."""
        import psycopg

        try:
            self._open_client.do("COMMIT")
        except psycopg.Error as error:
            if not is_lost(error) or not self._is_in(chunks):
                raise refusal(error) from None

    def _is_in(self, chunks: int) -> bool:
        """Whether so many chunks are in, asked over a new connection; False: no, or nobody answers."""
        import psycopg

        with contextlib.suppress(DataHostFailed, psycopg.Error):
            self._open_client.close()
            self._client, self._staged = PgClient(self.given), None
            found = self._open_markers.read(self._open_client)
            return found is not None and found[0] == chunks
        return False

    # --- the end ---------------------------------------------------------------------------------------------------------

    def finish(self, running: HostCall) -> dict[str, Any] | None:
        if not self._finished:
            with self._translate_errors(running):
                self._open_client.do("BEGIN")
                self._open_markers.end(self._open_client)
                if self.replaces:
                    self._swap()
                self._open_client.do("COMMIT")
                self._open_markers.sweep(self._open_client)
        locator = {"table": f"{self._schema}.{self._name}"}
        meta = {"content_type": "application/vnd.postgresql", "rows": self.rows}
        auth = f"keychain/{self.given['auth']}"
        return {"type": "relational", "locator": locator, "auth_reference": auth, "meta": meta}

    def _swap(self) -> None:
        """Put the new rows in place of the old ones; the table stays the same, with all that was said of it."""
        stage = postgres_tables.describe_table(self._open_client, self._schema, self.stage)
        final = postgres_tables.describe_table(self._open_client, self._schema, self._name)
        if final is not None:
            # Who reads sees the old rows until the commit; who writes waits for it.
            self._open_client.do(f"LOCK TABLE {final.quoted} IN SHARE ROW EXCLUSIVE MODE")
            self._open_client.do(f"DELETE FROM {final.quoted}")
        if stage is None:  # there were no rows
            return
        if final is None:
            self._open_client.do(f"ALTER TABLE {stage.quoted} RENAME TO {name(self._name)}")
            return
        columns = [final.columns[key] for key in stage.columns]
        self._open_client.do(postgres_tables.insert(final, columns, stage.quoted))
        self._open_client.do(f"DROP TABLE {stage.quoted}")

    def abort(self, running: HostCall) -> bool:
        if self._client is None or self._client.lost:
            return False  # the marker and the stage stay, for who goes on
        self._open_client.rollback()
        if not self.replaces or self._finished:
            return False
        with self._translate_errors(running):
            return self._start_again()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextlib.contextmanager
    def _translate_errors(self, running: HostCall) -> Iterator[None]:
        """Work on the server, in no transaction or a whole one; what it refuses is told."""
        import psycopg

        try:
            with running.attach(self._open_client):
                yield
        except psycopg.Error as error:
            self._open_client.rollback()
            raise refusal(error) from None
        except DataHostFailed:
            self._open_client.rollback()
            raise
