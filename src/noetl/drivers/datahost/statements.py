"""What kind: duckdb does in its host: statements run in order, the last one's rows as JSON, or as Parquet if many."""

from __future__ import annotations

import re
from typing import Any

from noetl.drivers.datahost.data_errors import UNWRITTEN, DataHostFailed, is_full
from noetl.drivers.datahost.databases import open_database
from noetl.drivers.datahost.host import HostCall
from noetl.rows.duck import duckdb, json_row, parquet_row

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


def run(running: HostCall, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
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
    chosen = parquet_row(columns)
    made = connection.execute(f"COPY (SELECT {chosen} FROM temp.noetl_result) TO $1 ({_AS_IT_IS})", [given["spill"]])
    return {"rows": made.fetchone()[0]}


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
