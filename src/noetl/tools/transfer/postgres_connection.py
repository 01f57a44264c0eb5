"""A connection to PostgreSQL in the data host: settled so that text means the same everywhere, and to be interrupted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noetl.drivers.datahost import DataHostFailed
from noetl.drivers.postgres import NOT_INSTALLED, from_connect_error, from_statement_error

if TYPE_CHECKING:
    import psycopg

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
