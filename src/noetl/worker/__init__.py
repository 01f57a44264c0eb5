"""The data plane: runs pipelines with real tools and reports."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.worker.agent import WorkerAgent as WorkerAgent
    from noetl.worker.heartbeats import Heartbeats as Heartbeats
    from noetl.worker.link import ServerLink as ServerLink
    from noetl.worker.outgoing import sweep_drafts as sweep_drafts
    from noetl.worker.pipeline_runners import PipelineRunners as PipelineRunners, RunningExecution as RunningExecution
    from noetl.worker.world import LocalWorld as LocalWorld
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "agent": "WorkerAgent",
            "heartbeats": "Heartbeats",
            "link": "ServerLink",
            "outgoing": "sweep_drafts",
            "pipeline_runners": "PipelineRunners RunningExecution",
            "world": "LocalWorld",
        },
    )
