"""The shape of what was read: readers of results in the shapes of older engines, and what they are given today."""

from __future__ import annotations

from noetl.lang.legacy.lowered_document import Lowering
from noetl.lang.legacy.shapes import older_error_kinds, shape_lowering

__all__ = ["lower"]


def lower(doc: Lowering) -> None:
    """Keep what templates and code read of results and errors, once all names are those of today."""
    shape_lowering.lower(doc)
    older_error_kinds.lower(doc)
