"""Frame: where a pipeline stands, and the facts it reports. Everything in it follows from the order and from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.model.events import Fact
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, Output
from noetl.model.playbook import MAX_PAYLOAD, Step, Task
from noetl.model.scope import Patch, set_path, writes_of


class Moment(msgspec.Struct, frozen=True):
    """What the world gives to one move: the time, ids and chance come in, they are never asked for."""

    now: float
    new_id: Callable[[], str]
    chance: float = 0.5


#: the parts of a pipeline; at LOOP it hands over to the server, which runs the loop and orders the rest
BEFORE, BODY, LOOP, AFTER, FINALLY = "before", "body", "loop", "after", "finally"


class Section(msgspec.Struct, frozen=True):
    """A part of a step's pipeline: the body, or tasks that stand around it."""

    name: str
    tasks: tuple[Task, ...] = ()


class PipelineRole(msgspec.Struct, frozen=True):
    """What a pipeline is to its step run, or to the iteration that it is."""

    #: it follows the step's loop, whose list is there
    gathered: bool = False
    #: the server ended the body with this output: the `finally` tasks are left
    closing: Output | None = None
    #: it undoes a run that ended well
    undoes: bool = False


#: the whole of it, from the first task to the last
WHOLE = PipelineRole()


def role_of(order: RunPipeline) -> PipelineRole:
    """What the pipeline of an order is."""
    if order.gather is None and order.closing is None and not order.undoes:
        return WHOLE
    return PipelineRole(order.gather is not None, order.closing, bool(order.undoes))


def list_sections(step: Step, role: PipelineRole) -> tuple[Section, ...]:
    """The parts of the pipeline of a step run that has tasks around its body; none: it undoes one.

    A loop's iterations are pipelines of their own. So the pipeline of its step run stops at the loop, and the list that the
    loop made is its body's output when it is ordered again.
    """
    if role.undoes:
        return ()
    body = [Section(BEFORE, step.before), Section(BODY, step.tasks), Section(AFTER, step.after)]
    if role.closing is not None:
        body = []
    elif role.gathered:
        body = [Section(BODY), Section(AFTER, step.after)]
    elif step.loop is not None:
        body = [Section(BEFORE, step.before), Section(LOOP)]
    sections = [*body, Section(FINALLY, step.cleanup)]
    return tuple(one for one in sections if one.tasks or one.name in (BODY, LOOP))


class Frame:
    """The program counter of one pipeline, and the scopes its templates see."""

    # Instances with more than 30 attributes would not share the keys of their dictionaries.
    __slots__ = (
        "at",
        "attempt",
        "body",
        "chunks",
        "counted_from",
        "counter",
        "failure",
        "first",
        "iteration",
        "jumps",
        "latest",
        "latest_task",
        "max_payload",
        "not_before",
        "number",
        "outcome",
        "output",
        "positions",
        "problem",
        "progress",
        "recorded_start",
        "role",
        "run",
        "scopes",
        "section",
        "sections",
        "since",
        "step",
        "step_input",
        "stop",
        "task_run_id",
        "tasks",
        "visits",
        "where",
        "yielder",
    )

    def __init__(
        self,
        step: Step,
        order_scopes: Mapping[str, Any],
        *,
        run: str,
        iteration: int | str | None,
        max_payload: int = MAX_PAYLOAD,
        role: PipelineRole = WHOLE,
    ) -> None:
        self.step = step
        #: what one `set` may write to `ctx`, in bytes
        self.max_payload = max_payload
        self.tasks = step.tasks
        #: what it is to its step run
        self.role = role
        #: the parts that it consists of, where it is more than its body, and the one at which it stands
        has_parts = iteration is None and bool(step.before or step.after or step.cleanup)
        self.sections = list_sections(step, role) if has_parts else ()
        self.at, self.section = 0, BODY
        if self.sections or role is not WHOLE:
            self.tasks = self._own_tasks()
        #: the tasks of the part at which it stands: from the first to the one before `stop`
        self.first, self.stop = 0, len(self.tasks)
        self.positions = {task.name: position for position, task in enumerate(self.tasks)}
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
        #: what the body yields, and the last output that counts, each with its task
        self.output: Output | None = None
        self.yielder: Task | None = None
        self.latest: Output | None = None
        self.latest_task: Task | None = None
        #: of a pipeline with parts: how the body ended, and how the step ends as far as that is known
        self.body = self.outcome = role.closing
        self._begin_counting()
        if self.sections:
            self.enter(0)

    def _begin_counting(self) -> None:
        """Nothing has been tried yet."""
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

    def _own_tasks(self) -> tuple[Task, ...]:
        """The tasks of a pipeline that is not simply its body."""
        if self.role.undoes:
            assert self.step.compensation is not None
            return (self.step.compensation,)
        return tuple(task for one in self.sections for task in one.tasks)

    def enter(self, at: int) -> None:
        """Go to the first task of a part. What follows the body sees the body's output."""
        self.at, self.section = at, self.sections[at].name if at < len(self.sections) else ""
        self.first = sum(len(one.tasks) for one in self.sections[:at])
        self.stop = self.first + len(self.sections[at].tasks) if at < len(self.sections) else self.first
        if self.section in (AFTER, FINALLY) and self.body is not None:
            self.latest, self.latest_task = self.body, self.yielder
            self.scopes |= {"output": self.body, "_prev": self.body["data"]}
        else:
            self.latest, self.latest_task = None, None
            self.scopes["_prev"] = None
            self.scopes.pop("output", None)
        self.visit(self.first)

    def leave(self) -> bool:
        """Go to the next part that is to run; False: there is none. After a failure only `finally` runs."""
        failed = self.outcome is not None and self.outcome["error"] is not None
        following = range(self.at + 1, len(self.sections))
        found = next((at for at in following if self.sections[at].name == FINALLY or not failed), None)
        self.enter(len(self.sections) if found is None else found)
        return found is not None

    def take_failure(self, output: Output) -> None:
        """A part has failed: so has the step, unless it had failed before."""
        if self.section == FINALLY:
            if self.outcome is not None and self.outcome["error"] is not None:
                return
        elif self.section != AFTER:
            self.body = output
        self.outcome = output

    def step_back(self) -> None:
        """Stand at the last task of the part, of which all have run."""
        self.counter = max(self.first, min(self.counter, self.stop - 1))

    @property
    def task(self) -> Task:
        """The task at which the pipeline stands."""
        return self.tasks[self.counter]

    @property
    def at_end(self) -> bool:
        """Whether no task is left, of the part at which it stands."""
        return self.counter >= self.stop

    def visit(self, counter: int) -> None:
        """Go to a task."""
        self.counter = counter
        self.attempt = self.counted_from = 1
        self.chunks = 0
        self.not_before = None
        self.progress = None
        if counter < self.stop:
            name = self.tasks[counter].name
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
        self.latest, self.latest_task = output, self.tasks[self.counter]
        if self.section == BODY:
            self.output, self.yielder = output, self.latest_task
        self.scopes["output"] = output
        self.scopes["_prev"] = output["data"]

    def replace_output(self, before: Output, now: Output) -> None:
        """The data of an output that lay elsewhere is in hand."""
        self.output = now if self.output is before else self.output
        self.body = now if self.body is before else self.body
        self.outcome = now if self.outcome is before else self.outcome

    def discard_output(self) -> None:
        """An output that does not count: things stay as they were before the task."""
        if self.latest is None:
            self.scopes.pop("output", None)
        else:
            self.scopes["output"] = self.latest


# The facts that a pipeline reports of itself, not yet numbered.


def task_started_fact(frame: Frame, payload: dict[str, Any]) -> Fact:
    """The attempt is about to take effect."""
    frame.number += 1
    if frame.sections and frame.section != BODY:
        payload = {**payload, "part": frame.section}
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
        frame.tasks[frame.counter].name,
        frame.task_run_id,
        frame.iteration,
        frame.attempt,
        frame.number,
        frame.role.closing is not None,
    )  # fmt: skip


def pipeline_fact(frame: Frame, name: str, payload: dict[str, Any], status: str = "success") -> Fact:
    """Something about the pipeline as a whole."""
    return Fact(name, frame.run, payload, status, iteration=frame.iteration, closing=frame.role.closing is not None)
