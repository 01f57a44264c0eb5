"""Where large payloads lie, and how they are written down."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.results.backend_addresses import open_payloads as open_payloads
    from noetl.results.download import PayloadSender as PayloadSender
    from noetl.results.external_rows import is_external as is_external
    from noetl.results.garbage import (
        Removable as Removable,
        find_needed as find_needed,
        find_unrecorded as find_unrecorded,
    )
    from noetl.results.integrity import content_of as content_of, find_damage as find_damage
    from noetl.results.parquet import convert_to_parquet as convert_to_parquet
    from noetl.results.store import PayloadStore as PayloadStore, StoredPayload as StoredPayload
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "backend_addresses": "open_payloads",
            "download": "PayloadSender",
            "external_rows": "is_external",
            "garbage": "Removable find_needed find_unrecorded",
            "integrity": "content_of find_damage",
            "parquet": "convert_to_parquet",
            "store": "PayloadStore StoredPayload",
        },
    )
