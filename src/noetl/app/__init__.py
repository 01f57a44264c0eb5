"""Composition: the processes that NoETL consists of, built from the parts. Nothing else knows every adapter."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.app.local import (
        LocalNode as LocalNode,
        open_catalog as open_catalog,
        open_local_node as open_local_node,
        open_log as open_log,
        open_registry as open_registry,
        open_results as open_results,
    )
    from noetl.app.worker import WorkerNode as WorkerNode
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "local": "LocalNode open_catalog open_local_node open_log open_registry open_results",
            "worker": "WorkerNode",
        },
    )
