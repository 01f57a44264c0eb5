"""Fork: the log of an execution that begins as another one did, up to some event, and then goes its own way. Pure.

What is kept says what it said, under the new execution's id. A child that was running at that point gets a new id, so
that it is started anew; one that had ended stays the result it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.engine import ForkMark, NetIndex, apply, is_cause, replay_decision
from noetl.errors import NoetlError
from noetl.model.events import Event, epoch_seconds, event_id
from noetl.model.net import Net, Planner
from noetl.model.playbook import Loop, Step
from noetl.model.scope import map_difference, merge_maps
from noetl.model.state import Execution, LoopRun, Path, PipelineRun, StepRun, label_of, pipeline_runs

# Whether what is recorded makes sense under another playbook, so that a run can go on with it. Pure.


_OF_STEPS = frozenset({"step", "task", "loop", "next"})


class LogMismatch(msgspec.Struct, frozen=True):
    """Something that is recorded and has no place in the playbook."""

    message: str
    #: the event that tells of it
    seq: int
    #: the last event that could be kept without it
    keep: int


def misfits(net: Net, events: list[Event], state: Execution) -> list[LogMismatch]:
    """What keeps a run, as far as these events go, from going on with a net.

    The state is one between decisions, before the last of these events or behind: only runs they know of are judged.
    """
    found = [*_steps(net, events), *_ends(net, state)]
    if found:
        return found
    for run in state.runs.values():
        found += _run(net.steps.get(run.step), run, events)
    return [*found, *_tokens(net, state)]


def _steps(net: Net, events: list[Event]) -> Iterator[LogMismatch]:
    made = _find_planned_steps(events)
    seen: set[str] = set()
    for event in events:
        step = _step_of(event)
        if step is None or step in seen:
            continue
        seen.add(step)
        if step not in net.steps and step not in made:
            yield LogMismatch(f"there is no step `{step}` any more, {_describe_event(event)}", event.seq, event.seq - 1)


def _find_planned_steps(events: Iterable[Event]) -> set[str]:
    plans = (event.payload["steps"] for event in events if event.name == "workflow.synthesized")
    return {step["step"] for steps in plans for step in steps}


def _step_of(event: Event) -> str | None:
    if event.name == "workflow.started":
        return event.payload.get("step")
    return event.entity_id.partition(".")[0] if event.entity_type in _OF_STEPS else None


def _describe_event(event: Event) -> str:
    if event.name == "workflow.started":
        return "with which the run began"
    return "which has run" if event.name == "step.scheduled" else "which has been reached"


def _ends(net: Net, state: Execution) -> Iterator[LogMismatch]:
    for name, what in ((state.entry_step, "began"), (state.return_step, "was to end")):
        if name is not None and name not in net.steps:
            yield LogMismatch(f"there is no step `{name}`, with which the run {what}", 1, 0)


# --- what is under way -----------------------------------------------------------------------------------------------


def _run(step: Step | None, run: StepRun, events: list[Event]) -> Iterator[LogMismatch]:
    scheduled = next((e.seq for e in events if e.step_run_id == run.id and e.name == "step.scheduled"), None)
    if step is None or scheduled is None:
        return
    # A loop with `before` tasks begins after them; one that was ended leaves its `finally` tasks.
    is_apart = run.closing is not None or (run.loop is None and bool(step.before))
    problem = None if is_apart else _shape(step.loop, run.loop)
    if problem is None and run.loop is None and run.pipe is not None and not step.pipeline:
        problem = "has no task any more"
    if problem is not None:
        yield LogMismatch(f"step `{step.name}` is under way, and {problem}", scheduled, scheduled - 1)
        return
    for path, pipe in pipeline_runs(run):
        if pipe is not None and pipe.begun and step.pipeline != step.tasks:
            yield from _tasks(step, run, path, pipe, events)
        elif pipe is not None and pipe.begun:
            yield from _pipeline(step, run, path, pipe, events)


def _shape(declared: Loop | None, loop: LoopRun | None) -> str | None:
    """Why a loop that runs is not the one that is declared."""
    if loop is None or declared is None:
        if loop is not None:
            return "has no loop any more"
        return "has a loop now" if declared is not None else None
    for inner in loop.running.values():
        if (isinstance(inner, LoopRun) or inner.unfolds) != (declared.inner is not None):
            return "its loops are nested differently now"
        if isinstance(inner, LoopRun) and (problem := _shape(declared.inner, inner)) is not None:
            return problem
    return None


def _tasks(step: Step, run: StepRun, path: Path, pipe: PipelineRun, events: list[Event]) -> Iterator[LogMismatch]:
    """Look for the recorded tasks of a pipeline with tasks around its body among those that are declared now."""
    kinds, label = {task.name: task.kind for task in step.pipeline}, label_of(path)
    mine = [
        event
        for event in events[pipe.since - 1 :]
        if event.step_run_id == run.id and event.iteration == label and event.name in ("task.started", "task.done")
    ]
    for position, event in enumerate(mine):
        task = event.entity_id.partition(".")[2]
        if task not in kinds:
            text = f"step `{step.name}` is under way, and its task `{task}` is not there any more"
            yield LogMismatch(text, event.seq, pipe.since - 1)
            return
        is_open = event.name == "task.started" and position == len(mine) - 1
        if is_open and not _same_wait(event, kinds[task]):
            text = f"task `{task}` of step `{step.name}` is under way, and is of another kind now"
            yield LogMismatch(text, event.seq, event.seq - 1)


def _pipeline(step: Step, run: StepRun, path: Path, pipe: PipelineRun, events: list[Event]) -> Iterator[LogMismatch]:
    """Walk the recorded tasks of a pipeline along those that are declared now."""
    names = [task.name for task in step.tasks]
    counter, opened, label = 0, None, label_of(path)
    for event in events[pipe.since - 1 :]:
        if event.step_run_id != run.id or event.iteration != label or event.name not in ("task.started", "task.done"):
            continue
        task = event.entity_id.partition(".")[2]
        if counter >= len(names) or names[counter] != task:
            there = f"`{names[counter]}`" if counter < len(names) else "no task"
            text = f"step `{step.name}` is under way at task `{task}`, where there is {there} now"
            yield LogMismatch(text, event.seq, pipe.since - 1)
            return
        opened = event if event.name == "task.started" else None
        if opened is None:
            counter = _next(names, counter, event)
            if counter < 0:
                text = f"step `{step.name}` jumped to task `{event.payload['to']}`, which is not there any more"
                yield LogMismatch(text, event.seq, event.seq - 1)
                return
    if opened is not None and not _same_wait(opened, step.tasks[counter].kind):
        text = f"task `{names[counter]}` of step `{step.name}` is under way, and is of another kind now"
        yield LogMismatch(text, opened.seq, opened.seq - 1)


def _next(names: list[str], counter: int, event: Event) -> int:
    """The task behind one that has ended; -1: there is none of the name it jumped to."""
    payload = event.payload
    if payload["do"] == "retry":
        return counter
    if payload["do"] == "jump":
        return names.index(payload["to"]) if payload["to"] in names else -1
    return len(names) if payload["do"] == "break" else counter + 1


def _same_wait(started: Event, kind: str) -> bool:
    """Whether a task that is under way waits as one of its kind does now."""
    wait = started.payload.get("wait")
    if wait is None:
        return kind not in ("wait", "playbook")
    return kind == ("playbook" if "child" in wait else "wait")


# --- tokens ----------------------------------------------------------------------------------------------------------


def _tokens(net: Net, state: Execution) -> Iterator[LogMismatch]:
    for name in state.parked:
        step = net.steps.get(name)
        if step is not None and step.admission.join is not None:
            yield LogMismatch(f"a token waits at `{name}`, which is a join that counts tokens now", state.seq, 0)
    for name, entry in state.rounds.items():
        join = net.steps[name].admission.join if name in net.steps else None
        held = [source for source, tokens in entry.places.items() if tokens]
        if join is None and held:
            yield LogMismatch(f"tokens wait at `{name}`, which does not count tokens any more", state.seq, 0)
        for source in held if join is not None else ():
            if join is not None and source not in join.places:
                yield LogMismatch(
                    f"a token from `{source}` waits at `{name}`, whose join does not name it", state.seq, 0
                )


class ForkTarget(msgspec.Struct, frozen=True):
    """The execution that is to go on, and with what."""

    execution_id: str
    net: Net
    #: content hash of its playbook
    playbook: str
    file: str | None
    #: the time now, as events write it
    at: str
    #: the defaults of the playbook that ran, where the fork's is another one
    defaults: Mapping[str, Any] | None = None


class Fork(msgspec.Struct, frozen=True):
    """A log to be written, and the state that it yields."""

    #: of the execution that is gone on from
    origin: str
    seq: int
    events: tuple[Event, ...]
    state: Execution
    #: what was under way and starts under another id: the child before → now
    children: dict[str, str]


class ForkMismatch(NoetlError):
    """What is recorded makes no sense under the playbook that it is to go on with."""

    def __init__(self, found: list[LogMismatch]) -> None:
        super().__init__("; ".join(one.message for one in found))
        self.found = found


def payload_of(requested: Event, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was given, as far as that differs from the defaults of its playbook."""
    return map_difference(defaults, requested.payload["workload"])


def origin_of(execution_id: str, seq: int, at: str) -> dict[str, Any]:
    """What the first event of a rerun says of where it comes from."""
    return {"execution_id": execution_id, "seq": seq, "at": at}


def build_fork(
    kept: list[Event],
    target: ForkTarget,
    planner: Planner,
    *,
    ended: frozenset[str],
    new_child: Callable[[], str],
    new_id: Callable[[], str],
) -> Fork:
    """The log of an execution that begins with these events; `ended` are the children that were over by then.

    `Unfit` where they make no sense under the fork's playbook, `ReplayDiverged` where a decision is cut that it would take
    otherwise.
    """
    origin, seq = kept[0].execution_id, kept[-1].seq
    children = {one: new_child() for one in open_children(kept) if one not in ended}
    copies = [_copy_event(event, target, seq, children) for event in kept]
    start = next(position for position in reversed(range(seq)) if is_cause(copies[position]))
    state = Execution(target.execution_id)
    for event in copies[:start]:
        apply(state, event)
    net_index = NetIndex(target.net, planner).of(state)
    _check(net_index.net, copies, state)
    now = epoch_seconds(target.at)
    payload = {
        "from": origin,
        "seq": seq,
        "playbook": kept[0].payload["playbook"],
        "pause": max(0.0, now - epoch_seconds(kept[-1].timestamp)),
    }
    told = replay_decision(net_index, state, copies[start:], ForkMark(payload, now), new_id)
    # Once more: what the last decision began has to fit as well.
    _check(net_index.of(state).net, copies, state)
    return Fork(origin, seq, (*copies[:start], *told), state, children)


def _check(net: Net, copies: list[Event], state: Execution) -> None:
    found = misfits(net, copies, state)
    if found:
        raise ForkMismatch(found)


def open_children(kept: list[Event]) -> dict[str, None]:
    """The children that tasks were waiting for when the last of these events was written."""
    waiting: dict[str, str] = {}
    for event in kept:
        if event.name == "task.started" and "child" in (event.payload.get("wait") or {}):
            waiting[event.task_run_id or ""] = event.payload["wait"]["child"]["execution_id"]
        elif event.name == "task.done":
            waiting.pop(event.task_run_id or "", None)
    return dict.fromkeys(waiting.values())


# --- copies ----------------------------------------------------------------------------------------------------------


def _copy_event(event: Event, target: ForkTarget, seq: int, children: dict[str, str]) -> Event:
    """An event as one of the new execution."""
    parent = event.parent_id
    changes: dict[str, Any] = {
        "event_id": event_id(target.execution_id, event.seq),
        "execution_id": target.execution_id,
        "parent_id": event_id(target.execution_id, int(parent.rpartition("-")[2])) if parent is not None else None,
    }
    if event.entity_type in ("playbook", "workflow"):
        changes["entity_id"] = target.net.playbook.path
    if event.name == "playbook.execution.requested":
        changes["payload"] = _request(event, target, seq)
    wait = event.payload.get("wait")
    if wait and wait.get("child", {}).get("execution_id") in children:
        child = {**wait["child"], "execution_id": children[wait["child"]["execution_id"]]}
        changes["payload"] = {**event.payload, "wait": {**wait, "child": child}}
    return replace(event, **changes)


def _request(event: Event, target: ForkTarget, seq: int) -> dict[str, Any]:
    """The request of a rerun: nobody waits for it, and it runs the fork's playbook."""
    # Whoever had called the execution has its answer, or waits for that one.
    payload = {key: value for key, value in event.payload.items() if key not in ("parent", "depth", "asked")}
    payload["playbook"] = target.playbook
    payload["name"] = target.net.playbook.name
    if target.file is not None:
        payload["file"] = target.file
    if target.defaults is not None:
        payload["workload"] = merge_maps(target.net.playbook.workload, payload_of(event, target.defaults))
    payload["rerun"] = origin_of(event.execution_id, seq, target.at)
    return payload
