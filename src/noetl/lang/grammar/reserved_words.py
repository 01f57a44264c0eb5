"""Reserved words of a document: where they stand, and what to write instead.

The words themselves are in the tables of the grammar, as keys with `reserved`. Validation rejects them; `noetl migrate`
removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from noetl.lang.grammar.document_shape import PLAYBOOK, RESERVED_DOCUMENTS, SHAPES, SUGAR, SUGAR_SHAPES, task_shape
from noetl.lang.grammar.value_types import fits, is_labelled
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar
from noetl.model.diagnostics import Diagnostics
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import ListOf, MapOf, OneOf, Record, Shape, ShapeRef


class ReservedEntry(NamedTuple):
    """A key that has no meaning where it stands, the map that holds it, and what to write instead."""

    entry: MapEntry
    holder: MapNode
    instead: str


def find_reserved(root: MapNode, kinds: Mapping[str, ToolKind]) -> list[ReservedEntry]:
    """Return the reserved keys of a document, in its order. An anchor that is used twice is looked at once."""
    return list(_ReservedWalk(kinds).walk(root, PLAYBOOK))


def report_reserved_document(root: MapNode, problems: Diagnostics) -> bool:
    """Report a document of a kind that has no meaning yet; true if it is one, and nothing else of it is to be checked."""
    kind = root.get("kind")
    if not isinstance(kind, Scalar) or kind.text not in RESERVED_DOCUMENTS:
        return False
    at = kind.alias or (kind.start, kind.end)
    problems.error("reserved", f"`kind: {kind.text}` has no meaning yet", at, fix=RESERVED_DOCUMENTS[kind.text])
    return True


class _ReservedWalk:
    def __init__(self, kinds: Mapping[str, ToolKind]) -> None:
        self._kinds = kinds
        self._seen: set[int] = set()

    def walk(self, node: Node, shape: Shape) -> Iterator[ReservedEntry]:
        if isinstance(shape, OneOf):
            fitting = next((one for one in shape.shapes if fits(node, one)), None)
            if fitting is not None:
                yield from self.walk(node, fitting)
        elif isinstance(shape, ShapeRef):
            yield from self._named(node, shape.name)
        elif isinstance(node, MapNode) and isinstance(shape, Record | MapOf):
            yield from self._entries(node, shape)
        elif isinstance(node, ListNode) and isinstance(shape, ListOf):
            for item in node.items:
                yield from self.walk(item, shape.item)

    def _entries(self, node: MapNode, shape: Record | MapOf) -> Iterator[ReservedEntry]:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        for entry in node.entries:
            if isinstance(shape, MapOf):
                instead, inner = shape.reserved.get(entry.name), shape.value
            else:
                key = shape.keys.get(entry.name)
                if key is None:
                    continue
                instead, inner = key.reserved, key.shape
            if instead:
                yield ReservedEntry(entry, node, instead)
            else:
                yield from self.walk(entry.value, inner)

    def _named(self, node: Node, name: str) -> Iterator[ReservedEntry]:
        if name == "TaskItem" and isinstance(node, MapNode):
            sugar = next((entry for entry in node.entries if entry.name in SUGAR), None)
            if sugar is not None and "kind" not in node:
                yield from self.walk(sugar.value, SUGAR_SHAPES[sugar.name])
            else:
                yield from self._task(node.entries[0].value if is_labelled(node) else node)
        elif name in ("Task", "TaskItem"):
            yield from self._task(node)
        else:
            yield from self.walk(node, SHAPES[name])

    def _task(self, node: Node) -> Iterator[ReservedEntry]:
        kind_node = node.get("kind") if isinstance(node, MapNode) else None
        name = kind_node.value if isinstance(kind_node, Scalar) else None
        if not isinstance(node, MapNode) or not isinstance(name, str) or name not in self._kinds:
            return
        kind = self._kinds[name]
        yield from self.walk(node, task_shape(kind))
        block = node.get("input")
        if kind.input is InputRole.CONFIGURES and isinstance(block, MapNode):
            yield from self.walk(block, Record(title="`input`", keys=kind.keys))
