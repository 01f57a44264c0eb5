"""Keys that stand beside the one they belong under: the usual slip where indentation is syntax."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from noetl.lang.grammar import SHAPES, TASK_KEYS
from noetl.lang.node import Entry, MapNode, Scalar
from noetl.lang.sorts import is_nothing
from noetl.model.diagnostics import Edit
from noetl.model.kinds import ToolKind
from noetl.model.shape import OneOf, Record, Shape, Use


class Strays(NamedTuple):
    """Entries that follow an empty one and belong under it."""

    home: Entry
    entries: list[Entry]


def strays(home: Entry, node: MapNode, shape: Record, kinds: Mapping[str, ToolKind]) -> Strays | None:
    """What was meant to stand under an empty key: keys right behind it that only it knows, and those between them."""
    behind = node.entries[node.entries.index(home) + 1 :]
    inner = _inner(shape.keys[home.name].shape, behind, kinds)
    inside = list(takewhile(lambda one: one.name in inner, behind))
    while inside and inside[-1].name in shape.keys:
        inside.pop()
    return Strays(home, inside) if inside and inside[0].name not in shape.keys else None


def home_of(entry: Entry, node: MapNode, shape: Record, kinds: Mapping[str, ToolKind]) -> str | None:
    """The key above an unknown one under which it would be known, and is missing."""
    found = None
    for other in node.entries:
        if other is entry:
            break
        key = shape.keys.get(other.name)
        if key is not None and isinstance(other.value, MapNode) and entry.name not in other.value:
            found = other.name if entry.name in _inner(key.shape, other.value.entries, kinds) else None
    return found


def _inner(shape: Shape, entries: list[Entry], kinds: Mapping[str, ToolKind]) -> set[str]:
    """The keys that may stand in a map of this shape."""
    if isinstance(shape, OneOf):
        return set().union(*(_inner(one, entries, kinds) for one in shape.shapes))
    if isinstance(shape, Use):
        named = SHAPES.get(shape.name)
        return _of_task(entries, kinds) if shape.name == "Task" else _inner(named, entries, kinds) if named else set()
    return set(shape.keys) if isinstance(shape, Record) else set()


def _of_task(entries: list[Entry], kinds: Mapping[str, ToolKind]) -> set[str]:
    kind = next((one.value.text for one in entries if one.name == "kind" and isinstance(one.value, Scalar)), None)
    return {"kind", *TASK_KEYS, *(kinds[kind].keys if kind is not None and kind in kinds else ())}


def indenting(found: Strays, node: MapNode, text: str) -> list[Edit]:
    """The edits that move entries to where they belong; none where the text is not theirs alone."""
    first, last = found.entries[0], found.entries[-1]
    if node.flow or node.alias or any(one.key.alias or one.key.changed or one.merged for one in found.entries):
        return []
    start = text.rfind("\n", 0, first.key.start) + 1
    if text[start : first.key.start].strip(" "):
        return []
    edits = []
    while 0 <= start < max(last.value.end, last.key.end):
        if text[start : start + 1] not in ("\n", "\r"):
            edits.append(Edit(start, start, "  "))
        start = text.find("\n", start) + 1 or len(text)
    return edits


def label_without_task(entry: Entry, node: MapNode) -> bool:
    """Whether this is the name of a task whose keys stand beside it: `- fetch:` and `kind: http` below the `f`."""
    return entry is node.entries[0] and is_nothing(entry.value) and "kind" in node
