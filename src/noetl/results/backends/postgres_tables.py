"""Table: payloads in two tables of a PostgreSQL database, read through a cache.

A payload is a row that says what it is, and rows with its bytes in parts, so that neither side holds all of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from noetl.drivers.postgres import NO_ADDRESS, is_no_address
from noetl.ports import ResultGone, StoreFailed
from noetl.redaction import ADDRESS_HINT, is_address
from noetl.results.backends.backend import (
    BackendEntry,
    PartialPayload,
    PayloadPlace,
    parse_place,
    read_locator,
    require_place,
)
from noetl.results.backends.file_cache import FileCache

T = TypeVar("T")

MISSING = "a result store in PostgreSQL needs psycopg, which comes with: pip install 'noetl[postgres]'"
TABLE = "noetl_results"
_PART = 4 << 20
#: a server that does not answer is asked again for so many seconds
PATIENCE_S = 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_CONNECT_S = 10
#: two processes that make the same tables at once disturb each other
_LOCK = 0x6E6F65746C
_MAKE = """
CREATE TABLE IF NOT EXISTS noetl_results (
  place text PRIMARY KEY, bytes bigint NOT NULL, created timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS noetl_result_parts (
  place text NOT NULL REFERENCES noetl_results ON DELETE CASCADE, part integer NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (place, part));
ALTER TABLE noetl_result_parts ALTER COLUMN body SET STORAGE EXTERNAL
"""
_THERE = "SELECT to_regclass('noetl_result_parts') IS NOT NULL"
_ADD = "INSERT INTO noetl_results (place, bytes) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_ADD_PART = "INSERT INTO noetl_result_parts (place, part, body) VALUES (%s, %s, %s)"
_BYTES = "SELECT bytes FROM noetl_results WHERE place = %s"
_READ_PART = "SELECT body FROM noetl_result_parts WHERE place = %s AND part = %s"
_ALL = """
SELECT place, bytes, extract(epoch FROM created)::float8 FROM noetl_results WHERE place > %s ORDER BY place LIMIT 1000
"""
_REMOVE = "DELETE FROM noetl_results WHERE place = %s"


class PostgresBackend:
    """The backend of a database. It is connected to when it is first needed."""

    kind = "relational"

    def __init__(
        self, options: Callable[[], Mapping[str, Any]], name: str, *, cache: FileCache, entry: str = ""
    ) -> None:
        #: how to connect; `name` is what people are told of it, without a password
        self._options, self.name = options, name
        self._entry = entry
        self._cache = cache
        self._idle: list[Any] = []
        self._lock = Lock()
        self._made = False
        self.auth_reference = f"keychain/{entry}" if entry else None

    def locator(self, place: PayloadPlace) -> dict[str, Any]:
        """The table and the key in it."""
        return {"table": TABLE, "key": str(place)}

    def place(self, reference: Mapping[str, Any]) -> PayloadPlace | None:
        """Where a reference leads."""
        locator = reference.get("locator")
        if read_locator(locator, "table") != TABLE:
            return None
        key = read_locator(locator, "key")
        return require_place(key, key)

    def put(self, draft: Path, place: PayloadPlace) -> None:
        """Insert a file, in one transaction; it is here for reading as well."""

        def insert(connection: Any) -> None:
            with connection.transaction(), draft.open("rb") as file:
                if not connection.execute(_ADD, [str(place), draft.stat().st_size]).rowcount:
                    return  # it is there already, perhaps because we were cut off behind the commit
                for number, body in enumerate(iter(lambda: file.read(_PART), b"")):
                    connection.execute(_ADD_PART, [str(place), number, body], binary=True)

        self._try(insert)
        self._cache.put(self._cache_name(place), draft)

    def local(self, place: PayloadPlace) -> Path:
        """The file in the cache, read if it is not there."""
        return self._cache.get(
            self._cache_name(place), lambda path: self._try(lambda one: self._read(one, place, path))
        )

    def _read(self, connection: Any, place: PayloadPlace, path: Path) -> None:
        # One view of both tables: somebody may remove it in between.
        with connection.transaction(), path.open("wb") as file:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            found = connection.execute(_BYTES, [str(place)]).fetchone()
            if found is None:
                said = f"the payload {self.display_name(place)} is no longer there: its time had run out, it was removed, or NOETL_RESULTS is another where it was stored"
                raise ResultGone(said)
            for number in range(-(-found[0] // _PART)):
                file.write(connection.execute(_READ_PART, [str(place), number], binary=True).fetchone()[0])

    def _cache_name(self, place: PayloadPlace) -> str:
        return f"{TABLE}/{place}"

    def list_entries(self) -> Iterator[BackendEntry]:
        """Every payload in the table, a page at a time."""
        behind = ""
        while page := self._try(lambda one, after=behind: one.execute(_ALL, [after]).fetchall()):  # type: ignore[misc]
            for text, size, since in page:
                place = parse_place(text)
                if place is not None:
                    yield BackendEntry(place, size, since)
            behind = page[-1][0]

    def list_partial(self, before: float) -> Iterator[PartialPayload]:  # noqa: ARG002  the port's
        """There are none: a payload comes in one transaction."""
        return iter(())

    def display_name(self, place: PayloadPlace) -> str:
        """The table and the key in it."""
        return f"{TABLE}/{place}"

    def remove(self, place: PayloadPlace) -> None:
        """Delete a payload, and what is here of it."""
        self._try(lambda connection: connection.execute(_REMOVE, [str(place)]))
        self._cache.forget(self._cache_name(place))

    def close(self) -> None:
        """Close what is connected."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # --- connections -------------------------------------------------------------------------------------------------

    def _try(self, action: Callable[[Any], T]) -> T:
        """Do something with a connection: again with another one while the server may come back."""
        try:
            import psycopg
        except ImportError:
            raise StoreFailed(MISSING) from None
        until, wait = time.monotonic() + PATIENCE_S, _FIRST_WAIT_S
        while True:
            try:
                with self._connection() as connection:
                    return action(connection)
            except psycopg.Error as error:
                if not _may_pass(error) or time.monotonic() + wait > until:
                    raise self._store_error(error) from None
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _connect(self) -> Any:
        import psycopg

        options = {"connect_timeout": _CONNECT_S, "application_name": "noetl results", **self._options()}
        if options.get("conninfo") and not is_address(options["conninfo"]):
            raise StoreFailed(f"{self._whose()} {NO_ADDRESS}; {ADDRESS_HINT}")
        try:
            connection: Any = psycopg.connect(**options, autocommit=True)
        except (psycopg.Error, UnicodeError) as error:
            if is_no_address(error):
                raise StoreFailed(f"{self._whose()} {NO_ADDRESS}; {ADDRESS_HINT}") from None
            raise
        if not self._made:
            if not connection.execute(_THERE).fetchone()[0]:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                    connection.execute(_MAKE)
            self._made = True
        return connection

    def _store_error(self, error: Exception) -> StoreFailed:
        said = " ".join(str(error).split()) or type(error).__name__
        return StoreFailed(f"{self._whose()}: {said}")

    def _whose(self) -> str:
        return f"the result store {self.name}" + (f" (keychain entry `{self._entry}`)" if self._entry else "")


def _may_pass(error: Any) -> bool:
    """Whether the server is away, starting, stopping or full: not when it has said no."""
    import psycopg

    state = error.sqlstate or ""
    if state:
        return state[:2] in ("08", "40", "53", "57") or state == "25006"  # it can only be read for a while
    # Before a session there are only words: those of a server that has answered are final.
    final = "authentication failed" in str(error) or "does not exist" in str(error) or "no password" in str(error)
    return isinstance(error, psycopg.OperationalError) and not final
