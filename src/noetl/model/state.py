"""Execution and its parts: what a fold over the log yields.

Everything here is plain data that can be written down and read back (snapshots). `engine/fold.py` is the only code
that changes it. Maps in `ctx` and `step` are never changed in place: a write makes new ones along its path, so that
whoever holds an older map keeps seeing the older values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.model.events import epoch_seconds
from noetl.model.playbook import COMPENSATION

#: `(2, 0)`: the inner iteration 0 of the outer iteration 2; empty outside of loops
Path = tuple[int, ...]


class Wait(msgspec.Struct):
    """What a suspended task waits for: a signal, a child, or just a time; `until` is when it waits no longer."""

    task_run_id: str
    until: float | None = None
    signal: str | None = None
    child: dict[str, Any] | None = None
    #: what it waited for has come; the task goes on with this output
    answer: dict[str, Any] | None = None
    #: the name of the token with which the signal that has come was sent
    answered_by: str | None = None
    #: `until` is a date, and not counted from when the task started
    fixed: bool = False
    #: the seconds of the `spec.timeout` of which `until` is the end: then the task fails
    limit: float | None = None
    #: the JSON Schema that a signal must meet
    schema: dict[str, Any] | None = None
    #: what a person is shown who is to send the signal
    title: str | None = None
    #: the names of the tokens that may send it; None: anyone
    assignees: list[str] | None = None


class PipelineRun(msgspec.Struct, tag="pipe"):
    """A pipeline that runs, as far as the log knows it."""

    #: the event that started it
    since: int
    #: the last one about it
    seq: int
    #: the evaluated `input` of the step
    input: Any = None
    #: it has recorded something: who takes it over must read that first
    begun: bool = False
    #: how many attempts at tasks have begun
    number: int = 0
    #: whether the last of them is still under way
    is_open: bool = False
    wait: Wait | None = None
    #: it is no pipeline yet: a worker reads what the loop inside of this iteration goes over
    unfolds: bool = False


class LoopRun(msgspec.Struct, tag="loop"):
    """One pass over a list; inner loops have one per iteration around them."""

    path: Path
    #: what it goes over: a list, or the reference to one
    items: list[Any] | dict[str, Any]
    #: `sequential` or `parallel`
    mode: str
    ctx: dict[str, Any]
    step: dict[str, Any]
    #: of the iterations that have started and not ended, in order: the pipeline, or the inner loop
    running: dict[int, PipelineRun | LoopRun] = {}
    #: of all that have started, by index
    results: list[Any] = []
    succeeded: int = 0
    failed: int = 0
    #: no more iterations start
    stopped: bool = False
    #: the first failure
    error: dict[str, Any] | None = None
    #: writes for reducers: target → index → value
    writes: dict[str, dict[int, Any]] = {}
    #: results that lie in the result store: index (of an inner loop's `"2.0"`) → reference
    refs: dict[str, dict[str, Any]] = {}
    #: all of its iterations are over; the list they made is being stored
    gathering: bool = False

    @property
    def total(self) -> int:
        """How many iterations it has."""
        return len(self.items) if isinstance(self.items, list) else int(self.items["meta"]["rows"])

    @property
    def started(self) -> int:
        """How many iterations have started."""
        return len(self.results)

    @property
    def completed(self) -> int:
        """How many have ended by themselves."""
        return self.succeeded + self.failed

    def counts(self) -> dict[str, int]:
        """What `output.loop` and `complete_when` see."""
        return {
            "total": self.total,
            "completed": self.completed,
            "succeeded": self.succeeded,
            "failed": self.failed,
        }


class StepRun(msgspec.Struct):
    """A firing of a step that has not ended."""

    id: str
    step: str
    #: the event that scheduled it, or the last one about the run as a whole
    seq: int
    #: as it was when the step was scheduled, with the run's own writes
    ctx: dict[str, Any]
    step_vars: dict[str, Any] = {}
    #: the evaluated `input` of the step; in a loop each iteration has its own
    input: Any = None
    #: what the token carried (v10)
    args: Any = None
    due: float | None = None
    pipe: PipelineRun | None = None
    loop: LoopRun | None = None
    #: of the executor's `finally` step: how the execution ends
    event: dict[str, Any] | None = None
    #: the server ended its body with this output; its `finally` tasks are left to run
    closing: dict[str, Any] | None = None
    #: its `finally` tasks have begun
    finalizing: bool = False
    #: the step was cancelled; the run is only here until its `finally` tasks have ended
    cancelled: bool = False
    #: it undoes a run: the event that recorded the end of that one
    undoes: int = 0

    @property
    def is_afterwork(self) -> bool:
        """Whether the step has ended already, or runs no more: no token follows from it."""
        return self.cancelled or bool(self.undoes)


class UndoRecord(msgspec.Struct):
    """A step run, or an iteration of one, that ended well and has a compensation."""

    step: str
    step_run_id: str
    iteration: int | str | None
    #: the event that recorded its end, with all that the compensation reads
    seq: int

    @property
    def undo_run_id(self) -> str:
        """The id of the run that undoes it."""
        where = self.step_run_id if self.iteration is None else f"{self.step_run_id}.{self.iteration}"
        return f"{where}.{COMPENSATION}"


class StepInfo(msgspec.Struct):
    """What is known of a step by its name; of several runs, the latest counts."""

    runs: int = 0
    #: `scheduled`, `running`, `done`, `failed`, `cancelled` or `skipped`
    status: str = "scheduled"
    run_id: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    error: dict[str, Any] | None = None
    #: the counts of its loop
    loop: dict[str, int] | None = None
    #: how often a task of it went on past something that went wrong, and the first of these warnings
    warned: int = 0
    warning: str | None = None
    #: how many of its runs and iterations were undone, how many compensations failed, and why the first of these did
    undone: int = 0
    undo_failed: int = 0
    undo_error: dict[str, Any] | None = None


#: the event that brings the first token
BEGINNING: dict[str, Any] = {
    "name": "workflow.started",
    "status": "success",
    "step": None,
    "error": None,
    "output": None,
}


class Token(msgspec.Struct):
    """A token at rest at a step, with the event that brought it."""

    source: str | None
    event: dict[str, Any]
    args: Any = None
    #: of a step that asks for `quiet()`: the event that parked it, by which such gates are ordered
    seq: int = 0


class JoinRound(msgspec.Struct):
    """What a join that counts tokens remembers between firings."""

    #: predecessor → tokens that count for the next firing
    places: dict[str, list[Token]] = {}
    #: it has fired, and the tokens of these predecessors still belong to that round; None between rounds
    awaited: dict[str, bool] | None = None


class StepBoundary(msgspec.Struct):
    """A step that has ended and whose arcs have not been judged yet."""

    step: str
    step_run_id: str
    seq: int
    #: `step.done` or `step.failed`
    name: str
    output: dict[str, Any]
    step_vars: dict[str, Any]
    input: Any = None
    is_loop: bool = False
    #: the first step of the plan it made: where the token goes
    planned: str | None = None
    #: what the token that fired it carried (v10)
    args: Any = None

    def event(self, name: str | None = None) -> dict[str, Any]:
        """The boundary event as arcs and admission see it."""
        error = self.output["error"]
        return {
            "name": name or self.name,
            "status": "error" if error else "success",
            "step": self.step,
            "error": error,
            "output": self.output,
        }


class Execution(msgspec.Struct):
    """The state of one execution."""

    execution_id: str
    #: the playbook's path
    path: str = ""
    playbook: str = ""
    #: the playbook's file
    file: str | None = None
    #: the latest request of another process that took effect
    handled: int = 0
    seq: int = 0
    timestamp: str = ""
    #: `requested`, `running`, `completed`, `failed` or `cancelled`
    status: str = "requested"
    #: who wants it paused: `request`, `parent` or both
    paused_by: list[str] = []
    #: why the server set it aside; None: it did not
    stuck: str | None = None
    #: when the workflow started, in seconds since the epoch
    started: float = 0.0
    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    steps: dict[str, StepInfo] = {}
    #: how many step runs there have been
    total_runs: int = 0
    #: under way, by id, in the order in which they were scheduled
    runs: dict[str, StepRun] = {}
    parked: dict[str, list[Token]] = {}
    rounds: dict[str, JoinRound] = {}
    #: ended, not routed yet
    boundaries: list[StepBoundary] = []
    #: who brought the tokens that are being delivered
    bringer: StepBoundary | None = None
    #: signals that nobody has taken yet, first in first out
    signals: dict[str, list[Any]] = {}
    #: of these signals the names of the tokens that they were sent with, as far as there were any
    senders: dict[str, list[str | None]] = {}
    #: signal → the pipelines that wait for it, by step run and iteration, first in first out
    listeners: dict[str, list[tuple[str, Path]]] = {}
    #: an error that ends the execution once everything that runs has ended
    failure: dict[str, Any] | None = None
    #: `completed`, `failed` or `cancelled`, once somebody said that it ends at once
    terminated: str | None = None
    entry_step: str | None = None
    return_step: str | None = None
    parent: dict[str, Any] | None = None
    depth: int = 0
    #: what none of its tasks may do, whatever their spec says: the restrictions of its caller
    restrict: dict[str, Any] = {}
    #: playbooks that came with the request and are called before any in the folder: name → content hash. Where one name
    #: means several playbooks, it stands behind the folder of the caller
    calls: dict[str, str] = {}
    #: of a rerun: `execution_id` and `seq` of what it goes on from, and the time `at` which it was asked for
    origin: dict[str, Any] | None = None
    #: what the execution would yield if it ended now, and whether a step that names itself the result said so
    output: Any = None
    output_final: bool = False
    #: where that lies, when it is too large for the log
    output_ref: dict[str, Any] | None = None
    #: the plans it made: the `step` that did, and the new `steps` in the words of the language
    synthesized: list[dict[str, Any]] = []
    error: dict[str, Any] | None = None
    #: the steps at which tokens were left when nothing could move any more
    stalled: list[str] = []
    #: steps that ended well and none of whose arcs matched, in the order in which that happened → how often
    unmatched: dict[str, int] = {}
    #: what would be undone if it failed now, in the order of the ends
    undo: list[UndoRecord] = []
    #: the run that is being undone
    undoing: UndoRecord | None = None
    #: how it ends is decided: compensations, or the executor's `finally` step, have begun
    ending: bool = False
    #: the run of the executor's `finally` step
    final_run: str | None = None
    #: children that were told to end and have not ended yet, each with the step that had called it
    stopped_children: dict[str, str] = {}

    def steps_with_tokens(self) -> dict[str, int]:
        """The steps at which tokens are parked → `seq` of the first of them."""
        held = {name: tokens[0].seq for name, tokens in self.parked.items()}
        for name, entry in self.rounds.items():
            first = [tokens[0].seq for tokens in entry.places.values() if tokens]
            if first:
                held[name] = min(first)
        return held

    def first_token(self, step: str) -> int:
        """`seq` of the first of the tokens that are parked at a step."""
        if step in self.parked:
            return self.parked[step][0].seq
        return min(tokens[0].seq for tokens in self.rounds[step].places.values() if tokens)

    @property
    def paused(self) -> bool:
        """Whether nothing new may start."""
        return bool(self.paused_by) or self.stuck is not None

    @property
    def duration(self) -> float:
        """How many seconds it has taken up to its last event; of a rerun, those since it was asked for."""
        began = epoch_seconds(self.origin["at"]) if self.origin is not None else self.started
        return max(0.0, epoch_seconds(self.timestamp) - began) if began and self.timestamp else 0.0

    @property
    def shown_status(self) -> str:
        """The status that lists show."""
        if self.over or not self.paused:
            return self.status
        return "paused" if self.stuck is None else "stuck"

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "cancelled")


def parse_label(iteration: int | str | None) -> Path:
    """The path of an iteration as events write it."""
    if iteration is None:
        return ()
    if isinstance(iteration, int):
        return (iteration,)
    return tuple(int(part) for part in iteration.split("."))


def label_of(path: Path) -> int | str | None:
    """An iteration's path as events write it: a number, nested `"2.0"`."""
    if len(path) > 1:
        return ".".join(map(str, path))
    return path[0] if path else None


# Loops and pipelines of a state, found by their iteration.


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
    if run.loop is None or run.loop.gathering or run.closing is not None:
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
