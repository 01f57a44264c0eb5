"""Real servers on this machine, from Python packages: PostgreSQL, NATS and S3, for development, tests and measurements.

They come with the extra `devservices`, listen on loopback alone and end with whoever started them.
"""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.services.nats_server import NatsServer as NatsServer
    from noetl.services.servers import PostgresServer as PostgresServer
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "nats_server": "NatsServer",
            "servers": "PostgresServer",
        },
    )
