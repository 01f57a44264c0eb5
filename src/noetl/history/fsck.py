"""The invariants of a recorded execution, checked by going through its log once more.

What the store itself promises (no
gap, no changed byte) is for the store to verify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.engine import apply
from noetl.history.log_queries import events_of, read_snapshot
from noetl.model.events import Event, epoch_seconds
from noetl.model.net import Net
from noetl.model.state import Execution, parse_label
from noetl.ports import EventLog, Summary

# The rules that a log must keep, one class each: it remembers what it saw, and has its say on the next event.


class ConsistencyRule:
    """Sees every event of one execution, in order."""

    name = ""

    def __init__(self, net: Net | None) -> None:
        self.net = net

    def check_event(self, event: Event) -> Iterator[str]:
        """What is wrong with the next event."""
        raise NotImplementedError


class Attempts(ConsistencyRule):
    """Each attempt at a task starts once and ends once."""

    name = "attempts"

    def __init__(self, net: Net | None) -> None:
        super().__init__(net)
        self._open: set[tuple[str, int]] = set()
        #: task → its latest attempt that has ended
        self._ended: dict[str, int] = {}

    def check_event(self, event: Event) -> Iterator[str]:
        """Keep book of starts and ends."""
        if event.name not in ("task.started", "task.done"):
            return
        task, attempt = event.task_run_id or "", event.attempt or 1
        if attempt <= self._ended.get(task, 0):
            yield f"attempt {attempt} at {task} had ended already"
        elif event.name == "task.started":
            if (task, attempt) in self._open:
                yield f"attempt {attempt} at {task} had started already"
            self._open.add((task, attempt))
        else:
            if (task, attempt) not in self._open:
                yield f"attempt {attempt} at {task} ended without having started"
            self._open.discard((task, attempt))
            self._ended[task] = attempt


class Terminal(ConsistencyRule):
    """What is over stays over."""

    name = "terminal"

    def __init__(self, net: Net | None) -> None:
        super().__init__(net)
        self._over = ""

    def check_event(self, event: Event) -> Iterator[str]:
        """Nothing may come behind the end."""
        if self._over == "playbook.processed":
            yield f"{event.name} comes behind playbook.processed"
        elif self._over and event.name != "playbook.processed":
            yield f"{event.name} comes behind {self._over}"
        if event.name in ("workflow.finished", "playbook.processed"):
            self._over = event.name


class Routing(ConsistencyRule):
    """A step's arcs are judged once for each of its ends, and an exclusive router takes one of them at most."""

    name = "routing"

    def __init__(self, net: Net | None) -> None:
        super().__init__(net)
        self._judged: set[str] = set()

    def check_event(self, event: Event) -> Iterator[str]:
        """Count what was taken."""
        if event.name != "next.evaluated" or event.step_run_id is None:
            return
        if event.step_run_id in self._judged:
            yield f"the arcs of {event.step_run_id} had been judged already"
        self._judged.add(event.step_run_id)
        step = self.net.steps.get(event.entity_id) if self.net is not None else None
        taken = [arc["to"] for arc in event.payload["arcs"] if arc["taken"]]
        if step is not None and step.router.mode == "exclusive" and len(taken) > 1:
            yield f"{event.entity_id} is exclusive, and took {len(taken)} arcs: {', '.join(taken)}"


class Iterations(ConsistencyRule):
    """Each iteration starts once and ends once, and a loop is done once."""

    name = "loops"

    def __init__(self, net: Net | None) -> None:
        super().__init__(net)
        self._started: dict[str, set[tuple[int, ...]]] = {}
        self._ended: dict[str, set[tuple[int, ...]]] = {}
        self._done: set[str] = set()

    def check_event(self, event: Event) -> Iterator[str]:
        """Keep book of the iterations of every run."""
        if event.entity_type != "loop":
            return
        run, path = event.step_run_id or "", parse_label(event.iteration)
        if event.name == "loop.done":
            yield from self._check_done(event, run)
        elif event.name == "loop.iteration.started":
            started = self._started.setdefault(run, set())
            if path in started:
                yield f"iteration {event.iteration} of {run} had started already"
            started.add(path)
        elif event.name != "loop.started":
            ended = self._ended.setdefault(run, set())
            if path not in self._started.get(run, ()):
                yield f"iteration {event.iteration} of {run} ended without having started"
            if path in ended:
                yield f"iteration {event.iteration} of {run} had ended already"
            ended.add(path)

    def _check_done(self, event: Event, run: str) -> Iterator[str]:
        if run in self._done:
            yield f"the loop of {run} was done already"
        self._done.add(run)
        # The bookkeeping of a loop that is over would only take memory.
        started, ended = self._started.pop(run, set()), self._ended.pop(run, set())
        outermost = [path for path in ended if len(path) == 1]
        counted = event.payload["loop"]["completed"]
        if counted != len(outermost):
            yield f"the loop of {run} counts {counted} iterations, {len(outermost)} have ended"
        if self._runs_all(event.entity_id) and started != ended:
            yield f"the loop of {run} is done, but {len(started - ended)} of its iterations have not ended"

    def _runs_all(self, step: str) -> bool:
        """Whether nothing may end the loop of a step before its iterations."""
        found = self.net.steps.get(step) if self.net is not None else None
        loop = found.loop if found is not None else None
        if loop is None:
            return False
        while loop is not None:
            if loop.complete_when is not None:
                return False
            loop = loop.inner
        return True


RULES: tuple[type[ConsistencyRule], ...] = (Attempts, Terminal, Routing, Iterations)


# The rule that what a log refers to is there, as it was stored.


#: the events of a worker that may hold references
_HOLDING = frozenset({"task.done", "step.done", "loop.iteration.done"})


class PayloadRule(ConsistencyRule):
    """Every payload that an event has left in the result store is there and whole, unless its time has run out."""

    name = "payload"

    def __init__(self, damage: Callable[[Mapping[str, Any]], Iterable[str]], now: float) -> None:
        super().__init__(None)
        self._damage = damage
        self._now = now
        self._seen: set[str] = set()

    def check_event(self, event: Event) -> Iterator[str]:
        """Look at what an event refers to, once: the end of a task is the end of its step as well."""
        if event.name not in _HOLDING:
            return
        for reference in _references(event.payload):
            place = str(reference.get("locator"))
            if place not in self._seen and not self._is_over(event, reference):
                self._seen.add(place)
                yield from self._damage(reference)

    def _is_over(self, event: Event, reference: Mapping[str, Any]) -> bool:
        ttl = (reference.get("meta") or {}).get("ttl")
        return ttl is not None and epoch_seconds(event.timestamp) + ttl <= self._now


def _references(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What stands where a worker leaves references; what playbooks make of them leads to the same payloads."""
    output = payload.get("output")
    found = [payload.get("ref"), output.get("ref") if isinstance(output, Mapping) else None]
    yield from (one for one in (*found, *(payload.get("kept") or {}).values()) if isinstance(one, Mapping))


class FsckProblem(msgspec.Struct, frozen=True):
    """Something that must not be."""

    #: the name of the rule that is broken
    kind: str
    message: str
    execution_id: str
    #: the event at which it shows
    seq: int


def check_log(
    log: EventLog, summary: Summary, net: Net | None, more: Iterable[ConsistencyRule] = ()
) -> Iterator[FsckProblem]:
    """Everything that is wrong with an execution, as far as its events and `more` rules tell."""
    execution_id = summary.execution_id
    state = Execution(execution_id)
    rules = [*(make(net) for make in RULES), *more]
    snapshots = _snapshots(log, execution_id)
    for event in events_of(log, execution_id):
        for rule in rules:
            for message in rule.check_event(event):
                yield FsckProblem(rule.name, message, execution_id, event.seq)
        try:
            apply(state, event)
        except Exception as error:  # noqa: BLE001  whatever a damaged log does to the fold is what is to be told
            yield FsckProblem("replay", f"{event.name} makes no sense here: {error!r}", execution_id, event.seq)
            return
        if event.seq in snapshots:
            yield from _compare(log, execution_id, event.seq, state)
    yield from _check_whole(log, summary, state)


def _snapshots(log: EventLog, execution_id: str) -> set[int]:
    """Where snapshots were taken."""
    found: set[int] = set()
    one = log.snapshot(execution_id)
    while one is not None:
        found.add(one[0])
        one = log.snapshot(execution_id, upto=one[0] - 1)
    return found


def _compare(log: EventLog, execution_id: str, seq: int, state: Execution) -> Iterator[FsckProblem]:
    found = log.snapshot(execution_id, upto=seq)
    assert found is not None
    try:
        kept = read_snapshot(found[1])
    except msgspec.DecodeError as error:
        yield FsckProblem("snapshot", f"it cannot be read: {error}", execution_id, seq)
        return
    if msgspec.to_builtins(kept) != msgspec.to_builtins(state):
        differing = [
            name for name in Execution.__struct_fields__
            if msgspec.to_builtins(getattr(kept, name)) != msgspec.to_builtins(getattr(state, name))
        ]  # fmt: skip
        yield FsckProblem(
            "snapshot", f"the events yield another state: {', '.join(differing)} differ", execution_id, seq
        )


def _check_whole(log: EventLog, summary: Summary, state: Execution) -> Iterator[FsckProblem]:
    def problem(kind: str, message: str) -> FsckProblem:
        return FsckProblem(kind, message, summary.execution_id, state.seq)

    # A run that goes on meanwhile is ahead of the summary that was read before it.
    if state.seq == summary.seq and summary.status != state.shown_status:
        yield problem("summary", f"the summary says {summary.status}, the events say {state.shown_status}")
    if state.over:
        yield from (problem("finish", message) for message in _find_leftovers(log, state))


def _find_leftovers(log: EventLog, state: Execution) -> Iterator[str]:
    """What is still there though the execution is over."""
    for run in state.runs.values():
        yield f"it is over, but {run.id} still runs"
    for ended in state.boundaries:
        yield f"it is over, but the arcs of {ended.step_run_id} were never judged"
    held = [name for name, entry in state.rounds.items() if any(entry.places.values())]
    for name in dict.fromkeys([*state.parked, *held]):
        yield f"it is over, but tokens are still parked at {name}"
    if state.status == "completed" and state.failure is not None:
        yield "it is completed, but a failure was not routed"
    for child in log.summaries(limit=100, unfinished=True, parent=state.execution_id):
        yield f"it is over, but its child {child.execution_id} is {child.status}"
