"""What a rerun would do: what it keeps, what it starts, and which effects may happen a second time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from noetl.engine.find import pipes
from noetl.model.events import Event
from noetl.model.state import Execution, Pipe, StepRun, label_of
from noetl.server.compare import Change


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that has ended in what is kept."""

    step: str
    runs: int
    #: of its latest run
    status: str


class Again(msgspec.Struct, frozen=True, omit_defaults=True):
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


class Effect(msgspec.Struct, frozen=True):
    """A task that took effect, or may have, and whose result is not kept."""

    step: str
    task: str
    kind: str
    #: how often it was tried
    times: int
    #: the keys under which the other side knows it, as far as they are few
    keys: list[str]


class Plan(msgspec.Struct, frozen=True):
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
    kept: list[Kept]
    again: list[Again]
    effects: list[Effect]
    #: what the other playbook changes in the workload
    workload: list[Change]
    notes: list[str]


_FEW = 3


def kept_steps(state: Execution) -> list[Kept]:
    """The steps that have ended, in the order in which they came up."""
    over = ("done", "failed", "cancelled")
    return [Kept(name, info.runs, info.status) for name, info in state.steps.items() if info.status in over]


def results(kept: Iterable[Event]) -> int:
    """How many tasks have an end that is kept."""
    return sum(event.name == "task.done" and event.payload["do"] != "retry" for event in kept)


def under_way(state: Execution) -> list[Again]:
    """What starts or goes on as soon as the rerun begins."""
    found: list[Again] = []
    for run in state.runs.values():
        if run.loop is not None:
            found.append(Again(run.step, "loops", kept=run.loop.completed, total=run.loop.total))
        found += [_pipeline(run, label_of(path), pipe) for path, pipe in pipes(run)]
    return found


def _pipeline(run: StepRun, label: int | str | None, pipe: Pipe | None) -> Again:
    if pipe is None or not pipe.begun or (not pipe.number and not pipe.is_open):
        return Again(run.step, "starts", label)
    wait = pipe.wait
    if wait is None:
        return Again(run.step, "goes on", label)
    task = _task_of(wait.task_run_id)
    if wait.child is not None:
        return Again(run.step, "calls", label, task, child=wait.child["path"])
    return Again(run.step, "waits", label, task, signal=wait.signal, until=wait.until)


def _task_of(task_run_id: str) -> str:
    return task_run_id.rpartition("/")[2]


def effects(
    events: Iterable[Event], seq: int, kind_of: Callable[[str, str], str], effect_free: Callable[[str], bool]
) -> list[Effect]:
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
            found.append(Effect(step, task, kind, len(lost), keys[:_FEW]))
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
