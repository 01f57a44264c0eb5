"""The statements of a task, carried out: in one transaction, with a marker if they are to happen once, undone if one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import psycopg

from noetl.drivers.postgres import UNKNOWN_OUTCOME, PostgresFailed, from_statement_error, is_lost, task_failure
from noetl.model.output import Spilled
from noetl.tools.postgres.connection_pool import PgPool, configure
from noetl.tools.postgres.pg_session import PgSession, Rows
from noetl.tools.postgres.statements import SqlStatement, StatementPlan

# `exactly_once`: a marker in the transaction of a task's statements, so that running them again does nothing. A second
# task with the same key waits until the first has committed or is gone, and then finds the marker or none.


#: an output is kept beside its marker, so it should be no table of its own
_MOST_KEPT = 1 << 20
_TABLE = (
    "CREATE TABLE IF NOT EXISTS noetl_once (key text PRIMARY KEY, output text, at timestamptz NOT NULL DEFAULT now())"
)
#: two that make the table at the same time would stumble over each other
_LOCK = 0x6E6F65746C
_MARK = "INSERT INTO noetl_once (key) VALUES ($1) ON CONFLICT (key) DO NOTHING"
_KEEP = "UPDATE noetl_once SET output = $2 WHERE key = $1"
_FIND = "SELECT output FROM noetl_once WHERE key = $1"
_WAY_OUT = "Somebody who may has to: " + _TABLE
_MISSING = "42P01"


async def _make_table(session: PgSession) -> None:
    """Make the table of markers. Failing: this user may not."""
    try:
        await session.command(f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK}); {_TABLE}; COMMIT")
    except psycopg.Error as error:
        if is_lost(error):
            raise
        said = f"`exactly_once` needs the table `noetl_once`, which cannot be made: {error.diag.message_primary}. {_WAY_OUT}"
        raise task_failure("sql", said, code=error.sqlstate) from None


async def _insert_marker(session: PgSession, key: str) -> bool:
    """Leave the marker; False: it is there already, with what was done then."""
    return await session.run(_MARK, [key]) == 1


async def _store_output(session: PgSession, key: str, data: list[dict[str, Any]] | Spilled, rowcount: int) -> None:
    """Keep what the statements yielded beside the marker. Failing: it is too much for that."""
    text = None if isinstance(data, Spilled) else msgspec.json.encode({"data": data, "rowcount": rowcount})
    if text is None or len(text) > _MOST_KEPT:
        said = (
            f"the result has more than {_MOST_KEPT:,} bytes; with `exactly_once` it is kept in the database, for a task that is "
            "run again. A query that yields much belongs into a task of its own"
        )
        raise task_failure("limit", said)
    await session.run(_KEEP, [key, text.decode()])


async def _read_output(session: PgSession, key: str) -> dict[str, Any]:
    """What the statements yielded when they were run."""
    rows: list[dict[str, Any]] = []
    await session.run(_FIND, [key], rows.extend)
    output: dict[str, Any] = msgspec.json.decode(rows[0]["output"])
    return output


#: the server cannot tell which type a value is to have; with one of its own it can
_UNDETERMINED = frozenset({"42P18", "42725", "42804"})
#: an expression that is grouped or ordered by is not the one that is selected; with equal parameters it may be
_DIFFERENT = frozenset({"42803", "42P10"})
_GLIMPSE = 60


class TransactionWork(msgspec.Struct, frozen=True):
    """What is to be done for a task."""

    plan: StatementPlan
    #: the key of the marker; None: nobody wants it to happen once
    key: str | None
    #: the longest that one statement may take
    timeout_s: float | None
    rows: Callable[[], Rows]
    credential: str
    connect_s: float | None = None
    #: who hears what the server remarks by the way
    notice: Callable[[str], None] = lambda _: None


class TransactionResult(msgspec.Struct):
    """What the last statement yielded."""

    data: list[dict[str, Any]] | Spilled
    rowcount: int


class _AttemptState(msgspec.Struct):
    """What earlier attempts at the same work have found out."""

    #: statements that were tried without types, and what was said to that
    typed: dict[str, psycopg.Error] = {}
    #: statements in which all equal expressions have to be one parameter
    shared: set[str] = set()
    #: whether the table of markers was made
    table: bool = False


class _RestartTransaction(Exception):
    """The transaction has to begin again: a statement's values need types or must be shared, or a table was missing."""


async def execute(pool: PgPool, work: TransactionWork) -> TransactionResult:
    """Carry it out. Failing: it is undone, unless the failure says that nobody knows."""
    learned = _AttemptState()
    lost = False
    while True:
        try:
            async with pool.connection(work.credential, work.connect_s) as connection:
                found = await _Attempt(connection, pool, work, learned).run()
            pool.typed |= learned.typed.keys()
            pool.shared |= learned.shared
        except _RestartTransaction:
            continue
        except PostgresFailed as error:
            # With a marker it is known what a lost COMMIT has done: whoever comes again finds it, or does it.
            if work.key is not None and error.code == UNKNOWN_OUTCOME and not lost:
                lost = True
                continue
            raise
        return found


class _Attempt:
    """One attempt on one connection."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], pool: PgPool, work: TransactionWork, learned: _AttemptState
    ) -> None:
        self._connection = connection
        self._session = PgSession(connection, pool)
        self._pool = pool
        self._work = work
        self._learned = learned
        self._typed = learned.typed

    async def run(self) -> TransactionResult:
        """Run it, and have the connection fit for others after that."""
        rows = self._work.rows()
        self._connection.add_notice_handler(self._on_notice)
        try:
            return await self._run_or_undo(rows)
        finally:
            self._connection.remove_notice_handler(self._on_notice)

    def _on_notice(self, said: psycopg.errors.Diagnostic) -> None:
        self._work.notice(f"{said.severity}: {said.message_primary}\n")

    async def _run_or_undo(self, rows: Rows) -> TransactionResult:
        try:
            found = await self._transaction(rows)
        except psycopg.Error as error:
            rows.discard()
            await self._undo()
            raise from_statement_error(error) from None
        except (_RestartTransaction, PostgresFailed):
            rows.discard()
            await self._undo()
            raise
        except BaseException:
            # The connection is in the middle of something; the server undoes it when it is closed.
            rows.discard()
            await self._connection.close()
            raise
        if self._work.plan.lingers:
            await self._reset_session()
        return found

    async def _reset_session(self) -> None:
        """Have the session as it was. What was done is done: a connection that cannot be cleaned is only not kept."""
        try:
            await self._session.command("DISCARD ALL")
            await configure(self._connection)
        except BaseException as error:
            await self._connection.close()
            if not isinstance(error, psycopg.Error):
                raise

    async def _undo(self) -> None:
        status = self._connection.info.transaction_status
        if status == psycopg.pq.TransactionStatus.ACTIVE:
            await self._connection.close()
        elif status != psycopg.pq.TransactionStatus.IDLE and not self._connection.closed:
            try:
                await self._session.command("ROLLBACK")
            except psycopg.Error:
                await self._connection.close()

    async def _transaction(self, rows: Rows) -> TransactionResult:
        plan, key = self._work.plan, self._work.key
        if plan.begin is None:
            return await self._statements(plan.statements, rows)
        await self._session.command(plan.begin + self._time_limit())
        found = await (self._statements(plan.statements, rows) if key is None else self._run_once(key, rows))
        await self._commit()
        return found

    async def _run_once(self, key: str, rows: Rows) -> TransactionResult:
        """The statements with their marker; what they yielded before if it is there."""
        statements = self._work.plan.statements
        # How isolated a transaction is can only be said before anything is done in it, and the marker is something.
        set_up = [one.head.startswith("SET TRANSACTION") for one in statements]
        leading = set_up.index(False) if False in set_up else len(statements)
        for one in statements[:leading]:
            await self._statement(one, None)
        if not await self._mark(key):
            before = await _read_output(self._session, key)
            return TransactionResult(before["data"], before["rowcount"])
        found = await self._statements(statements[leading:], rows)
        await _store_output(self._session, key, found.data, found.rowcount)
        return found

    def _time_limit(self) -> str:
        limit = self._work.timeout_s
        return "" if limit is None else f"; SET LOCAL statement_timeout = {max(1, round(limit * 1000))}"

    async def _mark(self, key: str) -> bool:
        try:
            return await _insert_marker(self._session, key)
        except psycopg.Error as error:
            if error.sqlstate != _MISSING or self._learned.table:
                raise
            await self._undo()
            await _make_table(self._session)
            self._learned.table = True
            raise _RestartTransaction from None

    async def _commit(self) -> None:
        try:
            await self._session.command("COMMIT")
        except psycopg.Error as error:
            raise _unknown_outcome(error) if is_lost(error) else from_statement_error(error) from None

    # --- statements ------------------------------------------------------------------------------------------------------

    async def _statements(self, statements: Sequence[SqlStatement], rows: Rows) -> TransactionResult:
        count = 0
        for place, one in enumerate(statements):
            last = place == len(statements) - 1
            count = await self._statement(one, rows.add if last else None)
        return TransactionResult(rows.finish(), count)

    async def _statement(self, one: SqlStatement, take: Any) -> int:
        text, values = one.render()
        if text in self._learned.shared or text in self._pool.shared:
            text, values = one.render(shared=True)
        typed = text in self._typed or text in self._pool.typed
        try:
            return await self._session.run(text, values, take, typed=typed)
        except psycopg.Error as error:
            if self._learn(one, text, error, typed=typed or not values):
                if self._work.plan.begin is not None:
                    raise _RestartTransaction from None
                return await self._statement(one, take)
            if is_lost(error) and self._work.plan.begin is None:
                raise _unknown_outcome(error) from None
            raise from_statement_error(
                self._typed.get(text, error), **_locate_error(self._typed.get(text, error), one, text)
            ) from None

    def _learn(self, one: SqlStatement, text: str, error: psycopg.Error, *, typed: bool) -> bool:
        """Whether a statement that the server could not understand may be understood with other parameters."""
        if error.sqlstate in _UNDETERMINED and not typed:
            self._typed[text] = error
            return True
        if error.sqlstate in _DIFFERENT and one.render(shared=True)[0] != text:
            self._learned.shared.add(text)
            return True
        return False


def _unknown_outcome(error: psycopg.Error) -> PostgresFailed:
    said = (
        "the connection to PostgreSQL was lost before it said whether the statements took effect"
        f" ({from_statement_error(error).failure['message']}); with `exactly_once: true` they can be run again safely"
    )
    return task_failure("sql", said, code=UNKNOWN_OUTCOME)


def _locate_error(error: psycopg.Error, one: SqlStatement, text: str) -> dict[str, Any]:
    """Where in the query the server found fault, as far as it says so."""
    position = error.diag.statement_position
    if position is None:
        return {
            "statement": one.number,
            "line": one.line,
            "shown": f" (statement {one.number}, line {one.line} of the query)",
        }
    begins = len(text) - len(text.lstrip())
    place = int(position) - 1
    line = one.line + text[begins:place].count("\n")
    rest = text[place:].partition("\n")[0].strip()
    shown = rest if len(rest) <= _GLIMPSE else rest[:_GLIMPSE] + "…"
    said = f" (line {line} of the query, at `{shown}`)" if shown else f" (at the end of statement {one.number})"
    return {"statement": one.number, "line": line, "shown": said}
