"""Composition: the processes that NoETL consists of, built from the parts. Nothing else knows every adapter."""

import gc
from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.app.access import open_token_file as open_token_file, warn_root as warn_root
    from noetl.app.end_signals import EndDeadline as EndDeadline, list_end_signals as list_end_signals
    from noetl.app.http_server import require_server_extra as require_server_extra, serve as serve
    from noetl.app.local import (
        LocalNode as LocalNode,
        open_catalog as open_catalog,
        open_local_node as open_local_node,
        open_log as open_log,
        open_registry as open_registry,
        open_results as open_results,
    )
    from noetl.app.server import (
        PreparedServer as PreparedServer,
        prepare_local_server as prepare_local_server,
        prepare_server as prepare_server,
    )
    from noetl.app.worker import WorkerNode as WorkerNode
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "access": "open_token_file warn_root",
            "end_signals": "EndDeadline list_end_signals",
            "http_server": "require_server_extra serve",
            "local": "LocalNode open_catalog open_local_node open_log open_registry open_results",
            "server": "PreparedServer prepare_local_server prepare_server",
            "worker": "WorkerNode",
        },
    )

#: new containers between two collections: data makes many, and none of it forms cycles
_GC_THRESHOLD = 10_000


def tune_gc() -> None:
    """Exempt the program itself from garbage collection, and collect less often, in a process that runs executions."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
