"""Real servers on this machine, from Python packages: PostgreSQL, NATS and S3, for development, tests and measurements.

They come with the extra `devservices`, listen on loopback alone and end with whoever started them.
"""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.services.servers import NatsServer as NatsServer, PostgresServer as PostgresServer
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "servers": "NatsServer PostgresServer",
        },
    )
