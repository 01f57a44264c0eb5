"""Values validated against the JSON Schemas of a playbook: `spec.validate`, and the workload against `metadata.schema`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.lang.grammar.json_schema import check_schema
from noetl.lang.reading.node import ListNode, MapNode, Node
from noetl.lru import LruCache
from noetl.model.diagnostics import Diagnostics
from noetl.model.output import Failure, failure
from noetl.model.playbook import LayeredValue, Playbook

if TYPE_CHECKING:
    from noetl.schemas import Schema, Violation

#: characters of what is said: it may quote the whole value
_MOST = 300
#: compiled schemas by the identity of what they were made of, which they keep alive; making one takes longer than using
#: it, and a keyword takes a few hundred bytes
_made: LruCache[int, tuple[object, Schema]] = LruCache(100_000)


def schema_violations(value: Any, schema: Any, *, times: int = 1) -> list[Violation]:
    """What a schema forbids of a value, in the order of the places; ValueError says why that cannot be told."""
    from noetl.schemas import STEPS, SchemaInvalid, SchemaLimit, UnknownReference

    try:
        return _compiled(schema).violations(value, steps=times * STEPS)
    except UnknownReference as error:
        raise ValueError(f"its schema refers to `{error}`, which is not in it, and nothing is fetched") from None
    except SchemaInvalid as error:
        raise ValueError(f"its schema is none: {error.said}") from None
    except (SchemaLimit, RecursionError):
        raise ValueError(
            "its schema takes too long to check against it: a schema that refers to itself, or many alternatives that "
            "each look at the whole value, grow beyond measure; write a simpler one"
        ) from None


def shorten_message(message: str) -> str:
    """What is said, when it quotes too much."""
    return message if len(message) <= _MOST else f"{message[: _MOST // 2]} … {message[-_MOST // 2 :]}"


#: a worker has more time than a server, and more to check: so many times as much
_ON_WORKERS = 10


def schema_failure(
    spec: Mapping[str, LayeredValue], side: str, value: Any, whose: str, *, on_worker: bool = False
) -> Failure | None:
    """Why a value does not fit `validate.input` or `validate.output` of an effective spec; None: it does."""
    found = spec.get(f"validate.{side}")
    if found is None:
        return None
    name = "input" if side == "input" else "output.data"
    try:
        problems = schema_violations(value, found.value, times=_ON_WORKERS if on_worker else 1)
    except ValueError as error:
        return failure("schema", f"the {side} of {whose} cannot be checked: {error}")
    if not problems:
        return None
    told = [{"path": _path(name, one.path), "message": shorten_message(one.message)} for one in problems[:10]]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"the {side} of {whose} does not fit its schema: `{told[0]['path']}`: {told[0]['message']}{more}"
    return failure("schema", message, problems=told)


def schema_problem(value: Any, schema: Any) -> str | None:
    """Why a value does not fit a schema, in words; None: it does."""
    try:
        problems = schema_violations(value, schema)
    except ValueError as error:
        return f"it cannot be checked: {error}"
    if not problems:
        return None
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = _path("data", problems[0].path)
    return f"`{where}` does not fit its schema: {shorten_message(problems[0].message)}{more}"


def _path(name: str, parts: Any) -> str:
    return name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _compiled(schema: Any) -> Schema:
    from noetl.schemas import Schema

    known = _made.get(id(schema))
    if known is None:
        known = (schema, Schema(schema))
        _made.put(id(schema), known, known[1].size)
    return known[1]


# The workload held against `metadata.schema`: the defaults when a playbook is read, the merged one before it runs.


#: what a payload cannot mend by adding keys to a map
_FINAL = frozenset({"type", "additionalProperties", "propertyNames", "maxProperties"})


class WorkloadViolation(NamedTuple):
    """One thing in a workload that its schema forbids."""

    path: tuple[str | int, ...]
    said: str
    #: whether it stays wrong whatever a payload adds
    final: bool
    #: the key that is not there, of one that has to be
    lacks: str | None = None

    @property
    def name(self) -> str:
        """The place as people write it: `workload.db.port`, `workload.names[0]`."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "workload" + "".join(parts)


def workload_violations(workload: Mapping[str, Any], schema: object) -> list[WorkloadViolation]:
    """What a schema says against a workload. Nothing is fetched: a schema that lies elsewhere is a misfit itself."""
    if not isinstance(schema, Mapping) or check_schema(schema) is not None:
        return []
    try:
        errors = schema_violations(workload, schema)
    except ValueError as error:
        return [WorkloadViolation((), str(error), final=False)]
    return [WorkloadViolation(one.path, shorten_message(one.message), _is_final(one), _lacks(one)) for one in errors]


def _is_final(one: Violation) -> bool:
    """A payload is merged into maps and replaces all else; what it does not mention stays as it is."""
    in_list = any(isinstance(part, int) for part in one.path)
    return in_list or not isinstance(one.value, dict) or one.keyword in _FINAL


def _lacks(one: Violation) -> str | None:
    """Of a map without a required key: that key."""
    missing = [name for name in one.limit if name not in one.value] if one.keyword == "required" else []
    return next((name for name in missing if repr(name) in one.message), None)


def check_defaults(root: MapNode, playbook: Playbook, problems: Diagnostics) -> None:
    """Report defaults that their own schema forbids. They keep nothing from running: a payload may replace them."""
    schema = playbook.metadata.get("schema")
    if schema is None or not playbook.workload:
        return
    for one in workload_violations(playbook.workload, schema):
        node = _at(root.get("workload"), one.path)
        # A default that says nothing waits for the payload.
        if one.final and one.path and node is not None and getattr(node, "value", one) is not None:
            at = node.alias or (node.start, node.end)
            message = f"{one.name} does not fit `metadata.schema`: {one.said}"
            problems.error("payload-schema", message, at, fix="correct this default, or the schema")


def _at(node: Node | None, path: tuple[str | int, ...]) -> Node | None:
    for part in path:
        if isinstance(node, MapNode):
            node = node.get(str(part))
        elif isinstance(node, ListNode) and isinstance(part, int):
            node = node.items[part]
    return node
