"""The maps of a document with the shapes that the grammar gives them, for checks that look for keys by their meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from noetl.lang.grammar.document_shape import PLAYBOOK, SHAPES, SUGAR, SUGAR_SHAPES, task_shape
from noetl.lang.grammar.value_types import fits, is_labelled
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import ListOf, MapOf, OneOf, Record, Shape, ShapeRef


class ShapedMap(NamedTuple):
    """A map of the document, its shape, and the kind of the task that it is, or is a part of."""

    node: MapNode
    shape: Record | MapOf
    kind: ToolKind | None


def walk_document(root: MapNode, kinds: Mapping[str, ToolKind]) -> Iterator[ShapedMap]:
    """Yield the maps of a document in its order. What is unknown is left out; an anchor used twice is yielded once."""
    yield from _DocumentWalk(kinds).walk(root, PLAYBOOK, None)


class _DocumentWalk:
    def __init__(self, kinds: Mapping[str, ToolKind]) -> None:
        self._kinds = kinds
        self._seen: set[int] = set()

    def walk(self, node: Node, shape: Shape, kind: ToolKind | None) -> Iterator[ShapedMap]:
        if isinstance(shape, OneOf):
            fitting = next((one for one in shape.shapes if fits(node, one)), None)
            if fitting is not None:
                yield from self.walk(node, fitting, kind)
        elif isinstance(shape, ShapeRef):
            yield from self._named(node, shape.name)
        elif isinstance(node, MapNode) and isinstance(shape, Record | MapOf):
            if id(node) not in self._seen:
                self._seen.add(id(node))
                yield ShapedMap(node, shape, kind)
                yield from self._inside(node, shape, kind)
        elif isinstance(node, ListNode) and isinstance(shape, ListOf):
            for item in node.items:
                yield from self.walk(item, shape.item, kind)

    def _inside(self, node: MapNode, shape: Record | MapOf, kind: ToolKind | None) -> Iterator[ShapedMap]:
        for entry in node.entries:
            if isinstance(shape, MapOf):
                yield from self.walk(entry.value, shape.value, kind)
            elif (key := shape.keys.get(entry.name)) is not None:
                yield from self.walk(entry.value, key.shape, kind)

    def _named(self, node: Node, name: str) -> Iterator[ShapedMap]:
        if name == "TaskItem" and isinstance(node, MapNode):
            sugar = next((entry for entry in node.entries if entry.name in SUGAR), None)
            if sugar is not None and "kind" not in node:
                yield from self.walk(sugar.value, SUGAR_SHAPES[sugar.name], None)
            else:
                yield from self._task(node.entries[0].value if is_labelled(node) else node)
        elif name in ("Task", "TaskItem"):
            yield from self._task(node)
        else:
            yield from self.walk(node, SHAPES[name], None)

    def _task(self, node: Node) -> Iterator[ShapedMap]:
        kind_node = node.get("kind") if isinstance(node, MapNode) else None
        kind = self._kinds.get(kind_node.value) if isinstance(kind_node, Scalar) else None
        if not isinstance(node, MapNode) or kind is None:
            return
        block = node.get("input")
        if kind.input is InputRole.CONFIGURES and isinstance(block, MapNode):
            yield from self.walk(block, Record(title="`input`", keys=kind.keys), kind)
        yield from self.walk(node, task_shape(kind), kind)
