"""JSON Schemas inside of a playbook: that they are schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.checks.subject import Subject
from noetl.lang.grammar.json_schema import check_schema
from noetl.lang.reading.node import ListNode, MapNode, Node, plain_value

_MENTIONED = re.compile(r"\b(validate|schema)[\"']?\s*:")


def check(subject: Subject) -> None:
    """Report schemas of the workload, of inputs and of outputs that no validator would take."""
    for node in _schemas(subject.root, mentioned=_mentions_schema(subject.problems.source.text)):
        wrong = check_schema(plain_value(node))
        if wrong is not None:
            at = node.alias or (node.start, node.end)
            subject.problems.error("wrong-value", f"this is not a JSON Schema: {wrong}", at)


def _mentions_schema(text: str) -> bool:
    return ("validate" in text or "schema" in text) and _MENTIONED.search(text) is not None


def _schemas(root: MapNode, *, mentioned: bool) -> Iterator[Node]:
    metadata = root.get("metadata")
    schema = metadata.get("schema") if isinstance(metadata, MapNode) else None
    if schema is not None:
        yield schema
    for name in ("executor", "workflow", "workbook") if mentioned else ():
        block = root.get(name)
        if block is not None:
            yield from _validate_schemas(block)


def _validate_schemas(node: Node) -> Iterator[Node]:
    """What stands under `spec.validate`, wherever a spec stands, and the `schema` of a wait."""
    if isinstance(node, ListNode):
        for item in node.items:
            yield from _validate_schemas(item)
    elif isinstance(node, MapNode):
        schema = node.get("schema")
        if schema is not None and getattr(node.get("kind"), "value", None) == "wait":
            yield schema
        for one in node.entries:
            rules = one.value.get("validate") if one.name == "spec" and isinstance(one.value, MapNode) else None
            if isinstance(rules, MapNode):
                yield from (child for word in ("input", "output") if (child := rules.get(word)) is not None)
            yield from _validate_schemas(one.value)
