"""Frame: where a pipeline stands, and the facts it reports. Everything in it follows from the order and from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.model.events import Fact
from noetl.model.output import Failure, Output
from noetl.model.playbook import MAX_PAYLOAD, Step, Task
from noetl.model.scope import Patch, set_path, writes_of


class Moment(msgspec.Struct, frozen=True):
    """What the world gives to one move: the time, ids and chance come in, they are never asked for."""

    now: float
    new_id: Callable[[], str]
    chance: float = 0.5


class Frame:
    """The program counter of one pipeline, and the scopes its templates see."""

    def __init__(
        self,
        step: Step,
        order_scopes: Mapping[str, Any],
        *,
        run: str,
        iteration: int | str | None,
        max_payload: int = MAX_PAYLOAD,
    ) -> None:
        self.step = step
        #: what one `set` may write to `ctx`, in bytes
        self.max_payload = max_payload
        self.tasks = step.tasks
        self.positions = {task.name: position for position, task in enumerate(step.tasks)}
        self.run = run
        self.iteration = iteration
        self.where = run if iteration is None else f"{run}/{iteration}"
        #: the identity of the visit to the task, the same for all of its attempts
        self.task_run_id = ""
        self.counter = 0
        self.attempt = 1
        #: how often each task was visited
        self.visits: dict[str, int] = {}
        self.jumps = 0
        self.step_input: dict[str, Any] = order_scopes["input"]
        self.scopes: dict[str, Any] = {**order_scopes, "_prev": None}
        self.output: Output | None = None
        #: the task it comes from
        self.yielder: Task | None = None
        #: how many attempts have begun
        self.number = 0
        #: the attempt that was recorded as started and has no end yet; it runs again, under the same name
        self.recorded_start: tuple[str, int] | None = None
        #: the error with which the last task ended the pipeline, where the end itself is not recorded
        self.failure: Failure | None = None
        #: what the task at which it stands last said of how far it is: another attempt may go on from there
        self.progress: dict[str, Any] | None = None
        #: the attempt from which on attempts are counted: the first since the task came further than before
        self.counted_from = 1
        #: the chunks that its progress told of when an attempt failed last
        self.chunks = 0
        #: what keeps any task from starting, such as a credential that is missing
        self.problem: Failure | None = None
        #: when the next attempt may start, in seconds since the epoch
        self.not_before: float | None = None
        #: when the attempt under way started
        self.since = 0.0

    @property
    def task(self) -> Task:
        """The task at which the pipeline stands."""
        return self.tasks[self.counter]

    @property
    def at_end(self) -> bool:
        """Whether no task is left."""
        return self.counter >= len(self.tasks)

    def visit(self, counter: int) -> None:
        """Go to a task."""
        self.counter = counter
        self.attempt = self.counted_from = 1
        self.chunks = 0
        self.not_before = None
        self.progress = None
        if not self.at_end:
            name = self.task.name
            visit = self.visits[name] = self.visits.get(name, 0) + 1
            self.task_run_id = f"{self.where}/{name}" if visit == 1 else f"{self.where}/{name}.{visit}"

    def count_failed_attempt(self) -> int:
        """How many attempts have failed in a row: a chunk that came through since the last one starts the count again."""
        said = (self.progress or {}).get("chunks")
        chunks = said if isinstance(said, int) else 0
        if chunks > self.chunks:
            self.counted_from = self.attempt
        self.chunks = max(chunks, self.chunks)
        return self.attempt - self.counted_from + 1

    def write(self, patch: Patch) -> None:
        """Let a `set` take effect in the scopes of this pipeline."""
        for scope, path, value in writes_of(patch):
            self.scopes[scope] = set_path(self.scopes.get(scope, {}), path, value)

    def yield_output(self, output: Output) -> None:
        """An output that counts: the next task sees it."""
        self.output = output
        self.yielder = self.task
        self.scopes["output"] = output
        self.scopes["_prev"] = output["data"]

    def discard_output(self) -> None:
        """An output that does not count: things stay as they were before the task."""
        if self.output is None:
            self.scopes.pop("output", None)
        else:
            self.scopes["output"] = self.output


# The facts that a pipeline reports of itself, not yet numbered.


def task_started_fact(frame: Frame, payload: dict[str, Any]) -> Fact:
    """The attempt is about to take effect."""
    frame.number += 1
    return _task_fact(frame, "task.started", payload, "in_progress")


def task_progress_fact(frame: Frame, said: dict[str, Any]) -> Fact:
    """The attempt under way says how far it is."""
    return _task_fact(frame, "task.progress", {"progress": said}, "in_progress")


def task_done_fact(frame: Frame, payload: dict[str, Any]) -> Fact:
    """The attempt has ended."""
    status = "error" if payload["output"]["error"] is not None else "success"
    return _task_fact(frame, "task.done", payload, status)


def _task_fact(frame: Frame, name: str, payload: dict[str, Any], status: str) -> Fact:
    return Fact(
        name,
        frame.run,
        payload,
        status,
        frame.task.name,
        frame.task_run_id,
        frame.iteration,
        frame.attempt,
        frame.number,
    )  # fmt: skip


def pipeline_fact(frame: Frame, name: str, payload: dict[str, Any], status: str = "success") -> Fact:
    """Something about the pipeline as a whole."""
    return Fact(name, frame.run, payload, status, iteration=frame.iteration)
