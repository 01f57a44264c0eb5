"""DuckDB inside a data host: databases opened for a task and closed with it, and the statements of `kind: duckdb`.

A file that is held open cannot be used by another process.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl.drivers.confinement import bounds_of
from noetl.drivers.datahost.host import UNWRITTEN, DataHostFailed, HostCall, is_full, is_locked
from noetl.expr import BoundQuery, Finished, Parameter
from noetl.rows.duck import big_number, bindable, duckdb, fits, json_row, literal, result_row, wide_columns

# Statements with their values, as DuckDB takes them.


#: statements by their first word in which DuckDB takes parameters anywhere; in others values become literals
_BINDS = frozenset(
    "SELECT WITH FROM VALUES TABLE INSERT UPDATE DELETE MERGE COPY CALL EXPLAIN DESCRIBE SUMMARIZE EXECUTE".split()  # noqa: SIM905
)


def render_statement(query: BoundQuery) -> tuple[str, list[Any]]:
    """The text of one statement and its parameters."""
    if all(verb in _BINDS for verb in query.verbs):
        text, params = BoundQuery(tuple(map(_inline_big_number, query.parts))).render("$1")
        return text, [bindable(value) for value in params]
    text, params = query.render("$1", literal)
    return text, params


def _inline_big_number(part: Finished) -> Finished:
    """A number of more than 128 bits, which cannot be bound, as an expression."""
    if isinstance(part, Parameter) and not fits(part.value):
        return big_number(part.value)
    return part


#: how long a file that somebody else uses is waited for
_PATIENCE_S = 30.0
#: of the machine's memory, what a database may use when nobody says otherwise
MUCH = "50%"
#: a database that rows only pass through needs little, unless they are long
LITTLE, LITTLE_BYTES = "80MB", 80_000_000
#: what is left to a database of the pages of its file, when nobody will read them again
_PAGES_BYTES = 8_000_000
#: how often rows are in memory while they are read, sorted out and written
_TIMES = 8
#: what is set when a database is open; DuckDB minds the order, but not when it opens one
_THEN = "then"
#: what stands behind the checksum at the beginning of every database
_MAGIC = b"DUCK"
_open_lock = threading.Lock()
_open: dict[str, _Open] = {}


def config_of(spec: Mapping[str, Any], *, memory: str = MUCH) -> dict[str, Any]:
    """The settings of a database for a task with this spec: what restricts it, no statement can undo."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": memory,
    }
    limit, strict = spec.get("limits.memory_mb"), spec.get("isolation") == "strict"
    offline = not bounds_of(spec).network
    if limit:
        config["memory_limit"] = f"{limit}MB"
    # Without access to what is outside no extension can be loaded, and nothing else knows of networks.
    if strict:
        config |= {"enable_external_access": False, "lock_configuration": True}
    elif offline:
        config[_THEN] = (
            "SET allowed_directories = ['/']; SET enable_external_access = false; SET lock_configuration = true"
        )
    elif limit:
        config["lock_configuration"] = True
    return config


def confine_config(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same settings, where nothing outside can be reached: but for one folder."""
    if "enable_external_access" not in config:
        return dict(config)
    kept = {key: value for key, value in config.items() if key not in ("enable_external_access", "lock_configuration")}
    allowed = f"SET allowed_directories = ['{str(folder).replace(chr(39), chr(39) * 2)}']"
    return {**kept, _THEN: f"{allowed}; SET enable_external_access = false; SET lock_configuration = true"}


def _restrictions(config: dict[str, Any]) -> dict[str, Any]:
    """What tasks that share a database must have in common: all but the memory, unless that is limited."""
    free = "lock_configuration" not in config
    return {key: value for key, value in config.items() if not (free and key == "memory_limit")}


class _Open:
    """A database that tasks of this process have open, and how many."""

    def __init__(self, connection: Any, config: dict[str, Any]) -> None:
        self.connection, self.config, self.users = connection, config, 0
        self.room = LITTLE_BYTES

    def join(self, config: dict[str, Any]) -> None:
        """Somebody else uses it as well; who needs more memory gets it."""
        self.users += 1
        if config["memory_limit"] == MUCH != self.config["memory_limit"]:
            self.connection.execute(f"SET memory_limit = '{MUCH}'")
            self.config["memory_limit"] = MUCH
        elif self.users > 1:
            self.reserve_memory(0)

    def reserve_memory(self, size: int) -> None:
        """Let it use the memory that all of its users need; it only ever grows."""
        self.room = _raise_memory_limit(self.connection, self.config, self.room, self.users, size)

    def release_pages(self) -> None:
        """Free the pages that are on disk too: DuckDB keeps what it wrote until its memory is full. One user only."""
        if self.users == 1 and _may_set(self.config):
            with contextlib.suppress(duckdb().OutOfMemoryException):  # what is not on disk stays, and is more
                self.connection.execute(f"SET memory_limit = '{_PAGES_BYTES} bytes'")
            self.connection.execute(f"SET memory_limit = '{self.room} bytes'")


def _raise_memory_limit(connection: Any, config: Mapping[str, Any], room: int, users: int, size: int) -> int:
    """Raise the limit of a database that has little, if so many users and bytes of rows need more; what it is now."""
    # Readers take 32 MB each as soon as they begin, whatever there is to read, and now and then twice.
    needed = users * LITTLE_BYTES + max(0, _TIMES * size - LITTLE_BYTES // 2)
    if needed <= room or not _may_set(config):
        return room
    connection.execute(f"SET memory_limit = '{needed} bytes'")
    return needed


def _may_set(config: Mapping[str, Any]) -> bool:
    """Whether it is ours to say how much memory a database has."""
    return config.get("memory_limit") == LITTLE and "lock_configuration" not in config


class Database:
    """One task's way into a database; to be closed."""

    def __init__(self, running: HostCall, file: str | None, config: Mapping[str, Any]) -> None:
        self._file = file or ":memory:"
        wanted = {**config, "temp_directory": str(running.scratch / "spill")}
        self._config, self._room = config, LITTLE_BYTES
        self.connection = (
            self._connect_private(wanted) if file is None else _connect_shared(running, self._file, wanted)
        )

    def _connect_private(self, config: dict[str, Any]) -> Any:
        then = config.pop(_THEN, None)
        connection = duckdb().connect(":memory:", config=config)
        if then:
            connection.execute(then)
        return connection

    def reserve_memory(self, size: int, users: int = 1) -> None:
        """Let it use the memory that so many bytes of rows need, for so many who work on them at once."""
        if self._file == ":memory:":
            self._room = _raise_memory_limit(self.connection, self._config, self._room, users, size)
        else:
            with _open_lock:
                _open[self._file].reserve_memory(size)

    def release_pages(self) -> None:
        """Free what it keeps of a file's pages, where nobody else uses the file."""
        with _open_lock:
            _open[self._file].release_pages()

    def close(self) -> None:
        """Let go; a file is closed with its last user."""
        self.connection.close()
        if self._file == ":memory:":
            return
        with _open_lock:
            found = _open[self._file]
            found.users -= 1
            if not found.users:
                found.connection.close()
                del _open[self._file]


@contextlib.contextmanager
def open_database(running: HostCall, file: str | None, config: Mapping[str, Any]) -> Iterator[Any]:
    """A connection to a database, closed behind it; without a file to an empty one in memory."""
    database = Database(running, file, config)
    try:
        with running.attach(database.connection):
            yield database.connection
    finally:
        database.close()


def _connect_shared(running: HostCall, file: str, config: dict[str, Any]) -> Any:
    """A connection of its own to a file; one that is used in another way, or elsewhere, is waited for."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    give_up, pause = time.monotonic() + _PATIENCE_S, 0.01
    while True:
        try:
            with _open_lock:
                found = _open.get(file) or _open_file(file, config)
                if _restrictions(found.config) == _restrictions(config):
                    found.join(config)
                    return found.connection.cursor()
            why = "another task uses it under other restrictions"
        except duckdb().IOException as error:
            if not is_locked(error):
                raise
            why = str(error)
        if time.monotonic() > give_up:
            raise DataHostFailed("sql", f"`{file}` is in use, for {_PATIENCE_S:g} s now: {why}", retryable=True)
        running.check()
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


def _open_file(file: str, config: dict[str, Any]) -> _Open:
    with contextlib.suppress(FileNotFoundError), Path(file).open("rb") as found:
        head = found.read(12)
        if head and not head.endswith(_MAGIC):  # DuckDB would take data for a database that is in memory
            raise DataHostFailed("sql", f"`{file}` is no DuckDB database")
    settings = {key: value for key, value in config.items() if key != _THEN}
    connection = duckdb().connect(file, config=settings)
    if _THEN in config:
        connection.execute(config[_THEN])
    made = _open[file] = _Open(connection, config)
    return made


# The statements of `kind: duckdb`, run in order; the rows of the last one as JSON, or as Parquet if there are many.


_ROWS_AT_ONCE = 1_000
#: words that begin what a table can be made of as it is
_TABULAR = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
#: what cannot be undone, or not together with anything else: statements beside one of these run one by one
_ALONE = frozenset({"TRANSACTION", "ATTACH", "DETACH", "VACUUM", "LOAD", "SET", "PRAGMA", "CALL", "EXPORT", "COPY"})
_COUNTS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "COPY"})
#: into the very file that was given, which may be one without a name
_AS_IT_IS = "FORMAT parquet, USE_TMP_FILE false"
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
_RETURNING = re.compile(r"\bRETURNING\b", re.IGNORECASE)


def run_statements(running: HostCall, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Run statements, each with its parameters; the rows, or where they are."""
    try:
        return _run(running, given)
    except duckdb().Error as error:
        if is_full(error) and any(place in str(error) for place in (given["spill"], str(running.scratch))):
            raise DataHostFailed(UNWRITTEN, str(error)) from None
        raise


def _run(running: HostCall, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    with open_database(running, given["file"], given["config"]) as connection:
        parsed = [
            (statement, params, verb)
            for verb, text, params in given["statements"]
            for statement in connection.extract_statements(text)
        ]
        if not parsed:
            return {}, b"[]"
        together = len(parsed) > 1 and not any(one.type.name in _ALONE for one, _, _ in parsed)
        if together:
            connection.execute("BEGIN")
        for statement, params, _ in parsed[:-1]:
            running.check()
            connection.execute(statement, params)
        found = _rows(connection, *parsed[-1], given)
        if together:
            connection.execute("COMMIT")
        return found


def _rows(
    connection: Any, statement: Any, params: list[Any], verb: str, given: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    if statement.type.name != "SELECT" or verb not in _TABULAR:
        return {}, _fetch_rows(connection, statement, params, given["limit"])
    # The result becomes a table first: it may be too large to be held, and can be asked for its size in there.
    try:
        connection.execute(f"CREATE TEMP TABLE noetl_result AS\n{statement.query}", params)
    except duckdb().Error as error:
        # It is told of with the author's lines alone, and those are counted without ours.
        raise type(error)(_LINE.sub(lambda found: f"LINE {int(found[1]) - 1}:", str(error))) from None
    return _result(connection, given)


def _result(connection: Any, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    described = connection.execute("SELECT * FROM temp.noetl_result LIMIT 0").description
    columns = [(column[0], column[1]) for column in described]
    connection.execute(f"SELECT {json_row(columns)} FROM temp.noetl_result")
    parts: list[str] = []
    size = 0
    while rows := connection.fetchmany(_ROWS_AT_ONCE):
        texts = [row[0] for row in rows]
        size += sum(map(len, texts))
        parts += texts
        if given["spill_bytes"] is None:
            _check(size, given["limit"])
        elif size > given["spill_bytes"]:
            return _spill_rows(connection, columns, given), b""
    return {}, ("[" + ",".join(parts) + "]").encode()


def _spill_rows(connection: Any, columns: list[tuple[str, Any]], given: dict[str, Any]) -> dict[str, Any]:
    """The rows in a file: they are more than should be held anywhere."""
    chosen = result_row(columns, _find_wide(connection, columns))
    made = connection.execute(f"COPY (SELECT {chosen} FROM temp.noetl_result) TO $1 ({_AS_IT_IS})", [given["spill"]])
    return {"rows": made.fetchone()[0]}


def _find_wide(connection: Any, columns: list[tuple[str, Any]]) -> list[str]:
    """The columns with a whole number that has no place in Parquet's own types."""
    asked = wide_columns(columns)
    if not asked:
        return []
    found = connection.execute(f"SELECT {', '.join(asked.values())} FROM temp.noetl_result").fetchone()
    return [key for key, is_wide in zip(asked, found, strict=True) if is_wide]


def _fetch_rows(connection: Any, statement: Any, params: list[Any], limit: int) -> bytes:
    """Rows of what is no SELECT, such as `INSERT … RETURNING`; there are few."""
    if statement.type.name in _COUNTS and not _RETURNING.search(statement.query):
        connection.execute(statement, params)
        return b"[]"
    made = connection.sql(statement.query, params=params) if params else connection.sql(statement.query)
    if made is None:
        return b"[]"
    found = made.project(json_row(list(zip(made.columns, made.types, strict=True)))).fetchall()
    body = ("[" + ",".join(row[0] for row in found) + "]").encode()
    _check(len(body), limit)
    return body


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise DataHostFailed("limit", f"the result has {size:,} bytes as JSON; the limit is {limit:,}")
