"""The data host: a process of an execution in which DuckDB works and rows are gone through, kept warm between tasks."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.drivers.datahost.databases import (
        LITTLE as LITTLE,
        Database as Database,
        config_of as config_of,
        confine_config as confine_config,
        open_database as open_database,
        render_statement as render_statement,
    )
    from noetl.drivers.datahost.host import (
        UNWRITTEN as UNWRITTEN,
        DataHostFailed as DataHostFailed,
        HostCall as HostCall,
        failure_of as failure_of,
    )
    from noetl.drivers.datahost.pool import (
        CallFailed as CallFailed,
        DataHost as DataHost,
        DataHosts as DataHosts,
        HostReply as HostReply,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "databases": "Database LITTLE config_of confine_config open_database render_statement",
            "host": "DataHostFailed HostCall UNWRITTEN failure_of",
            "pool": "CallFailed DataHost DataHosts HostReply",
        },
    )
