"""Finding one's way in a state: loops and pipelines by their iteration."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.model.state import Execution, LoopRun, Path, PipelineRun, StepRun


def loop_at(run: StepRun, path: Path) -> LoopRun:
    """The loop of which `path` is an iteration."""
    loop = run.loop
    for index in path[:-1]:
        inner = loop.running[index] if loop is not None else None
        loop = inner if isinstance(inner, LoopRun) else None
    assert loop is not None
    return loop


def find_pipeline(state: Execution, run_id: str | None, path: Path) -> PipelineRun | None:
    """The pipeline of a step run or of one of its iterations, if it is under way."""
    run = state.runs.get(run_id or "")
    if run is None or not path:
        return run.pipe if run is not None else None
    found: PipelineRun | LoopRun | None = run.loop
    for index in path:
        found = found.running.get(index) if isinstance(found, LoopRun) else None
    return found if isinstance(found, PipelineRun) else None


def pipeline_runs(run: StepRun) -> Iterator[tuple[Path, PipelineRun | None]]:
    """The pipelines of a run that are under way, with their iterations; None: it has not begun."""
    if run.loop is None or run.loop.gathering:
        yield (), run.pipe
    else:
        yield from loop_pipeline_runs(run.loop)


def loop_pipeline_runs(outermost: LoopRun) -> Iterator[tuple[Path, PipelineRun]]:
    """The pipelines of a loop and of the loops inside of it that are under way."""
    waiting = [outermost]
    while waiting:
        loop = waiting.pop(0)
        for index, inner in loop.running.items():
            if isinstance(inner, LoopRun):
                waiting.append(inner)
            else:
                yield (*loop.path, index), inner
