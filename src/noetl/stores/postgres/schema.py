"""The database of executions in PostgreSQL: connections, and tables that are made once, by one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from noetl.drivers.postgres import NO_ADDRESS, is_denied, is_no_address
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
}


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection whose transactions are begun by hand. StoreFailed: there is none to be had."""
    try:
        import psycopg
    except ImportError:
        raise StoreFailed(NOT_INSTALLED) from None
    if not is_address(url):
        raise StoreFailed(f"the database of executions {NO_ADDRESS}; {ADDRESS_HINT}")
    try:
        where: dict[str, Any] = {**_SETTLED, **psycopg.conninfo.conninfo_to_dict(url)}
        return psycopg.connect(**where, autocommit=True)
    except (psycopg.Error, UnicodeError) as error:
        if is_no_address(error):
            raise StoreFailed(f"the database of executions {NO_ADDRESS}; {ADDRESS_HINT}") from None
        raise explain_error(error) from error


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Bring the tables to this version, one version at a time; those of a later one are refused.

    Others may be running executions meanwhile: a version adds, and takes nothing from those who know only the one before.
    """
    import psycopg

    try:
        while _upgrade_once(connection):
            pass
    except psycopg.Error as error:
        raise explain_error(error) from error


def _upgrade_once(connection: psycopg.Connection[Any]) -> bool:
    """Make what the next version has; whether there was one. All of it or nothing, and by one process."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS noetl")
        connection.execute("CREATE TABLE IF NOT EXISTS noetl.version (version int NOT NULL)")
        found = connection.execute("SELECT max(version) FROM noetl.version").fetchone()
        version: int = found[0] if found is not None and found[0] is not None else 0
        if version > VERSION:
            raise StoreFailed(
                f"the database was written by a later version of NoETL (its schema is {version}, this one knows "
                f"{VERSION}): use that version, or another database"
            )
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
