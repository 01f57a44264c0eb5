"""JSON Schema, from draft 4 to 2020-12: compiled once, and held against values within a budget. Nothing is ever fetched."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.schemas.document import STEPS as STEPS, Schema as Schema
    from noetl.schemas.judging import (
        SchemaLimit as SchemaLimit,
        UnknownReference as UnknownReference,
        Violation as Violation,
    )
    from noetl.schemas.places import SchemaInvalid as SchemaInvalid
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "document": "STEPS Schema",
            "judging": "SchemaLimit UnknownReference Violation",
            "places": "SchemaInvalid",
        },
    )
