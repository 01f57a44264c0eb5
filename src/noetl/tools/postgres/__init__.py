"""kind: postgres"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Flag, Key, MapOf, OneOf, Text
from noetl.tools.extras import install_hint

if TYPE_CHECKING:
    from noetl.model.output import Output
    from noetl.ports import Call, World
    from noetl.tools.postgres.connection_pool import PgPool
    from noetl.tools.postgres.transaction import TransactionWork

#: kinds of keychain entries that may say where a database is
FITTING = frozenset({"postgres_credential", "generic", "secret_manager"})

KIND = ToolKind(
    name="postgres",
    doc="Runs SQL on PostgreSQL, in one transaction. Templates in the SQL are bound, never spliced.",
    keys={
        "query": Key(Text(templated=True), "One or many statements; the last one's rows are the output."),
        "command": Key(Text(templated=True), "The same as `query`."),
        "params": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Values for `:name` and `%(name)s`."),
        "exactly_once": Key(Flag(), "Commit a marker with the statement, so a repeated task takes effect once."),
    },
    input=InputRole.ARGUMENTS,
    output="rows as maps, of the last statement",
    one_of=(("query", "command"),),
    sql=frozenset({"query", "command"}),
    keeps_network=True,
    opened_by=FITTING,
    install=install_hint("psycopg", "postgres"),
    settings=frozenset({"retries", "pool_size"}),
)

_POOL_SIZE = 10


async def run(call: Call, world: World) -> Output:
    """Run the statements, over the connections that the execution's earlier tasks left open."""
    from noetl.drivers.postgres import NOT_INSTALLED, PostgresFailed
    from noetl.errors import TemplateError
    from noetl.model.output import failed, failure, ok

    try:
        from noetl.tools.postgres.transaction import execute
    except ImportError:
        return failed(failure("fail", NOT_INSTALLED))
    try:
        pool, work = await _pool(call, world), _build_work(call, world)
        done = await _retry(call, lambda: execute(pool, work))
    except PostgresFailed as error:
        return failed(error.failure, pg=error.pg)
    except TemplateError as error:
        return failed(failure(error.kind, error.message))
    return ok(done.data, pg={"code": "00000", "sqlstate": "00000", "message": None, "rowcount": done.rowcount})


async def _retry(call: Call, carry_out: Any) -> Any:
    """`spec.retries`: the driver's own, of what surely did not happen and may go well later."""
    import asyncio

    from noetl.drivers.postgres import PostgresFailed

    left, pause = int(call.spec.get("retries") or 0), 0.1
    while True:
        try:
            return await carry_out()
        except PostgresFailed as error:
            if not left or not error.failure["retryable"] or error.failure["kind"] == "timeout":
                raise
        left -= 1
        await asyncio.sleep(pause)
        pause = min(2 * pause, 5)


def _build_work(call: Call, world: World) -> TransactionWork:
    from noetl.tools.postgres.pg_session import Rows
    from noetl.tools.postgres.statements import plan
    from noetl.tools.postgres.transaction import TransactionWork

    once = bool(call.config.get("exactly_once"))
    timeout = call.spec.get("timeout", call.spec.get("timeout.read"))
    return TransactionWork(
        plan(call.config.get("query") or call.config.get("command"), once=once, timeout=timeout is not None),
        call.key if once else None,
        None if timeout is None else float(timeout),
        lambda: Rows(call, world),
        _credential(call),
        call.spec.get("timeout.connect"),
        lambda said: world.log(call, "stderr", said),
    )


async def _pool(call: Call, world: World) -> PgPool:
    """The connections for the task's credential. Failing: it has none, or may not use it."""
    import hashlib

    import msgspec
    import psycopg

    from noetl.drivers.postgres import NoAddress, connection_refusal, from_connect_error, task_failure
    from noetl.tools.postgres.connection_pool import PgPool

    auth = call.auth
    if auth is None:
        said = "`kind: postgres` needs to know where and as whom: `auth` names an entry of the keychain, a `postgres_credential`"
        raise task_failure("credential", said)
    if auth.get("kind") not in FITTING:
        raise task_failure(
            "credential", f"{_credential(call)} is a `{auth.get('kind')}`, and PostgreSQL needs a `postgres_credential`"
        )
    try:
        forbidden = connection_refusal(auth, call.spec)
    except (psycopg.Error, NoAddress) as error:
        raise from_connect_error(error, _credential(call)) from None
    if forbidden is not None:
        raise task_failure("isolation", forbidden)
    size = call.spec.get("pool_size") or _POOL_SIZE
    if not isinstance(size, int) or size < 1:
        raise task_failure("type", f"`spec.pool_size` must be a whole number above 0, not {size!r}")
    mark = hashlib.sha256(msgspec.json.encode(dict(auth), order="deterministic")).hexdigest()
    return await world.resource(f"postgres {mark} {size}", lambda: PgPool.open(auth, size), PgPool.close)


def _credential(call: Call) -> str:
    return f"the credential `{call.auth_name}`" if call.auth_name else "its credential"
