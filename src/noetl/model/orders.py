"""Orders: what the engine asks of the world. Each follows from an event, so that lost ones can be given again."""

from __future__ import annotations

from typing import Any

import msgspec


class LoopRow(msgspec.Struct, frozen=True):
    """An element of a loop over a reference, which only the worker reads."""

    #: how many loops around the iteration
    up: int
    iterator: str
    ref: dict[str, Any]
    index: int


class Gather(msgspec.Struct, frozen=True):
    """The list of a loop that is over, and too long for the log: to be stored, not run."""

    results: list[Any]
    #: index → the reference of one that lies in the store already
    refs: dict[str, dict[str, Any]]
    counts: dict[str, int]


class RunPipeline(msgspec.Struct, frozen=True):
    """Run the pipeline of a step, or of one iteration of its loop; go on where the log says it was."""

    step_run_id: str
    step: str
    iteration: int | str | None
    #: the scopes its templates may read
    scopes: dict[str, Any]
    #: the answer a suspended task was waiting for; only after that
    answer: dict[str, Any] | None = None
    #: the attempt that was waiting for it, as the pipeline counts them
    number: int = 0
    #: the pipeline may have begun already: what it recorded is in the log
    begun: bool = False
    #: the event since which to look for that
    since: int = 1
    #: what is to be read before it can begin; then the step's `input` is the worker's to evaluate, too
    rows: tuple[LoopRow, ...] = ()
    gather: Gather | None = None
    #: the body of the step was ended with this output: what is left to run are its `finally` tasks
    closing: dict[str, Any] | None = None
    #: the event that recorded the end of a run: what is to run is its compensation
    undoes: int = 0
    #: nothing is to be run: what the loop inside of this iteration goes over is to be read out of its rows
    unfolds: bool = False


class StopPipelines(msgspec.Struct, frozen=True):
    """End the pipelines of a step run, or of one of its iterations, and the processes they started."""

    step_run_id: str
    iteration: int | str | None = None


class WakeAt(msgspec.Struct, frozen=True):
    """Report `Due` at a time, in seconds since the epoch."""

    at: float


class StartChild(msgspec.Struct, frozen=True):
    """Start, or go on with, a child execution, and report its end."""

    #: of the waiting task
    task_run_id: str
    child: dict[str, Any]


class StopChild(msgspec.Struct, frozen=True):
    """Cancel a child execution that nothing waits for any more, and report when it has ended."""

    execution_id: str


class PauseChild(msgspec.Struct, frozen=True):
    """Pause a child execution with its parent, or let it go on."""

    execution_id: str
    paused: bool


Order = RunPipeline | StopPipelines | WakeAt | StartChild | StopChild | PauseChild
