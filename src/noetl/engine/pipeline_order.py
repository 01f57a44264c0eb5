"""The order of a pipeline, as the state has it: a body, an iteration, what is left after a loop, `finally` tasks, or a compensation."""

from __future__ import annotations

from typing import Any

from noetl.engine import scopes
from noetl.engine.decision import DecisionBuilder
from noetl.model.orders import Gather, RunPipeline
from noetl.model.state import Path, PipelineRun, StepRun, find_pipeline, label_of, loop_at


def order_pipeline(
    builder: DecisionBuilder, run: StepRun, path: Path, pipe: PipelineRun | None, answer: dict[str, Any] | None = None
) -> None:
    """Order a pipeline to be run, from where it was; one that waited continues with the answer.

    The answer is not recorded here: what the pipeline makes of it is.
    """
    step = builder.net_index.steps[run.step]
    if answer is None and pipe is not None and pipe.wait is not None:
        answer = pipe.wait.answer
    gather = gathered_list(run) if run.loop is not None and run.loop.gathering and run.closing is None else None
    loop = loop_at(run, path) if path else None
    sight = scopes.undo_scopes(builder, step) if run.undoes else scopes.pipeline_scopes(builder, step, run, loop, path)
    if pipe is None or pipe.unfolds:
        rows, unfolds = scopes.rows_of(builder, run, path), pipe is not None
        builder.orders.append(RunPipeline(run.id, run.step, label_of(path), sight, rows=rows, unfolds=unfolds))
        return
    builder.orders.append(
        RunPipeline(
            run.id,
            run.step,
            label_of(path),
            sight,
            answer,
            pipe.number,
            pipe.begun,
            pipe.since,
            scopes.rows_of(builder, run, path),
            gather,
            run.closing,
            run.undoes,
        )
    )


def resume_pipeline(builder: DecisionBuilder, run_id: str, path: Path) -> None:
    """Order a pipeline to go on whose wait has been answered."""
    order_pipeline(builder, builder.state.runs[run_id], path, find_pipeline(builder.state, run_id, path))


def gathered_list(run: StepRun) -> Gather:
    """The list that a loop has made, to be stored or to be worked on."""
    assert run.loop is not None
    return Gather(list(run.loop.results), dict(run.loop.refs), run.loop.counts())
