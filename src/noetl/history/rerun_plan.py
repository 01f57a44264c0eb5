"""What a rerun would do: what it keeps, what it starts, and which effects may happen a second time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from noetl.errors import UsageError
from noetl.history.diff import Change
from noetl.model.events import Event
from noetl.model.nearest import nearest
from noetl.model.state import Execution, PipelineRun, StepRun, label_of, pipeline_runs

# Where to fork a log: the last event that is kept, found by its number or by the step that is to run anew.


_PLACE = re.compile(r"(?P<step>[A-Za-z_][A-Za-z0-9_-]*)(?:\[(?P<iteration>\d+(?:\.\d+)*)\])?")


class RerunPlace(msgspec.Struct, frozen=True):
    """A step, or one iteration of its loop, that is to run anew."""

    step: str
    iteration: str | None = None

    def __str__(self) -> str:
        return self.step if self.iteration is None else f"{self.step}[{self.iteration}]"


def parse_fork_point(text: str) -> int | RerunPlace:
    """What `--from` names: the number of an event, a step, or an iteration as `step[3]`."""
    if text.isascii() and text.isdecimal():
        return int(text)
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"--from {text}: name a step, an iteration such as `step[3]`, or the number of an event")
    return RerunPlace(found["step"], found["iteration"])


def find_last_kept(events: Iterable[Event], wanted: int | RerunPlace, *, run: int | None, known: Iterable[str]) -> int:
    """The last event to keep; `known` are the steps of the playbook, for whoever misspells one."""
    events = list(events)
    kept = _find_kept(events, wanted, run, list(known))
    _refuse_undone(events, kept, wanted)
    return kept


def _refuse_undone(events: list[Event], kept: int, wanted: int | RerunPlace) -> None:
    """What was undone is never kept: it has to be done again."""
    undone = {
        (event.payload["run"], event.iteration): event.entity_id
        for event in events
        if event.name == "step.compensating"
    }
    for event in events[:kept] if undone else ():
        started = event.name == ("step.scheduled" if event.iteration is None else "loop.iteration.started")
        step = undone.get((event.step_run_id or "", event.iteration)) if started else None
        if step is not None:
            place = RerunPlace(step, None if event.iteration is None else str(event.iteration))
            runs = sum(one.name == "step.scheduled" and one.entity_id == step for one in events)
            number = f" --run {(event.step_run_id or '').rpartition('-')[2]}" if runs > 1 else ""
            again = f"--from '{place}'{number}"
            raise UsageError(
                f"--from {wanted}: {place} ended before that, and was undone by its compensation; "
                f"`{again}` is the earliest that has to run again"
            )


def _find_kept(events: list[Event], wanted: int | RerunPlace, run: int | None, known: list[str]) -> int:
    if isinstance(wanted, RerunPlace):
        return _before(events, wanted, run, known) - 1
    if run is not None:
        raise UsageError("--run says which run of a step: name one with --from STEP")
    length = over = 0
    for event in events:
        length = event.seq
        if event.name in ("workflow.finished", "playbook.processed"):
            over = over or event.seq
    if wanted > length:
        raise UsageError(f"--from {wanted}: the log ends at event {length}")
    if over and wanted >= over:
        raise UsageError(f"--from {wanted}: at that event it is over; {over - 1} is the last one to go on from")
    return wanted


def _before(events: list[Event], place: RerunPlace, run: int | None, known: list[str]) -> int:
    """The event with which the place began to run."""
    fired = [one for one in events if one.name == "step.scheduled" and one.entity_id == place.step]
    if not fired:
        raise UsageError(_never_ran(events, place.step, known))
    if run is not None and not 1 <= run <= len(fired):
        raise UsageError(f"--run {run}: {place.step} ran {len(fired)} times" if len(fired) > 1 else f"--run {run}: {place.step} ran once")  # fmt: skip
    chosen = fired[(run or len(fired)) - 1]
    if place.iteration is None:
        return chosen.seq
    for one in events:
        begins = one.name == "loop.iteration.started" and one.step_run_id == chosen.step_run_id
        if begins and str(one.iteration) == place.iteration:
            return one.seq
    raise UsageError(f"--from {place}: {chosen.step_run_id} has not started an iteration {place.iteration}")


def _never_ran(events: list[Event], step: str, known: list[str]) -> str:
    ran = list(dict.fromkeys(one.entity_id for one in events if one.name == "step.scheduled"))
    if step in known:
        return f"--from {step}: it never ran; these did: {', '.join(ran[:20])}"
    meant = nearest(step, [*ran, *known])
    hint = f"did you mean `{meant}`?" if meant else f"these ran: {', '.join(ran[:20])}"
    return f"--from {step}: there is no such step; {hint}"


class KeptStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that has ended in what is kept."""

    step: str
    runs: int
    #: of its latest run
    status: str


class PendingWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is under way when the rerun begins."""

    step: str
    #: `starts`, `goes on` behind its recorded tasks, `waits`, `calls` a playbook, or `loops`
    what: str
    iteration: int | str | None = None
    #: the task it stands at, where one was cut short
    task: str | None = None
    signal: str | None = None
    until: float | None = None
    #: the playbook that is started anew
    child: str | None = None
    #: of a loop: how many iterations are kept, and of how many
    kept: int = 0
    total: int = 0


class TaskEffect(msgspec.Struct, frozen=True):
    """A task that took effect, or may have, and whose result is not kept."""

    step: str
    task: str
    kind: str
    #: how often it was tried
    times: int
    #: the keys under which the other side knows it, as far as they are few
    keys: list[str]


class ForkPlan(msgspec.Struct, frozen=True):
    """All there is to know before a rerun."""

    execution_id: str
    #: how the execution stands that is gone on from
    status: str
    #: events that are kept, and those there are; none: it runs anew from the start
    seq: int
    of: int
    #: the last event that is kept
    event: str | None
    playbook: str
    file: str | None
    #: whether it goes on with another playbook
    changed: bool
    #: tasks whose results are kept
    results: int
    kept: list[KeptStep]
    again: list[PendingWork]
    effects: list[TaskEffect]
    #: what the other playbook changes in the workload
    workload: list[Change]
    notes: list[str]


_FEW = 3


def find_finished_steps(state: Execution) -> list[KeptStep]:
    """The steps that have ended, in the order in which they came up."""
    over = ("done", "failed", "cancelled")
    return [KeptStep(name, info.runs, info.status) for name, info in state.steps.items() if info.status in over]


def results(kept: Iterable[Event]) -> int:
    """How many tasks have an end that is kept."""
    return sum(event.name == "task.done" and event.payload["do"] != "retry" for event in kept)


def find_pending_work(state: Execution) -> list[PendingWork]:
    """What starts or goes on as soon as the rerun begins."""
    found: list[PendingWork] = []
    for run in state.runs.values():
        if run.loop is not None:
            found.append(PendingWork(run.step, "loops", kept=run.loop.completed, total=run.loop.total))
        found += [_pipeline(run, label_of(path), pipe) for path, pipe in pipeline_runs(run)]
    return found


def _pipeline(run: StepRun, label: int | str | None, pipe: PipelineRun | None) -> PendingWork:
    if pipe is None or not pipe.begun or (not pipe.number and not pipe.is_open):
        return PendingWork(run.step, "starts", label)
    wait = pipe.wait
    if wait is None:
        return PendingWork(run.step, "goes on", label)
    task = _task_of(wait.task_run_id)
    if wait.child is not None:
        return PendingWork(run.step, "calls", label, task, child=wait.child["path"])
    return PendingWork(run.step, "waits", label, task, signal=wait.signal, until=wait.until)


def _task_of(task_run_id: str) -> str:
    return task_run_id.rpartition("/")[2]


def effects(
    events: Iterable[Event], seq: int, kind_of: Callable[[str, str], str], effect_free: Callable[[str], bool]
) -> list[TaskEffect]:
    """The attempts that have no kept result, by task, in the order in which they came."""
    kept: set[tuple[str, int]] = set()
    tried: dict[str, dict[tuple[str, int], None]] = {}
    for event in events:
        attempt = f"{event.execution_id}/{event.task_run_id}", event.attempt or 1
        if event.name == "task.started":
            tried.setdefault(event.entity_id, {})[attempt] = None
        elif event.name == "task.done" and event.seq <= seq:
            kept.add(attempt)
    found = []
    for name, attempts in tried.items():
        step, _, task = name.partition(".")
        kind = kind_of(step, task)
        lost = [one for one in attempts if one not in kept]
        if lost and not effect_free(kind):
            keys = list(dict.fromkeys(key for key, _ in lost))
            found.append(TaskEffect(step, task, kind, len(lost), keys[:_FEW]))
    return found


def notes(state: Execution, *, alive: bool) -> list[str]:
    """What a person should know before saying yes."""
    found = []
    if alive:
        found.append("it is being run right now; the rerun goes its own way beside it")
    if state.failure is not None:
        step = state.failure.get("step")
        hint = f"; `--from {step}` runs that step anew" if step else ""
        found.append(f"the failure of {step or 'the run'} is among what is kept, so it will end as failed{hint}")
    elif state.over:
        found.append(f"nothing is left to run behind that event: it ends as {state.status}")
    return found
