"""The database of executions in PostgreSQL: connections, and tables that are made once, by one process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from noetl.drivers.postgres import NO_ADDRESS, is_denied, is_no_address, is_spent
from noetl.ports import StoreFailed, StoreUnreachable
from noetl.redaction import ADDRESS_HINT, is_address
from noetl.stores.appends import schema

if TYPE_CHECKING:
    import psycopg

#: of the schema; each change of it is a new number
VERSION: Final = 7
NOT_INSTALLED: Final = "the driver for PostgreSQL is not installed; it comes with: pip install 'noetl[postgres]'"
#: only one process at a time makes tables: "NoET"
_MAKING: Final = 0x4E6F4554
#: what an address does not say otherwise. A server that is gone without a word is found out before claims lapse: else whoever
#: waits for an answer waits as long as the kernel does, a quarter of an hour
_SETTLED: Final = {
    "connect_timeout": 10,
    "application_name": "noetl",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
#: how the driver says that a session may not write
_READ_ONLY: Final = "read-only"
#: seconds for which a connection is used that can only read
_READ_ONLY_S: Final = 5.0


def connect(url: str, *, reads: bool = False) -> psycopg.Connection[Any]:
    """A connection whose transactions are begun by hand. StoreFailed: there is none to be had.

    One that could not write is refused, so that none is left over when the database can be written again, and of several
    hosts the one that can be written is found. Who only `reads` may do so meanwhile, see `Session`.
    """
    try:
        import psycopg
    except ImportError:
        raise StoreFailed(NOT_INSTALLED) from None
    _silence_driver()
    if not is_address(url):
        raise StoreFailed(f"the database of executions {NO_ADDRESS}; {ADDRESS_HINT}")
    try:
        where: dict[str, Any] = {**_SETTLED, **psycopg.conninfo.conninfo_to_dict(url)}
        try:
            return psycopg.connect(**where, autocommit=True)
        except psycopg.OperationalError as error:
            if not reads or _READ_ONLY not in str(error):
                raise
        return psycopg.connect(**{**where, "target_session_attrs": "any"}, autocommit=True)
    except (psycopg.Error, UnicodeError) as error:
        if is_no_address(error):
            raise StoreFailed(f"the database of executions {NO_ADDRESS}; {ADDRESS_HINT}") from None
        raise explain_error(error) from error


def _silence_driver() -> None:
    """What goes wrong in a pipeline is reported by whoever waits for it; the driver would write it on stderr as well."""
    driver = logging.getLogger("psycopg")
    if not driver.handlers:
        driver.addHandler(logging.NullHandler())


class Session:
    """One connection: opened when it is needed, replaced when it is of no use any more. For one thread at a time."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None
        #: when it is replaced: it can only read, and another one may be able to write by then
        self._until: float | None = None

    def open(self) -> psycopg.Connection[Any]:
        """The connection. StoreFailed: there is none to be had."""
        found = self._connection
        if found is not None and (found.closed or found.broken or self._is_outdated(found)):
            self.close()
            found = None
        if found is None:
            found = self._connection = self._connect()
            self._until = monotonic() + _READ_ONLY_S if _can_only_read(found) else None
        return found

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None

    def _is_outdated(self, connection: psycopg.Connection[Any]) -> bool:
        from psycopg.pq import TransactionStatus

        idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        return self._until is not None and idle and monotonic() > self._until

    def note(self, error: BaseException) -> bool:
        """Take note of what the connection was answered; whether it is replaced before it is used again."""
        if self._connection is None or not is_spent(self._connection, error):
            return False
        self.close()
        return True

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            with suppress(Exception):  # one that is broken cannot be closed in good order
                self._connection.close()
            self._connection = None


def _can_only_read(connection: psycopg.Connection[Any]) -> bool:
    said = map(connection.info.parameter_status, ("default_transaction_read_only", "in_hot_standby"))
    return "on" in said


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Bring the tables to this version, one version at a time; those of a later one are refused.

    Others may be running executions meanwhile: a version adds, and takes nothing from those who know only the one before.
    """
    import psycopg

    try:
        if _is_current(connection):  # a database that can only be read is read
            return
        while _upgrade_once(connection):
            pass
    except psycopg.Error as error:
        raise explain_error(error) from error


def _is_current(connection: psycopg.Connection[Any]) -> bool:
    """Whether all tables are there; those of a later version are refused."""
    if connection.execute("SELECT to_regclass('noetl.version')").fetchone() == (None,):
        return False
    return _version_of(connection) == VERSION


def _version_of(connection: psycopg.Connection[Any]) -> int:
    found = connection.execute("SELECT max(version) FROM noetl.version").fetchone()
    version: int = found[0] if found is not None and found[0] is not None else 0
    if version > VERSION:
        raise StoreFailed(
            f"the database was written by a later version of NoETL (its schema is {version}, this one knows "
            f"{VERSION}): use that version, or another database"
        )
    return version


def _upgrade_once(connection: psycopg.Connection[Any]) -> bool:
    """Make what the next version has; whether there was one. All of it or nothing, and by one process."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS noetl")
        connection.execute("CREATE TABLE IF NOT EXISTS noetl.version (version int NOT NULL)")
        version = _version_of(connection)
        if version == VERSION:
            return False
        connection.execute(schema("postgres", version + 1).encode())
        connection.execute("INSERT INTO noetl.version VALUES (%s)", (version + 1,))
        return True


def explain_error(error: Exception) -> StoreFailed:
    """What PostgreSQL reports, as the port does; an address with a password is no part of it."""
    import psycopg

    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    passing = isinstance(error, psycopg.OperationalError) and not is_denied(error)
    return (StoreUnreachable if passing else StoreFailed)(f"the database of executions cannot be used: {first}")
