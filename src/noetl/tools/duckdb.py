"""kind: duckdb

The statements run in a data host (`datahost`), a process apart that can be interrupted and killed.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key, MapOf, OneOf, Text
from noetl.tools.extras import install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from noetl.model.output import Output
    from noetl.ports import Call, World

KIND = ToolKind(
    name="duckdb",
    doc="Runs SQL on DuckDB, in memory or on a file. Templates in the SQL are bound, never spliced.",
    keys={
        "query": Key(Text(templated=True), "One or many statements; the last one's rows are the output."),
        "command": Key(Text(templated=True), "The same as `query`."),
        "file": Key(
            Text(templated=True),
            "The database file, made with its folder where it is not there; in memory, for this task alone, when left out.",
        ),
        "params": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Values for `:name` and `%(name)s`."),
    },
    input=InputRole.ARGUMENTS,
    output="rows as maps",
    one_of=(("query", "command"),),
    sql=frozenset({"query", "command"}),
    keeps_network=True,
    binds=frozenset({"isolation", "limits.memory_mb"}),
    install=install_hint("duckdb", "duckdb"),
    settings=frozenset(),
)

#: a result of more bytes than these, as JSON, is left in a file
_SPILL_BYTES = 1024 * 1024


async def run(call: Call, world: World) -> Output:
    """Run the statements in a host; large results come back as a file."""
    import msgspec

    from noetl.drivers.datahost import UNWRITTEN, CallFailed, DataHosts
    from noetl.drivers.spilled_data import disk_full_error
    from noetl.model.output import PARQUET, failed, ok

    hosts = await DataHosts.of(world)
    with _spill_file(call, world) as (place, spill):
        given = _build_request(call, world, place)
        try:
            async with hosts.lease(shared=given["file"] is not None, spec=call.spec) as host:
                reply = await host.call("noetl.drivers.datahost.databases:run_statements", given)
        except CallFailed as error:
            if error.failure["kind"] == UNWRITTEN:
                raise disk_full_error(world) from None
            return failed(error.failure)
        if "rows" in reply.value:
            return ok(await world.adopt_spill(spill(), PARQUET, rows=reply.value["rows"]))
    return ok(msgspec.json.decode(reply.blob))


@contextmanager
def _spill_file(call: Call, world: World) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """Where a host leaves a large result, and what opens that; it has no name, unless the host could not find it then.

    A process within bounds cannot look into ours, and so not at its files either.
    """
    from noetl.drivers.confinement import bounds_of
    from noetl.drivers.spilled_data import reopen_path

    if bounds_of(call.spec).network:
        with world.open_unnamed() as file:
            yield str(reopen_path(file)), lambda: file
        return
    path = world.draft(".parquet")
    with ExitStack() as opened:
        try:
            yield str(path), lambda: opened.enter_context(path.open("r+b"))
        finally:
            path.unlink(missing_ok=True)


def _build_request(call: Call, world: World, spill: str) -> dict[str, Any]:
    from noetl.drivers.datahost import config_of
    from noetl.drivers.spilled_data import IN_MEMORY, output_limit

    return {
        "file": file_of(call, world),
        "config": config_of(call.spec),
        "statements": _statements(call),
        "spill": spill,
        # What may write no file leaves none to us either: its result comes back over the wire, within reason.
        "spill_bytes": None if call.spec.get("isolation") == "strict" else _SPILL_BYTES,
        "limit": min(output_limit(call), IN_MEMORY) if call.spec.get("isolation") == "strict" else output_limit(call),
    }


def file_of(call: Call, world: World) -> str | None:
    """The database file, if there is one."""
    file = call.config.get("file")
    return str((world.folder / str(file)).absolute()) if file and file != ":memory:" else None


def _statements(call: Call) -> list[tuple[str, str, list[Any]]]:
    """Of each statement its first word, its text and its parameters."""
    from noetl.drivers.datahost import render_statement

    query = call.config.get("query") or call.config.get("command")
    return [("".join(one.verbs), *render_statement(one)) for one in query.statements()] if query is not None else []
