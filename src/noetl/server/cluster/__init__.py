"""Servers that share executions through a database, and workers in other processes."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.server.cluster.server_node import ServerNode as ServerNode
    from noetl.server.cluster.worker_api import WorkerApi as WorkerApi, WorkerCall as WorkerCall
    from noetl.server.cluster.workers import MemoryRegistry as MemoryRegistry
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "server_node": "ServerNode",
            "worker_api": "WorkerApi WorkerCall",
            "workers": "MemoryRegistry",
        },
    )
