"""PostgreSQL, for whoever talks to it: connections from credentials, what its errors mean."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.drivers.postgres.connection import (
        connection_arguments as connection_arguments,
        connection_refusal as connection_refusal,
    )
    from noetl.drivers.postgres.postgres_errors import (
        NO_ADDRESS as NO_ADDRESS,
        NOT_INSTALLED as NOT_INSTALLED,
        UNKNOWN_OUTCOME as UNKNOWN_OUTCOME,
        NoAddress as NoAddress,
        PostgresFailed as PostgresFailed,
        from_connect_error as from_connect_error,
        from_statement_error as from_statement_error,
        is_denied as is_denied,
        is_lost as is_lost,
        is_no_address as is_no_address,
        task_failure as task_failure,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "connection": "connection_arguments connection_refusal",
            "postgres_errors": "NOT_INSTALLED NO_ADDRESS NoAddress PostgresFailed UNKNOWN_OUTCOME from_connect_error from_statement_error is_denied is_lost is_no_address task_failure",
        },
    )
