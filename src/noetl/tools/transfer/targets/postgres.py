"""Rows to a table of PostgreSQL.

Each write is one transaction, and the number of chunks that are in is a row of `noetl_transfers` which changes in it; so what came
of a commit whose answer was lost can be looked up, and a chunk that is brought a second time is known. With `replace` rows go to a
table of another name, and at the end in one transaction to where they belong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl.rows.duck import name, names
from noetl.tools.datahost.databases import opened
from noetl.tools.datahost.failing import Failing
from noetl.tools.datahost.host import Running
from noetl.tools.pg.failing import is_lost
from noetl.tools.transfer.chunks import Chunk
from noetl.tools.transfer.copied import Copied
from noetl.tools.transfer.mapping import Mapped
from noetl.tools.transfer.pg_client import Client, refusal
from noetl.tools.transfer.targets import pg_tables
from noetl.tools.transfer.targets.pg_csv import CopyText, check_kept, copy_text, is_raw, prepared
from noetl.tools.transfer.targets.pg_faithful import doubtful
from noetl.tools.transfer.targets.pg_markers import Markers
from noetl.tools.transfer.targets.pg_place import no_key, unfit
from noetl.tools.transfer.targets.pg_tables import PgTable, PgTarget
from noetl.tools.transfer.targets.target import Given, Surroundings, Target

#: where rows of an upsert are before they are held against the table; each connection has its own
_TEMPORARY = "pg_temp.noetl_upsert"


class Postgres(Target):
    """A table; made from the first rows if it is not there."""

    def __init__(self, given: Mapping[str, Any], around: Surroundings) -> None:
        super().__init__(given, around)
        self._keys: list[str] = given.get("key") or []
        self._client: Client | None = None
        self._schema = self._name = ""
        self._markers: Markers | None = None
        self._table: PgTable | None = None
        self._staged: tuple[str, ...] | None = None
        self._unique = False
        #: an earlier attempt came as far as that, and the crash came behind it
        self._finished = False

    @property
    def _at(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def _marked(self) -> Markers:
        assert self._markers is not None
        return self._markers

    # --- taking it up --------------------------------------------------------------------------------------------------

    def open(self, running: Running) -> int:
        self._client = Client(self.given)
        with self._told(running):
            self._schema, self._name = pg_tables.placed(self._at, str(self.given["table"]))
            self._markers = Markers(self._schema, self.around.token)
            found = self._marked.found(self._at)
            if found is None and self.around.final:
                self._finished, found = True, (self.around.recorded, self.around.rows)
            if found is None:
                kept = 0 if self.replaces else self.around.recorded
                found = (kept, self.around.rows if kept else 0)
                if self.replaces:
                    self._at.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(self.stage)}")
                self._marked.begin(self._at, *found)
        self.chunks, self.rows = found
        return self.chunks

    def restart(self, running: Running) -> bool:
        if self.chunks and self.mode in ("append", "insert"):
            return False
        with self._told(running):
            if self._finished:
                self._marked.begin(self._at, 0, 0)
            elif not self._start_again():
                raise self._marked.taken()
        self._finished = False
        self.chunks = self.rows = 0
        return True

    def _start_again(self) -> bool:
        """Forget what was staged, and that there was anything; False: it is another attempt's by now."""
        self._at.do("BEGIN")
        ours = self._marked.reset(self._at, self.chunks)
        if ours and self.replaces:
            self._at.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(self.stage)}")
        self._at.do("COMMIT")
        self._table = None
        return ours

    # --- chunks ----------------------------------------------------------------------------------------------------------

    def takes(self, chunk: Chunk) -> bool:
        if not isinstance(chunk, Copied) or not self.projection.only_renames:
            return False
        return is_raw(chunk, self.projection.of(chunk, {}, None).columns)

    def prepare(self, chunk: Chunk) -> None:
        prepared(chunk)

    def write(self, running: Running, given: Given) -> tuple[dict[str, Any], bytes]:
        if given.index < self.chunks:
            return {}, b""
        mapped = self.projection.of(given.chunk, given.about, given.connection)
        try:
            with self._told(running):
                table = self._ready(mapped)
            columns = table.settled(mapped)
            self._check(running, mapped, columns, given)
            with copy_text(mapped, columns, given) as sent, running.using(self._at):
                self._take(table, mapped, sent, given)
        finally:
            if mapped.chunk is not given.chunk:
                mapped.chunk.forget()
        self.chunks = given.following
        self.rows += given.chunk.size
        return {}, b""

    def _check(self, running: Running, mapped: Mapped, columns: list[PgTarget], given: Given) -> None:
        """Failing: a value would be another in the table. Rows of PostgreSQL come without anybody who could look."""
        if not (doubts := doubtful(mapped, columns)):
            return
        if given.connection is not None:
            check_kept(mapped, columns, doubts, given.connection)
            return
        with opened(running, None, self.around.config) as connection:
            check_kept(mapped, columns, doubts, connection)

    def _ready(self, mapped: Mapped) -> PgTable:
        """The table that rows are copied to; what is missing is made."""
        if self._table is not None:
            return self._table
        final = pg_tables.described(self._at, self._schema, self._name)
        into = self.stage if self.replaces else self._name
        table = pg_tables.described(self._at, self._schema, self.stage) if self.replaces else final
        if table is None:
            self._make(final, into, mapped)
            table = pg_tables.described(self._at, self._schema, into)
            assert table is not None
        if self.mode == "upsert":
            self._check_keys(mapped, table)
            self._unique = pg_tables.has_unique(self._at, table, self._keys)
        self._table = table
        return table

    def _make(self, final: PgTable | None, into: str, mapped: Mapped) -> None:
        if final is not None:
            stage = f"{name(self._schema)}.{name(into)}"
            pg_tables.make_stage(self._at, stage, final.settled(mapped))
            return
        types = pg_tables.types_of(self._at, mapped)
        if not types:
            raise Failing("type", f"the table `{self.given['table']}` is not there, and the rows have no columns")
        if self.mode == "upsert":
            self._check_keys(mapped, None)
        pg_tables.make(self._at, self._schema, into, types, self._keys if self.mode == "upsert" else ())

    def _check_keys(self, mapped: Mapped, table: PgTable | None) -> None:
        columns = [one.name for one in (table.settled(mapped) if table else mapped.columns)]
        lacking = [key for key in self._keys if key not in columns]
        if lacking:
            raise Failing("type", f"the rows have no column `{lacking[0]}`, which is the `key` of the upsert")

    def _take(self, table: PgTable, mapped: Mapped, sent: CopyText, given: Given) -> None:
        """One transaction: the marker, the rows."""
        import psycopg

        client = self._at
        try:
            if self.mode == "upsert":
                self._make_temporary(sent.columns)
            client.do("BEGIN")
            self._marked.advance(client, (self.chunks, self.rows), (given.following, self.rows + given.chunk.size))
            if self.mode == "upsert":
                self._copy(_TEMPORARY, sent)
                for statement in pg_tables.merge(table, sent.columns, self._keys, _TEMPORARY, unique=self._unique):
                    client.do(statement)
                client.do(f"TRUNCATE {_TEMPORARY}")
            else:
                self._copy(table.quoted, sent)
        except psycopg.Error as error:
            client.rollback()
            raise no_key(error, self._keys, unfit(error, mapped, sent)) from error
        except BaseException:
            client.rollback()
            raise
        self._commit(given.following)

    def _make_temporary(self, columns: Sequence[PgTarget]) -> None:
        wanted = tuple(one.name for one in columns)
        if self._staged == wanted:
            return
        filled = [one._replace(not_null=one.not_null or one.name in self._keys) for one in columns]
        self._at.do(f"DROP TABLE IF EXISTS {_TEMPORARY}")
        pg_tables.make_stage(self._at, _TEMPORARY, filled, kind="TEMPORARY")
        self._staged = wanted

    def _copy(self, into: str, sent: CopyText) -> None:
        statement = f"COPY {into} ({names(one.name for one in sent.columns)}) FROM STDIN ({sent.options})"
        with self._at.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for piece in sent.pieces():
                copy.write(piece)
                self.bytes += len(piece)

    def _commit(self, chunks: int) -> None:
        """Commit; where the answer is lost, the marker tells what became of it."""
        import psycopg

        try:
            self._at.do("COMMIT")
        except psycopg.Error as error:
            if not is_lost(error) or not self._is_in(chunks):
                raise refusal(error) from None

    def _is_in(self, chunks: int) -> bool:
        """Whether so many chunks are in, asked over a new connection; False: no, or nobody answers."""
        import psycopg

        with contextlib.suppress(Failing, psycopg.Error):
            self._at.close()
            self._client, self._staged = Client(self.given), None
            found = self._marked.found(self._at)
            return found is not None and found[0] == chunks
        return False

    # --- the end ---------------------------------------------------------------------------------------------------------

    def finish(self, running: Running) -> dict[str, Any] | None:
        if not self._finished:
            with self._told(running):
                self._at.do("BEGIN")
                self._marked.end(self._at)
                if self.replaces:
                    self._swap()
                self._at.do("COMMIT")
                self._marked.sweep(self._at)
        locator = {"table": f"{self._schema}.{self._name}"}
        meta = {"content_type": "application/vnd.postgresql", "rows": self.rows}
        auth = f"keychain/{self.given['auth']}"
        return {"type": "relational", "locator": locator, "auth_reference": auth, "meta": meta}

    def _swap(self) -> None:
        """Put the new rows in place of the old ones; the table stays the same, with all that was said of it."""
        stage = pg_tables.described(self._at, self._schema, self.stage)
        final = pg_tables.described(self._at, self._schema, self._name)
        if final is not None:
            # Who reads sees the old rows until the commit; who writes waits for it.
            self._at.do(f"LOCK TABLE {final.quoted} IN SHARE ROW EXCLUSIVE MODE")
            self._at.do(f"DELETE FROM {final.quoted}")
        if stage is None:  # there were no rows
            return
        if final is None:
            self._at.do(f"ALTER TABLE {stage.quoted} RENAME TO {name(self._name)}")
            return
        columns = [final.columns[key] for key in stage.columns]
        self._at.do(pg_tables.insert(final, columns, stage.quoted))
        self._at.do(f"DROP TABLE {stage.quoted}")

    def abort(self, running: Running) -> bool:
        if self._client is None or self._client.lost:
            return False  # the marker and the stage stay, for who goes on
        self._at.rollback()
        if not self.replaces or self._finished:
            return False
        with self._told(running):
            return self._start_again()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextlib.contextmanager
    def _told(self, running: Running) -> Iterator[None]:
        """Work on the server, in no transaction or a whole one; what it refuses is told."""
        import psycopg

        try:
            with running.using(self._at):
                yield
        except psycopg.Error as error:
            self._at.rollback()
            raise refusal(error) from None
        except Failing:
            self._at.rollback()
            raise
