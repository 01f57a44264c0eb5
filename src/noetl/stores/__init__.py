"""Event logs: in a SQLite file, in PostgreSQL, or in memory for tests."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.stores.memory import MemoryLog as MemoryLog
    from noetl.stores.postgres.postgres_log import PostgresLog as PostgresLog
    from noetl.stores.postgres.worker_registry import PgRegistry as PgRegistry
    from noetl.stores.sqlite_log import SqliteLog as SqliteLog
    from noetl.stores.verify import verify_store as verify_store
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "memory": "MemoryLog",
            "postgres.postgres_log": "PostgresLog",
            "postgres.worker_registry": "PgRegistry",
            "sqlite_log": "SqliteLog",
            "verify": "verify_store",
        },
    )
