"""The workload held against `metadata.schema`: the defaults when a playbook is read, the merged one before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from noetl.lang.jsonschema.grammar_schema import check_schema
from noetl.lang.jsonschema.validation import schema_errors, shorten_message
from noetl.lang.reading.node import ListNode, MapNode, Node
from noetl.model.diagnostics import Diagnostics
from noetl.model.playbook import Playbook

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
