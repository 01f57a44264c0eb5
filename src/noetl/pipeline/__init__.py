"""Where a pipeline stands and what it does next. Pure."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.pipeline.frame import (
        WHOLE as WHOLE,
        Frame as Frame,
        Moment as Moment,
        role_of as role_of,
        task_progress_fact as task_progress_fact,
        task_started_fact as task_started_fact,
    )
    from noetl.pipeline.machine import Finish as Finish, Move as Move, RunTask as RunTask, Sleep as Sleep
    from noetl.pipeline.replay import OUTPUT as OUTPUT, Replay as Replay, resume as resume
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "frame": "WHOLE Frame Moment role_of task_progress_fact task_started_fact",
            "machine": "Finish Move RunTask Sleep",
            "replay": "OUTPUT Replay resume",
        },
    )
