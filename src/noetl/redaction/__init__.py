"""Finding and replacing secrets in whatever is about to be written. Pure."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.redaction.addresses import (
        ADDRESS_HINT as ADDRESS_HINT,
        is_address as is_address,
        parts_of_address as parts_of_address,
        passwords_in_address as passwords_in_address,
    )
    from noetl.redaction.forms import SHORTEST_SECRET as SHORTEST_SECRET
    from noetl.redaction.json_text import JsonRedactor as JsonRedactor
    from noetl.redaction.redactor import MASK as MASK, RedactingStream as RedactingStream, Redactor as Redactor
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "addresses": "ADDRESS_HINT is_address parts_of_address passwords_in_address",
            "forms": "SHORTEST_SECRET",
            "json_text": "JsonRedactor",
            "redactor": "MASK RedactingStream Redactor",
        },
    )
