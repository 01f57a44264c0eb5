"""Values validated against the JSON Schemas of a playbook: `spec.validate`, and the workload against `metadata.schema`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from noetl.lang.grammar.json_schema import check_schema
from noetl.lang.reading.node import ListNode, MapNode, Node
from noetl.model.diagnostics import Diagnostics
from noetl.model.output import Failure, failure
from noetl.model.playbook import LayeredValue, Playbook

#: characters of what is said: it may quote the whole value
_MOST = 300
#: validators by the identity of their schemas, which they keep alive; making one takes longer than using it
_made: dict[int, tuple[object, Any]] = {}
_MOST_MADE = 1_000


def schema_errors(value: Any, schema: Any) -> list[Any]:
    """The errors of jsonschema, in the order of their places. Nothing is fetched; ValueError: a reference leads away."""
    from referencing.exceptions import Unresolvable

    try:
        return sorted(_validator(schema).iter_errors(value), key=lambda one: str(one.absolute_path))
    except Unresolvable as error:
        raise ValueError(f"its schema refers to `{error.ref}`, which is not in it") from None
    except RecursionError:
        raise ValueError("its schema is nested too deeply") from None


def shorten_message(message: str) -> str:
    """What is said, when it quotes too much."""
    return message if len(message) <= _MOST else f"{message[: _MOST // 2]} … {message[-_MOST // 2 :]}"


def schema_failure(spec: Mapping[str, LayeredValue], side: str, value: Any, whose: str) -> Failure | None:
    """Why a value does not fit `validate.input` or `validate.output` of an effective spec; None: it does."""
    found = spec.get(f"validate.{side}")
    if found is None:
        return None
    name = "input" if side == "input" else "output.data"
    try:
        problems = schema_errors(value, found.value)
    except ValueError as error:
        return failure("schema", f"the {side} of {whose} cannot be checked: {error}")
    if not problems:
        return None
    told = [{"path": _path(name, one.absolute_path), "message": shorten_message(one.message)} for one in problems[:10]]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"the {side} of {whose} does not fit its schema: `{told[0]['path']}`: {told[0]['message']}{more}"
    return failure("schema", message, problems=told)


def schema_problem(value: Any, schema: Any) -> str | None:
    """Why a value does not fit a schema, in words; None: it does."""
    try:
        problems = schema_errors(value, schema)
    except ValueError as error:
        return f"it cannot be checked: {error}"
    if not problems:
        return None
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = _path("data", problems[0].absolute_path)
    return f"`{where}` does not fit its schema: {shorten_message(problems[0].message)}{more}"


def _path(name: str, parts: Any) -> str:
    return name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _validator(schema: Any) -> Any:
    known = _made.get(id(schema))
    if known is None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        if len(_made) >= _MOST_MADE:
            _made.clear()
        made = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
        known = _made[id(schema)] = (schema, made)
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
        errors = schema_errors(workload, schema)
    except ValueError as error:
        return [WorkloadViolation((), str(error), final=False)]
    return [
        WorkloadViolation(tuple(one.absolute_path), shorten_message(one.message), _is_final(one), _lacks(one))
        for one in errors
    ]


def _is_final(error: Any) -> bool:
    """A payload is merged into maps and replaces all else; what it does not mention stays as it is."""
    in_list = any(isinstance(part, int) for part in error.absolute_path)
    return in_list or not isinstance(error.instance, dict) or error.validator in _FINAL


def _lacks(error: Any) -> str | None:
    """Of a map without a required key: that key."""
    missing = (
        [name for name in error.validator_value if name not in error.instance] if error.validator == "required" else []
    )
    return next((name for name in missing if repr(name) in error.message), None)


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
