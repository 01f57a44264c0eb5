"""`exactly_once`: a marker in the transaction of a task's statements, so that running them again does nothing.

Whoever comes second with the same key waits until the first has committed or is gone, and then finds the marker or none.
"""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from noetl.drivers.postgres import is_lost, task_failure
from noetl.model.output import Spilled
from noetl.tools.postgres.pg_session import PgSession

#: an output is kept beside its marker, so it should be no table of its own
MOST = 1 << 20
_TABLE = (
    "CREATE TABLE IF NOT EXISTS noetl_once (key text PRIMARY KEY, output text, at timestamptz NOT NULL DEFAULT now())"
)
#: two that make the table at the same time would stumble over each other
_LOCK = 0x6E6F65746C
_MARK = "INSERT INTO noetl_once (key) VALUES ($1) ON CONFLICT (key) DO NOTHING"
_KEEP = "UPDATE noetl_once SET output = $2 WHERE key = $1"
_FIND = "SELECT output FROM noetl_once WHERE key = $1"
_WAY_OUT = "Somebody who may has to: " + _TABLE
MISSING = "42P01"


async def make_table(session: PgSession) -> None:
    """Make the table of markers. Failing: this user may not."""
    try:
        await session.command(f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK}); {_TABLE}; COMMIT")
    except psycopg.Error as error:
        if is_lost(error):
            raise
        said = f"`exactly_once` needs the table `noetl_once`, which cannot be made: {error.diag.message_primary}. {_WAY_OUT}"
        raise task_failure("sql", said, code=error.sqlstate) from None


async def mark(session: PgSession, key: str) -> bool:
    """Leave the marker; False: it is there already, with what was done then."""
    return await session.run(_MARK, [key]) == 1


async def store_output(session: PgSession, key: str, data: list[dict[str, Any]] | Spilled, rowcount: int) -> None:
    """Keep what the statements yielded beside the marker. Failing: it is too much for that."""
    text = None if isinstance(data, Spilled) else msgspec.json.encode({"data": data, "rowcount": rowcount})
    if text is None or len(text) > MOST:
        said = (
            f"the result has more than {MOST:,} bytes; with `exactly_once` it is kept in the database, for a task that is "
            "run again. A query that yields much belongs into a task of its own"
        )
        raise task_failure("limit", said)
    await session.run(_KEEP, [key, text.decode()])


async def read_output(session: PgSession, key: str) -> dict[str, Any]:
    """What the statements yielded when they were run."""
    rows: list[dict[str, Any]] = []
    await session.run(_FIND, [key], rows.extend)
    output: dict[str, Any] = msgspec.json.decode(rows[0]["output"])
    return output
