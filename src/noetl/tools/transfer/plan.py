"""A transfer's configuration, held against what its kinds of source and target need, and packed for the data host."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.drivers.confinement import bounds_of
from noetl.drivers.datahost import LITTLE, CallFailed, config_of, render_statement
from noetl.drivers.postgres import NoAddress, connection_arguments, from_connect_error
from noetl.expr import BoundQuery, Template, value
from noetl.model.output import Failure, failure
from noetl.ports import Call, World
from noetl.tools.postgres import FITTING
from noetl.tools.transfer import REMOTE
from noetl.tools.transfer.text_files import UnknownFormat, format_of

_SIZE = 10_000
#: kinds that are asked in SQL
QUERIED = ("duckdb", "postgres")
#: of what restricts a task, the part that is for statements of ours too
_OF_OURS = frozenset({"limits.memory_mb"})
_MODES = ("insert", "append", "upsert", "replace")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(?:\(\s*\d+\s*(?:,\s*\d+\s*)?\))?(?:\[\])*")
#: what each kind cannot do without
_SOURCES = {
    "data": ("data",),
    "file": ("path",),
    "s3": ("path",),
    "duckdb": (),
    "http": ("url",),
    "postgres": ("auth",),
}
_TARGETS = {
    "file": ("path",),
    "s3": ("path",),
    "duckdb": ("file", "table"),
    "http": ("url",),
    "postgres": ("auth", "table"),
}
#: what is written as a file
_FILES = ("file", "s3")


class InvalidTransfer(Exception):
    """The configuration makes no transfer."""


class TransferPlan(msgspec.Struct):
    """What is to be done."""

    source: dict[str, Any]
    targets: list[dict[str, Any]]
    size: int
    #: whether the author said how many rows a chunk has, and so how many are committed together
    sized: bool
    stream: bool
    #: what names this transfer in its targets, the same in all attempts
    token: str
    #: what the targets' templates read
    scopes: dict[str, Any]
    #: settings of databases, and of one in which a query of the author runs
    config: dict[str, Any]
    restricted: dict[str, Any]

    @property
    def uses_databases(self) -> bool:
        """Whether database files are involved."""
        return bool(self.source.get("file")) or any(one["kind"] == "duckdb" for one in self.targets)


def plan_of(call: Call, world: World) -> TransferPlan:
    """The plan of a task. Unfit: there is none."""
    source = _add_connection(_end(call.config.get("source"), "source", _SOURCES), "source", call)
    listed = call.config.get("targets")
    if not isinstance(listed, list) or not listed:
        raise InvalidTransfer("`targets` must be a list with at least one target")
    targets = []
    for at, one in enumerate(listed, 1):
        what = f"target {at}"
        targets.append(_target(_add_connection(_end(one, what, _TARGETS), what, call), what, world))
    for end in (source, *targets):
        if end["kind"] == "s3" and end.get("auth"):
            end["credential"] = dict(call.auths.get(str(end["auth"]), {}))
    chunk = call.config.get("chunk") or {}
    size = chunk.get("size", _SIZE)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidTransfer(f"`chunk.size` must be a whole number above 0, not {size!r}")
    return TransferPlan(
        source=_source(source, world),
        targets=targets,
        size=size,
        sized="size" in chunk,
        stream=chunk.get("mode") == "stream",
        token=hashlib.sha256(call.key.encode()).hexdigest()[:16],
        scopes=_scopes(targets, call.scopes),
        config=config_of({key: part for key, part in call.spec.items() if key in _OF_OURS}, memory=LITTLE),
        restricted=config_of(call.spec),
    )


def _end(given: Any, what: str, kinds: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidTransfer(f"the {what} must be a map, not {type(given).__name__}")
    kind = str(given.get("kind"))
    if kind not in kinds:
        raise InvalidTransfer(
            f"`kind: {kind}` as {what} of a transfer cannot be run by this version; it knows {', '.join(kinds)}"
        )
    lacking = [key for key in kinds[kind] if given.get(key) in (None, "") and key != "data"]
    if lacking:
        raise InvalidTransfer(f"the {what} of kind `{kind}` needs `{lacking[0]}`")
    return dict(given)


def _add_connection(given: dict[str, Any], what: str, call: Call) -> dict[str, Any]:
    """With what connects it to PostgreSQL, where that is where it is."""
    if given["kind"] != "postgres":
        return given
    auth = call.auths.get(str(given["auth"]))
    if auth is None:
        raise InvalidTransfer(
            f"the {what} of kind `postgres` needs `auth`: the name of a `postgres_credential` of the keychain"
        )
    if auth.get("kind") not in (None, *FITTING):
        raise InvalidTransfer(
            f"the {what} needs a `postgres_credential`; `{given['auth']}` is of the kind `{auth['kind']}`"
        )
    try:
        return {**given, "connect": connection_arguments(auth)}
    except NoAddress as error:
        raise CallFailed(from_connect_error(error, f"the credential `{given['auth']}`").failure) from None


def _source(given: dict[str, Any], world: World) -> dict[str, Any]:
    if given["kind"] == "file":
        path = _path(given["path"], world)
        given |= {"path": path, "format": _format(given.get("format"), path), "columns": _columns(given)}
    elif given["kind"] == "s3":
        given |= {"format": _format(given.get("format"), str(given["path"])), "columns": _columns(given)}
    elif given["kind"] in QUERIED:
        if given["kind"] == "duckdb":
            given["file"] = _path(given["file"], world) if given.get("file") else None
        given["whole"] = not isinstance(given.get("query"), BoundQuery)
        given["query"] = _query(given)
        given["order_by"] = _as_list(given.get("order_by"))
    elif given["kind"] == "http":
        from noetl.tools.transfer.paging import BadPage, read_paging

        try:
            given["paging"] = read_paging(given)
        except BadPage as error:
            raise InvalidTransfer(str(error)) from None
    return given


def _columns(given: Mapping[str, Any]) -> dict[str, str]:
    columns = given.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise InvalidTransfer("the source's `columns` must be a map of names to types")
    for column, kind in columns.items():
        if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise InvalidTransfer(
                f"`source.columns.{column}`: {kind!r} is no type; BIGINT, DECIMAL(18, 2), VARCHAR and DATE are some"
            )
    return dict(columns)


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _query(given: Mapping[str, Any]) -> tuple[str, list[Any]]:
    query, table = given.get("query"), given.get("table")
    if isinstance(query, BoundQuery):
        statements = query.statements()
        if len(statements) != 1:
            raise InvalidTransfer(f"the source's `query` must be one statement, not {len(statements)}")
        if given["kind"] == "duckdb":
            return render_statement(statements[0])
        text, params = statements[0].render("%s")  # bound by the driver, which the data host has
        return text, plain(params)
    if not table:
        raise InvalidTransfer(f"the source of kind `{given['kind']}` needs `query` or `table`")
    from noetl.rows.duck import name

    text = "SELECT * FROM " + ".".join(name(part) for part in str(table).split("."))
    return text if given["kind"] == "duckdb" else text.replace("%", "%%"), []


def _target(given: dict[str, Any], what: str, world: World) -> dict[str, Any]:
    kind = given["kind"]
    mode = given.get("mode") or ("replace" if kind in _FILES else "append")
    if mode not in _MODES:
        raise InvalidTransfer(f"the mode of {what} is {mode!r}; it can be {', '.join(_MODES)}")
    if kind in _FILES:
        if mode == "upsert":
            raise InvalidTransfer(f"{what} is a file, in which rows cannot be updated: `mode` is append or replace")
        mode = "append" if mode == "insert" else mode
    if kind == "s3" and isinstance(given["path"], str) and "body" not in given:
        _format(given.get("format"), given["path"])
    if kind == "file":
        given["folder"] = str(world.folder.absolute())
        if isinstance(given["path"], str):
            given["path"] = _path(given["path"], world)
    elif kind == "duckdb":
        given["file"] = _path(given["file"], world)
    if kind in QUERIED:
        given["key"] = _as_list(given.get("key"))
        if mode == "upsert" and not given["key"]:
            raise InvalidTransfer(
                f"{what} is to be updated (`mode: upsert`) and needs `key`: the columns that identify a row"
            )
    return {**given, "mode": mode}


def _path(given: Any, world: World) -> str:
    return str((world.folder / Path(str(given)).expanduser()).absolute())


def _format(given: Any, path: str) -> str:
    try:
        return format_of(path, given)
    except UnknownFormat as error:
        raise InvalidTransfer(str(error)) from None


def pack(tree: Any) -> Any:
    """A configuration whose templates are pairs, for the way to the host."""
    if isinstance(tree, Template):
        return "template", tree.source
    if isinstance(tree, Mapping):
        return {str(key): pack(part) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [pack(part) for part in tree]
    return plain(tree)


def plain(value_: Any) -> Any:
    """What templates see may be a map of another class."""
    return msgspec.to_builtins(value_, enc_hook=_plain, str_keys=True)


def _plain(value_: Any) -> Any:
    return dict(value_) if isinstance(value_, Mapping) else str(value_)


def _scopes(targets: list[dict[str, Any]], scopes: Mapping[str, Any]) -> dict[str, Any]:
    """Of what templates may read, the names that those of the targets do."""
    found = {read.path[0] for one in targets for made in value(one).templates for read in made.facts.reads}
    return {key: plain(scopes[key]) for key in sorted(found & scopes.keys()) if not callable(scopes[key])}


# What a transfer must not reach: known before it begins, by the kinds of its ends.


def reachability_failure(spec: Mapping[str, Any], plan: TransferPlan) -> Failure | None:
    """Why a transfer with this spec is not begun: an end of it lies where it must not go. None: there is no such end.

    Requests are made by the engine, which knows the hosts that it may call. Everything else connects from a process
    whose kernel does not tell hosts apart.
    """
    if bounds_of(spec).network:
        return None
    key = _key(spec)
    by_host = "allow_hosts" in spec and key == "`allow_hosts`"
    ends = {"the source": plan.source, **{f"target {at}": one for at, one in enumerate(plan.targets, 1)}}
    for name, end in ends.items():
        if end["kind"] in REMOTE and not (by_host and end["kind"] == "http"):
            said = f"{key} cannot be kept: {name} of the transfer ({end['kind']}) needs a network; the task was not run"
            return failure("isolation", said)
    return None


def _key(spec: Mapping[str, Any]) -> str:
    """What forbids the network."""
    if spec.get("network") == "off":
        return "`network: off`"
    if spec.get("isolation") == "strict" and spec.get("network") != "on":
        return "`isolation: strict` without `network: on`"
    return "`allow_hosts`"
