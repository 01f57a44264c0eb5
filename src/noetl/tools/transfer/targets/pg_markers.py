"""What is noted in PostgreSQL of a transfer: a row that changes with the rows that come in."""

from __future__ import annotations

import contextlib

from noetl.rows.duck import name
from noetl.tools.datahost.failing import Failing
from noetl.tools.transfer.pg_client import Client

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

    def found(self, client: Client) -> tuple[int, int] | None:
        """How many chunks and rows are in; whoever is just bringing some in is waited for. None: nothing is noted."""
        import psycopg

        if not client.one("SELECT to_regclass($1)::oid", [self._table])[0]:
            try:
                self._make(client)
            except psycopg.errors.InsufficientPrivilege as error:
                raise self._forbidden(error) from None
        query = f"SELECT chunks, total FROM {self._table} WHERE transfer = $1 FOR UPDATE"
        row = client.one(query, [self._token])
        return (row[0], row[1]) if row else None

    def _make(self, client: Client) -> None:
        client.do("BEGIN")
        client.do("SELECT pg_advisory_xact_lock($1)", [_LOCK])
        if not client.one("SELECT 1 FROM pg_namespace WHERE nspname = $1", [self._schema]):
            client.do(f"CREATE SCHEMA IF NOT EXISTS {name(self._schema)}")
        client.do(f"CREATE TABLE IF NOT EXISTS {self._table} ({_COLUMNS})")
        client.do("COMMIT")

    def _forbidden(self, error: Exception) -> Failing:
        message = (
            f"the table `{self._schema}.{_TABLE}`, in which transfers note what they have brought in, cannot be made: "
            f"{' '.join(str(error).split())}. Allow it (GRANT CREATE ON SCHEMA {name(self._schema)}), or make it once: "
            f"CREATE TABLE {self._table} ({_COLUMNS})"
        )
        return Failing("sql", message, code="42501")

    def begin(self, client: Client, chunks: int, rows: int) -> None:
        """Note that there is a transfer. Failing: another attempt has just done so."""
        query = f"INSERT INTO {self._table} VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
        self._sure(client.do(query, [self._token, chunks, rows]).rowcount)

    def advance(self, client: Client, before: tuple[int, int], now: tuple[int, int]) -> None:
        """Note what comes in with this transaction. Failing: another attempt was there meanwhile."""
        query = f"UPDATE {self._table} SET chunks = $1, total = $2, changed = now() WHERE transfer = $3 AND chunks = $4"
        self._sure(client.do(query, [*now, self._token, before[0]]).rowcount)

    def reset(self, client: Client, before: int) -> bool:
        """Note that nothing is in; False: another attempt was there meanwhile."""
        query = f"UPDATE {self._table} SET chunks = 0, total = 0 WHERE transfer = $1 AND chunks = $2"
        return client.do(query, [self._token, before]).rowcount == 1

    def end(self, client: Client) -> None:
        """Forget the transfer: all of it is in. Failing: another attempt was there meanwhile."""
        self._sure(client.do(f"DELETE FROM {self._table} WHERE transfer = $1", [self._token]).rowcount)

    def _sure(self, changed: int) -> None:
        if changed != 1:
            raise self.taken()

    def taken(self) -> Failing:
        """It is another's."""
        message = f"another attempt at this transfer has gone on with it (it is noted in `{self._schema}.{_TABLE}`)"
        return Failing("sql", message)

    def sweep(self, client: Client) -> None:
        """Remove what transfers left behind that nobody took up again; next time does as well as now."""
        import psycopg

        old = f"DELETE FROM {self._table} WHERE changed < now() - interval '{_OLD}' RETURNING transfer"
        with contextlib.suppress(psycopg.Error):
            for (token,) in client.all(old):
                client.do(f"DROP TABLE IF EXISTS {name(self._schema)}.{name(f'noetl_stage_{token}')}")
