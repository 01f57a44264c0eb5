"""Reserved words of a document: where they stand, and what to write instead.

The words themselves are in the tables of the grammar, as keys with `reserved`. Validation rejects them; `noetl migrate`
removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from noetl.lang.grammar.document_shape import RESERVED_DOCUMENTS
from noetl.lang.grammar.document_walk import walk_document
from noetl.lang.reading.node import MapEntry, MapNode, Scalar
from noetl.model.diagnostics import Diagnostics
from noetl.model.kinds import ToolKind
from noetl.model.shape import MapOf


class ReservedEntry(NamedTuple):
    """A key that has no meaning where it stands, the map that holds it, and what to write instead."""

    entry: MapEntry
    holder: MapNode
    instead: str
    #: older documents have it, and a migration removes it
    is_dropped: bool


def find_reserved(root: MapNode, kinds: Mapping[str, ToolKind]) -> list[ReservedEntry]:
    """Return the reserved keys of a document, in its order."""
    found: list[ReservedEntry] = []
    for node, shape, _kind in walk_document(root, kinds):
        for entry in node.entries:
            if isinstance(shape, MapOf):
                if entry.name in shape.reserved:
                    found.append(ReservedEntry(entry, node, shape.reserved[entry.name], is_dropped=True))
            elif (key := shape.keys.get(entry.name)) is not None and key.reserved:
                found.append(ReservedEntry(entry, node, key.reserved, is_dropped=key.dropped))
    return sorted(found, key=lambda one: one.entry.key.start)


def report_reserved_document(root: MapNode, problems: Diagnostics) -> bool:
    """Report a document of a kind that has no meaning yet; true if it is one, and nothing else of it is to be checked."""
    kind = root.get("kind")
    if not isinstance(kind, Scalar) or kind.text not in RESERVED_DOCUMENTS:
        return False
    at = kind.alias or (kind.start, kind.end)
    problems.error("reserved", f"`kind: {kind.text}` has no meaning yet", at, fix=RESERVED_DOCUMENTS[kind.text])
    return True
