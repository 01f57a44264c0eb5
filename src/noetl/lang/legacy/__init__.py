"""Older dialects: `scan` finds their constructs, `lower` rewrites them to canonical nodes, `migrate` rewrites a file.

A canonical document costs one scan; the passes are imported for documents that the scan suspects. Nothing outside this
package knows an older construct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.lang.legacy.scanner import scan
from noetl.lang.reading.node import MapNode
from noetl.model.diagnostics import Diagnostics
from noetl.model.kinds import ToolKind

if TYPE_CHECKING:
    from noetl.lang.legacy.migration import Migrated

__all__ = ["lower", "migrate", "scan"]


def lower(root: MapNode, kinds: Mapping[str, ToolKind], problems: Diagnostics, *, accepted: bool = False) -> None:
    """Rewrite the nodes of an older document into canonical ones, and report each older construct unless `accepted`."""
    from noetl.lang.legacy import migration

    migration.lower(root, kinds, problems, accepted=accepted)


def migrate(text: str, kinds: Mapping[str, ToolKind], *, name: str = "playbook.yaml") -> Migrated | None:
    """Return the canonical spelling of a playbook; None if the text cannot be read at all."""
    from noetl.lang.legacy import migration

    return migration.migrate(text, kinds, name=name)
