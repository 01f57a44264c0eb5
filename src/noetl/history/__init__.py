"""Questions to a log, nothing else: state at an event, why, diff, fsck, forks, archives."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.history.archive import (
        ARCHIVE_SUFFIX as ARCHIVE_SUFFIX,
        execution_tree as execution_tree,
        restore_archive as restore_archive,
        write_archive as write_archive,
    )
    from noetl.history.diff import (
        Change as Change,
        ComparedRun as ComparedRun,
        Difference as Difference,
        Divergence as Divergence,
        Side as Side,
        StepDecision as StepDecision,
        StepPair as StepPair,
        StepStanding as StepStanding,
        diff_executions as diff_executions,
        diff_values as diff_values,
    )
    from noetl.history.fork import (
        Fork as Fork,
        ForkMismatch as ForkMismatch,
        ForkTarget as ForkTarget,
        build_fork as build_fork,
        open_children as open_children,
        origin_of as origin_of,
        payload_of as payload_of,
    )
    from noetl.history.fsck import PayloadRule as PayloadRule, check_log as check_log
    from noetl.history.log_queries import (
        EVENTS_PER_PAGE as EVENTS_PER_PAGE,
        events_of as events_of,
        explain_cancel_refusal as explain_cancel_refusal,
        output_of as output_of,
        output_of_step as output_of_step,
        read_pipeline_events as read_pipeline_events,
        run_document as run_document,
        snapshot_of as snapshot_of,
        source_of as source_of,
        state_at as state_at,
    )
    from noetl.history.rerun_plan import (
        ForkPlan as ForkPlan,
        KeptStep as KeptStep,
        PendingWork as PendingWork,
        TaskEffect as TaskEffect,
        find_last_kept as find_last_kept,
        parse_fork_point as parse_fork_point,
    )
    from noetl.history.why import (
        StepExplanation as StepExplanation,
        StepReason as StepReason,
        describe_standing as describe_standing,
        explain_step as explain_step,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "archive": "ARCHIVE_SUFFIX execution_tree restore_archive write_archive",
            "diff": "Change ComparedRun Difference Divergence Side StepDecision StepPair StepStanding diff_executions diff_values",
            "fork": "Fork ForkMismatch ForkTarget build_fork open_children origin_of payload_of",
            "fsck": "PayloadRule check_log",
            "log_queries": "EVENTS_PER_PAGE events_of explain_cancel_refusal output_of output_of_step read_pipeline_events run_document snapshot_of source_of state_at",
            "rerun_plan": "ForkPlan KeptStep PendingWork TaskEffect find_last_kept parse_fork_point",
            "why": "StepExplanation StepReason describe_standing explain_step",
        },
    )
