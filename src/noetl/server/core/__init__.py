"""The control plane of one process: decisions, children, catalog, limits, failure notices."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.server.core.catalog import Catalog as Catalog, names_of as names_of, path_of as path_of
    from noetl.server.core.children import OwnedElsewhere as OwnedElsewhere
    from noetl.server.core.control_plane import (
        ControlPlane as ControlPlane,
        Effects as Effects,
        is_orphan as is_orphan,
        resume_unowned as resume_unowned,
    )
    from noetl.server.core.execution_ids import ExecutionIds as ExecutionIds, new_execution_id as new_execution_id
    from noetl.server.core.pipeline_orders import Pipelines as Pipelines
    from noetl.server.core.service import (
        ExecutionService as ExecutionService,
        LiveExecution as LiveExecution,
        apply_request as apply_request,
    )
    from noetl.server.core.start_keys import (
        LONGEST_KEY as LONGEST_KEY,
        KeyReused as KeyReused,
        StartKey as StartKey,
        digest_request as digest_request,
    )
    from noetl.server.core.watchdog import MARKS as MARKS, Watchdog as Watchdog
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "catalog": "Catalog names_of path_of",
            "children": "OwnedElsewhere",
            "control_plane": "ControlPlane Effects is_orphan resume_unowned",
            "execution_ids": "ExecutionIds new_execution_id",
            "pipeline_orders": "Pipelines",
            "service": "ExecutionService LiveExecution apply_request",
            "start_keys": "KeyReused LONGEST_KEY StartKey digest_request",
            "watchdog": "MARKS Watchdog",
        },
    )
