"""Expect: what a case says must hold when its run is over, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.lang.invariants import span
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, plain
from noetl.model.events import Event
from noetl.trials.match import Mismatch, mismatches, shown
from noetl.trials.perform import Performance
from noetl.trials.stage import Made

_NEVER = "never ran"


def unmet(expect: MapNode | None, name_at: tuple[int, int], done: Performance) -> list[Mismatch]:
    """What is not as expected, in the order of the file."""
    found = list(_status(expect, name_at, done))
    ended_otherwise = bool(found)
    scopes = {
        "workload": done.state.workload,
        "ctx": done.state.ctx,
        "output": done.output,
        "execution_id": done.state.execution_id,
    }
    for entry in expect.entries if expect is not None else ():
        check = _CHECKS.get(entry.name)
        # That there is no error has been told with how it ended.
        told = entry.name == "error" and ended_otherwise and done.state.error is None
        if check is not None and not told:
            found += check(entry.value, done, scopes)
    return found


def _status(expect: MapNode | None, name_at: tuple[int, int], done: Performance) -> Iterator[Mismatch]:
    """How the run ended."""
    said = expect.get("status") if expect is not None else None
    error = expect.entry("error") if expect is not None else None
    wanted = said.text if isinstance(said, Scalar) else _wanted(error)
    got = done.state.status
    if got == wanted or wanted is None:
        return
    at = span(said) if said is not None else span(error.key) if error is not None else name_at
    why = ""
    if done.state.error is not None and wanted == "completed":
        why = f": {done.state.error.get('kind')}: {done.state.error.get('message')}"
    yield Mismatch(at, f"the run {got}, and should have {wanted}{why}", wanted, got)


def _wanted(error: Entry | None) -> str | None:
    """A case that says nothing of it expects the run to complete; one that expects an error, to fail; a condition decides."""
    if error is None or plain(error.value) is None:
        return "completed"
    return "failed" if isinstance(error.value, MapNode) else None


# --- values ----------------------------------------------------------------------------------------------------------

_Scopes = Mapping[str, Any]
_Check = Callable[[Node, Performance, _Scopes], Iterator[Mismatch]]


def _output(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.output, "output", scopes)


def _ctx(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.state.ctx, "ctx", scopes)


def _seconds(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.seconds, "seconds", scopes)


# --- where the tokens went ---------------------------------------------------------------------------------------------


def _route(node: Node, done: Performance, _scopes: _Scopes) -> Iterator[Mismatch]:
    went = [event.entity_id for event in done.events if event.name == "step.scheduled"]
    rest = list(went)
    told = " → ".join(went) or "nowhere"
    for item in node.items if isinstance(node, ListNode) else ():
        group = [str(name) for name in plain(item)] if isinstance(item, ListNode) else [str(plain(item))]
        came, rest = rest[: len(group)], rest[len(group) :]
        if sorted(came) != sorted(group):
            wanted = group[0] if len(group) == 1 else f"{' and '.join(group)}, in any order"
            instead = " and ".join(came) or "nothing more"
            yield Mismatch(span(item), f"expected {wanted}, and there came {instead}: {told}", plain(node), went)
            return
    if rest:
        yield Mismatch(span(node), f"the route goes on with {' → '.join(rest)}: {told}", plain(node), went)


def _arcs(node: Node, done: Performance, _scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        taken = _taken(done.events, entry.name)
        said = plain(entry.value)
        wanted = said if isinstance(said, list) else [said]
        if taken != wanted:
            went = ", ".join(taken) or "nowhere"
            message = f"the tokens of `{entry.name}` went {'to ' * bool(taken)}{went}, not to {', '.join(wanted) or 'nothing'}"
            yield Mismatch(span(entry.value), message, wanted, taken)


def _taken(events: tuple[Event, ...], step: str) -> list[str]:
    judged = [event.payload for event in events if event.name == "next.evaluated" and event.entity_id == step]
    return [arc["to"].strip("()") for payload in judged for arc in payload["arcs"] if arc["taken"]]


def _steps(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        info = done.state.steps.get(entry.name)
        runs = info.runs if info is not None else 0
        status = info.status if info is not None and (runs or info.status != "scheduled") else _NEVER
        got = {"status": status, "runs": runs, "error": info.error if info is not None else None}
        whole = isinstance(entry.value, MapNode)
        yield from mismatches(entry.value, got if whole else status, f"steps.{entry.name}", scopes)


# --- calls and events --------------------------------------------------------------------------------------------------


def calls_of(made: tuple[Made, ...], name: str) -> list[dict[str, Any]]:
    """What a task was called with, by a name as mocks use them."""
    owner, _, rest = name.rpartition(":")
    return [
        one.view
        for one in made
        if one.playbook == owner and rest in (f"{one.step}.{one.task}", one.task, one.task.rpartition(".")[2])
    ]


def _calls(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        made = calls_of(done.calls, entry.name)
        if isinstance(entry.value, ListNode):
            yield from mismatches(entry.value, made, f"calls.{entry.name}", scopes)
            continue
        for one in mismatches(entry.value, len(made), f"calls.{entry.name}", scopes):
            times = "never" if not made else "once" if len(made) == 1 else f"{len(made)} times"
            yield Mismatch(one.at, f"`{entry.name}` was called {times}, not as expected: {shown(one.expected)}",
                           one.expected, one.got)  # fmt: skip


def _events(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    rest = iter(_as_maps(done.events))
    before = "the start"
    for item in node.items if isinstance(node, ListNode) else ():
        if not any(_fits(item, event, scopes) for event in rest):
            near = _nearest(item, done.events, scopes)
            yield Mismatch(span(item), f"no such event after {before}{near}", plain(item))
            return
        before = shown(plain(item))


def _no_events(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    for item in node.items if isinstance(node, ListNode) else ():
        for event in _as_maps(done.events):
            if _fits(item, event, scopes):
                message = f"there is such an event: {event['seq']} {event['name']} of {event['entity_id']}"
                yield Mismatch(span(item), message, None, event)
                break


def _as_maps(events: tuple[Event, ...]) -> Iterator[dict[str, Any]]:
    for event in events:
        yield {name: getattr(event, name) for name in event.__struct_fields__}


def _fits(node: Node, event: dict[str, Any], scopes: _Scopes) -> bool:
    return next(mismatches(node, event, "event", scopes), None) is None


def _nearest(node: Node, events: tuple[Event, ...], scopes: _Scopes) -> str:
    """Of the events of that name, what keeps the nearest from being the one."""
    name = plain(node.get("name")) if isinstance(node, MapNode) else None
    best: list[Mismatch] | None = None
    for event in _as_maps(events):
        if event["name"] == name:
            wrong = list(mismatches(node, event, "event", scopes))
            best = wrong if best is None or len(wrong) < len(best) else best
    if not best:
        return "" if best is not None or name is None else f"; there is no `{name}` at all"
    return f"; of the nearest {best[0].message}"


def _stalled(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.state.stalled, "stalled", scopes)


def _error(node: Node, done: Performance, scopes: _Scopes) -> Iterator[Mismatch]:
    if done.state.error is None and isinstance(node, MapNode):
        yield Mismatch(span(node), "there is no error", plain(node), None)
        return
    yield from mismatches(node, done.state.error, "error", scopes)


_CHECKS: dict[str, _Check] = {
    "output": _output,
    "ctx": _ctx,
    "error": _error,
    "route": _route,
    "arcs": _arcs,
    "steps": _steps,
    "calls": _calls,
    "events": _events,
    "no_events": _no_events,
    "stalled": _stalled,
    "seconds": _seconds,
}
