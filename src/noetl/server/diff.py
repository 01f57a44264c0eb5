"""Two executions held against each other: how they ended, where their ways part, what each step came to. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.expr.refs import is_reference
from noetl.model.events import Event, seconds
from noetl.model.state import Execution, StepInfo
from noetl.server.compare import Change, changes, same

#: what a reference leads to, without where that lies
Content = Callable[[Mapping[str, Any]], Any]


class Run(msgspec.Struct, frozen=True):
    """One of the two, as it was recorded."""

    state: Execution
    status: str
    #: the playbook's text and its name; None: it is not there any more
    text: str | None
    file: str
    events: Iterable[Event]


class Judged(msgspec.Struct, frozen=True):
    """What decided about a step on one side."""

    seq: int
    #: `step.done`, `loop.done`, `step.failed`; of an admission `fired`, `parked` or `skipped`
    event: str
    #: where the tokens went
    taken: list[str]
    #: the arcs or rules that were asked, each with `when` and the values it `saw`
    asked: list[dict[str, Any]]


class Parting(msgspec.Struct, frozen=True):
    """The first point at which two ways differ; None on the side that never came there."""

    #: `arcs` of a step that ended, or `admission` of a token to a step
    what: str
    step: str
    run: str
    a: Judged | None
    b: Judged | None


class Standing(msgspec.Struct, frozen=True):
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
    a: Standing | None
    b: Standing | None
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
    #: of a rerun: where it comes from
    rerun: dict[str, Any] | None


class Difference(msgspec.Struct, frozen=True):
    """All that there is to say of two executions."""

    a: Side
    b: Side
    #: whether they came to the same: status, error, payload, route, steps, values
    same: bool
    workload: list[Change]
    parting: Parting | None
    steps: list[StepPair]
    ctx: list[Change]
    output: list[Change]
    #: lines of a unified diff of the playbooks; None: they are the same, or one is not there any more
    playbook: list[str] | None


def difference(a: Run, b: Run, content: Content = dict) -> Difference:
    """Hold two executions against each other; of what is stored, its content."""
    left, right = _Told(a.events, content), _Told(b.events, content)
    steps = list(_steps(a.state, b.state, left, right))
    workload = list(changes("workload", a.state.workload, b.state.workload))
    ctx = list(changes("ctx", _placeless(a.state.ctx, content), _placeless(b.state.ctx, content)))
    output = list(changes("output", *(_yielded(one.state.output, one.state.output_ref, content) for one in (a, b))))
    parting = _parting(left, right)
    ends = (a.status, a.state.error, a.state.stalled) == (b.status, b.state.error, b.state.stalled)
    is_same = ends and parting is None and not (workload or ctx or output) and all(pair.same for pair in steps)
    return Difference(_side(a), _side(b), is_same, workload, parting, steps, ctx, output, _texts(a, b))


def _placeless(value: Any, content: Content) -> Any:
    """A value in which references are what they lead to."""
    if is_reference(value):
        return {"stored": content(value)}
    if isinstance(value, Mapping):
        return {key: _placeless(item, content) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeless(item, content) for item in value]
    return value


def _yielded(data: Any, stored: Mapping[str, Any] | None, content: Content) -> Any:
    """What was yielded, all of it: the log may have a part of it only."""
    return _placeless(data if stored is None else stored, content)


def _side(run: Run) -> Side:
    state = run.state
    return Side(
        state.execution_id,
        state.path,
        state.playbook,
        run.status,
        state.seq,
        round(state.took, 6),
        state.error,
        state.stalled,
        state.origin,
    )


# --- the log, as far as it matters here ------------------------------------------------------------------------------


class _Told:
    """What one pass over a log remembers."""

    def __init__(self, events: Iterable[Event], content: Content) -> None:
        self.content = content
        #: step run → how its arcs were judged, in order
        self.routed: dict[str, tuple[str, Judged]] = {}
        #: step run → its firing, in order
        self.fired: dict[str, tuple[str, Judged]] = {}
        #: step → the last token that it kept waiting or swallowed
        self.refused: dict[str, Judged] = {}
        #: step → the data of its latest end, and where all of it is stored
        self.outputs: dict[str, tuple[Any, Mapping[str, Any] | None]] = {}
        for event in events:
            self._see(event)

    def _see(self, event: Event) -> None:
        payload, step, run = event.payload, event.entity_id, event.step_run_id or ""
        if event.name == "next.evaluated" and event.step_run_id is not None:
            taken = [arc["to"] for arc in payload["arcs"] if arc["taken"]]
            self.routed[run] = step, Judged(event.seq, payload["event"], taken, payload["arcs"])
        elif event.name == "step.scheduled":
            self.fired[run] = step, Judged(event.seq, "fired", [step], payload.get("saw", []))
        elif event.name in ("step.parked", "step.skipped") and payload.get("why") != "stalled":
            what = event.name.partition(".")[2]
            self.refused[step] = Judged(event.seq, what, [], payload.get("saw", []))
        elif event.name in ("step.done", "step.failed"):
            output = payload["output"]
            self.outputs[step] = output["data"], output["ref"] if output.get("external") else None


def _parting(a: _Told, b: _Told) -> Parting | None:
    """The first difference in the order of the left log; runs of a step are the same when their numbers are.

    Side by side branches may end in any order, so it is not the order of events that is compared.
    """
    for run, (step, judged) in a.routed.items():
        other = b.routed.get(run)
        if other is not None and (judged.taken, judged.event) != (other[1].taken, other[1].event):
            return Parting("arcs", step, run, judged, other[1])
    for one, two in ((a, b), (b, a)):
        for run, (step, judged) in one.fired.items():
            if run not in two.fired:
                pair = judged, two.refused.get(step)
                return Parting("admission", step, run, *(pair if one is a else pair[::-1]))
    return None


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(a: Execution, b: Execution, left: _Told, right: _Told) -> Iterator[StepPair]:
    for name in dict.fromkeys([*a.steps, *b.steps]):
        pair = [_standing(state.steps.get(name)) for state in (a, b)]
        yield StepPair(name, pair[0], pair[1], list(_differing(name, left, right)))


def _differing(step: str, left: _Told, right: _Told) -> Iterator[Change]:
    if step in left.outputs and step in right.outputs:
        yield from changes("output.data", *(_yielded(*told.outputs[step], told.content) for told in (left, right)))


def _standing(info: StepInfo | None) -> Standing | None:
    if info is None:
        return None
    took = None
    if info.started_at is not None and info.finished_at is not None:
        took = round(seconds(info.finished_at) - seconds(info.started_at), 6)
    return Standing(info.status, info.runs, took, info.error, info.loop)


# --- playbooks -------------------------------------------------------------------------------------------------------


def _texts(a: Run, b: Run) -> list[str] | None:
    """The lines in which the playbooks differ; every part says in which step it is."""
    if a.text is None or b.text is None or same(a.text, b.text):
        return None
    before, now = a.text.splitlines(), b.text.splitlines()
    found = []
    for line in difflib.unified_diff(before, now, a.file, b.file, n=2, lineterm=""):
        if line.startswith("@@"):
            first = int(line.split()[2].lstrip("+").partition(",")[0])
            found.append(f"{line} {_around(now, first + 2)}".rstrip())
        else:
            found.append(line)
    return found


def _around(lines: list[str], number: int) -> str:
    """The step in which a line stands."""
    for line in reversed(lines[:number]):
        words = line.strip().lstrip("-{ ").split()
        if len(words) > 1 and words[0] == "step:":
            return f"step {words[1].rstrip(',')}"
    return ""
