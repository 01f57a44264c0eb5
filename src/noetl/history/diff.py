"""Two executions compared: how they ended, where they first differ, the outcome of each step. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.expr import is_reference
from noetl.model.events import Event, epoch_seconds
from noetl.model.state import Execution, StepInfo

# Two values held against each other, at any depth. Pure.


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place at which two values differ; `a` or `b` is left out where nothing is there."""

    path: str
    a: Any = msgspec.UNSET
    b: Any = msgspec.UNSET


def diff_values(path: str, a: Any, b: Any) -> Iterator[Change]:
    """Where two values differ, as deep down as can be said."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _compare_at(_join_path(path, key), a.get(key, msgspec.UNSET), b.get(key, msgspec.UNSET))
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            left = a[index] if index < len(a) else msgspec.UNSET
            right = b[index] if index < len(b) else msgspec.UNSET
            yield from _compare_at(f"{path}[{index}]", left, right)
    elif not same(a, b):
        yield Change(path, a, b)


def _compare_at(path: str, a: Any, b: Any) -> Iterator[Change]:
    if a is msgspec.UNSET or b is msgspec.UNSET:
        yield Change(path, a, b)
    else:
        yield from diff_values(path, a, b)


def _join_path(path: str, key: str) -> str:
    plain = key.isidentifier()
    if not path:
        return key if plain else f'["{key}"]'
    return f"{path}.{key}" if plain else f'{path}["{key}"]'


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same as JSON: 1 is 1.0 but not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


#: what a reference leads to, without where that lies
Content = Callable[[Mapping[str, Any]], Any]


class ComparedRun(msgspec.Struct, frozen=True):
    """One of the two, as it was recorded."""

    state: Execution
    status: str
    #: the playbook's text and its name; None: it is not there any more
    text: str | None
    file: str
    events: Iterable[Event]


class StepDecision(msgspec.Struct, frozen=True):
    """What decided about a step on one side."""

    seq: int
    #: `step.done`, `loop.done`, `step.failed`; of an admission `fired`, `parked` or `skipped`
    event: str
    #: where the tokens went
    taken: list[str]
    #: the arcs or rules that were asked, each with `when` and the values it `saw`
    asked: list[dict[str, Any]]


class Divergence(msgspec.Struct, frozen=True):
    """The first point at which two ways differ; None on the side that never came there."""

    #: `arcs` of a step that ended, or `admission` of a token to a step
    what: str
    step: str
    run: str
    a: StepDecision | None
    b: StepDecision | None


class StepStanding(msgspec.Struct, frozen=True):
    """How a step stands on one side."""

    status: str
    runs: int
    #: how long its latest run took, as far as it has ended
    seconds: float | None
    error: dict[str, Any] | None
    loop: dict[str, int] | None


class StepPair(msgspec.Struct, frozen=True):
    """A step on both sides; None where it never came up."""

    step: str
    a: StepStanding | None
    b: StepStanding | None
    #: what differs in the output of its latest run
    output: list[Change]

    @property
    def same(self) -> bool:
        """Whether nothing differs but the time it took."""
        if self.a is None or self.b is None:
            return self.a is self.b
        fields = ("status", "runs", "error", "loop")
        return not self.output and all(getattr(self.a, name) == getattr(self.b, name) for name in fields)


class Side(msgspec.Struct, frozen=True):
    """One execution as a whole."""

    execution_id: str
    path: str
    playbook: str
    status: str
    events: int
    seconds: float
    error: dict[str, Any] | None
    stalled: list[str]
    unmatched: list[str]
    #: of a rerun: where it comes from
    rerun: dict[str, Any] | None


class Difference(msgspec.Struct, frozen=True):
    """All that there is to say of two executions."""

    a: Side
    b: Side
    #: whether they came to the same: status, error, payload, route, steps, values
    same: bool
    workload: list[Change]
    parting: Divergence | None
    steps: list[StepPair]
    ctx: list[Change]
    output: list[Change]
    #: lines of a unified diff of the playbooks; None: they are the same, or one is not there any more
    playbook: list[str] | None


def diff_executions(a: ComparedRun, b: ComparedRun, content: Content = dict) -> Difference:
    """Hold two executions against each other; of what is stored, its content."""
    left, right = _LogScan(a.events, content), _LogScan(b.events, content)
    steps = list(_steps(a.state, b.state, left, right))
    workload = list(diff_values("workload", a.state.workload, b.state.workload))
    ctx = list(diff_values("ctx", _resolve_references(a.state.ctx, content), _resolve_references(b.state.ctx, content)))
    output = list(
        diff_values("output", *(_full_output(one.state.output, one.state.output_ref, content) for one in (a, b)))
    )
    parting = _first_divergence(left, right)
    is_same = (
        _ending(a) == _ending(b)
        and parting is None
        and not (workload or ctx or output)
        and all(pair.same for pair in steps)
    )
    return Difference(_side(a), _side(b), is_same, workload, parting, steps, ctx, output, _texts(a, b))


def _ending(run: ComparedRun) -> tuple[Any, ...]:
    """How an execution ended; side by side branches may end in any order."""
    state = run.state
    return run.status, state.error, sorted(state.stalled), sorted(state.unmatched)


def _resolve_references(value: Any, content: Content) -> Any:
    """A value in which references are what they lead to."""
    if is_reference(value):
        return {"stored": content(value)}
    if isinstance(value, Mapping):
        return {key: _resolve_references(item, content) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve_references(item, content) for item in value]
    return value


def _full_output(data: Any, stored: Mapping[str, Any] | None, content: Content) -> Any:
    """What was yielded, all of it: the log may have a part of it only."""
    return _resolve_references(data if stored is None else stored, content)


def _side(run: ComparedRun) -> Side:
    state = run.state
    return Side(
        state.execution_id,
        state.path,
        state.playbook,
        run.status,
        state.seq,
        round(state.duration, 6),
        state.error,
        state.stalled,
        list(state.unmatched),
        state.origin,
    )


# --- the log, as far as it matters here ------------------------------------------------------------------------------


class _LogScan:
    """What one pass over a log remembers."""

    def __init__(self, events: Iterable[Event], content: Content) -> None:
        self.content = content
        #: step run → how its arcs were judged, in order
        self.routed: dict[str, tuple[str, StepDecision]] = {}
        #: step run → its firing, in order
        self.fired: dict[str, tuple[str, StepDecision]] = {}
        #: step → the last token that it kept waiting or swallowed
        self.refused: dict[str, StepDecision] = {}
        #: step → the data of its latest end, and where all of it is stored
        self.outputs: dict[str, tuple[Any, Mapping[str, Any] | None]] = {}
        for event in events:
            self._scan(event)

    def _scan(self, event: Event) -> None:
        payload, step, run = event.payload, event.entity_id, event.step_run_id or ""
        if event.name == "next.evaluated" and event.step_run_id is not None:
            taken = [arc["to"] for arc in payload["arcs"] if arc["taken"]]
            self.routed[run] = step, StepDecision(event.seq, payload["event"], taken, payload["arcs"])
        elif event.name == "step.scheduled":
            self.fired[run] = step, StepDecision(event.seq, "fired", [step], payload.get("saw", []))
        elif event.name in ("step.parked", "step.skipped") and payload.get("why") != "stalled":
            what = event.name.partition(".")[2]
            self.refused[step] = StepDecision(event.seq, what, [], payload.get("saw", []))
        elif event.name in ("step.done", "step.failed"):
            output = payload["output"]
            self.outputs[step] = output["data"], output["ref"] if output.get("external") else None


def _first_divergence(a: _LogScan, b: _LogScan) -> Divergence | None:
    """The first difference in the order of the left log; runs of a step are the same when their numbers are.

    Side by side branches may end in any order, so it is not the order of events that is compared.
    """
    for run, (step, judged) in a.routed.items():
        other = b.routed.get(run)
        if other is not None and (judged.taken, judged.event) != (other[1].taken, other[1].event):
            return Divergence("arcs", step, run, judged, other[1])
    for one, two in ((a, b), (b, a)):
        for run, (step, judged) in one.fired.items():
            if run not in two.fired:
                pair = judged, two.refused.get(step)
                return Divergence("admission", step, run, *(pair if one is a else pair[::-1]))
    return None


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(a: Execution, b: Execution, left: _LogScan, right: _LogScan) -> Iterator[StepPair]:
    for name in dict.fromkeys([*a.steps, *b.steps]):
        pair = [_step_standing(state.steps.get(name)) for state in (a, b)]
        yield StepPair(name, pair[0], pair[1], list(_output_changes(name, left, right)))


def _output_changes(step: str, left: _LogScan, right: _LogScan) -> Iterator[Change]:
    if step in left.outputs and step in right.outputs:
        yield from diff_values(
            "output.data", *(_full_output(*told.outputs[step], told.content) for told in (left, right))
        )


def _step_standing(info: StepInfo | None) -> StepStanding | None:
    if info is None:
        return None
    took = None
    if info.started_at is not None and info.finished_at is not None:
        took = round(epoch_seconds(info.finished_at) - epoch_seconds(info.started_at), 6)
    return StepStanding(info.status, info.runs, took, info.error, info.loop)


# --- playbooks -------------------------------------------------------------------------------------------------------


def _texts(a: ComparedRun, b: ComparedRun) -> list[str] | None:
    """The lines in which the playbooks differ; every part says in which step it is."""
    if a.text is None or b.text is None or same(a.text, b.text):
        return None
    before, now = a.text.splitlines(), b.text.splitlines()
    found = []
    for line in difflib.unified_diff(before, now, a.file, b.file, n=2, lineterm=""):
        if line.startswith("@@"):
            first = int(line.split()[2].lstrip("+").partition(",")[0])
            found.append(f"{line} {_step_at(now, first + 2)}".rstrip())
        else:
            found.append(line)
    return found


def _step_at(lines: list[str], number: int) -> str:
    """The step in which a line stands."""
    for line in reversed(lines[:number]):
        words = line.strip().lstrip("-{ ").split()
        if len(words) > 1 and words[0] == "step:":
            return f"step {words[1].rstrip(',')}"
    return ""
