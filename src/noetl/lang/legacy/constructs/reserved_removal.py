"""Words of the documents that mean nothing here: removed, each with a comment that says what stood there."""

from __future__ import annotations

from noetl.lang.grammar.reserved_words import find_reserved
from noetl.lang.legacy.lowered_document import Lowering, quote_entries
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, walk_nodes

#: by map, the entry that it stands under, as its value or in its list, and the map of that entry
Holders = dict[int, tuple[MapEntry, MapNode]]


def lower(doc: Lowering) -> None:
    """Remove every word without a meaning from a file that is rewritten; elsewhere the checks report it."""
    if not doc.migrating:
        return
    found = [one for one in find_reserved(doc.root, doc.kinds) if one.is_dropped]
    holders = _find_holders(doc.root) if found else {}
    for one in found:
        one.holder.take(one.entry.name)
    for one in found:
        said = f"{quote_entries([one.entry])} had no effect: {one.instead.removeprefix('remove it; ')}"
        doc.todo(_place(one.holder, holders), said, one.entry.key)
    for one in found:
        _drop_empty(one.holder, holders)


def _find_holders(root: MapNode) -> Holders:
    found: Holders = {}
    for block in walk_nodes(root):
        if isinstance(block, MapNode):
            for one in block.entries:
                found.update((id(inner), (one, block)) for inner in _maps_of(one.value))
    return found


def _maps_of(value: Node) -> list[MapNode]:
    """The map that a value is, or those of a list."""
    if isinstance(value, ListNode):
        return [inner for item in value.items for inner in _maps_of(item)]
    return [value] if isinstance(value, MapNode) else []


def _drop_empty(block: MapNode, holders: Holders) -> None:
    """Remove a map with nothing left in it, and so on outwards."""
    while not block.entries and _is_value(block, holders):
        one, block = holders[id(block)]
        block.take(one.name)


def _is_value(block: MapNode, holders: Holders) -> bool:
    """Whether a map is the value of an entry, and not an item of a list, or the document."""
    return id(block) in holders and not isinstance(holders[id(block)][0].value, ListNode)


def _place(block: MapNode, holders: Holders) -> MapEntry | None:
    """Where the comment stands: at the part of the item, or of the document, that held the word; else at what follows."""
    part: MapEntry | None = None
    while _is_value(block, holders):
        part, block = holders[id(block)]
    if part is not None and isinstance(part.value, MapNode) and _says_anything(part.value):
        return part
    left = [one for one in block.entries if one is not part]
    after = block.entries.index(part) if part is not None else 0
    return next(iter([*left[after:], *left]), part)


def _says_anything(node: MapNode) -> bool:
    return any(not isinstance(one.value, MapNode) or _says_anything(one.value) for one in node.entries)
