"""The expectations of a case, checked one by one when its run is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from noetl.errors import TemplateError
from noetl.expr import guard, template
from noetl.lang import ListNode, MapEntry, MapNode, Node, Scalar, is_template, plain_value, span
from noetl.model.events import Event
from noetl.testing.case_runner import CaseOutcome
from noetl.testing.mocked_tools import ObservedCall

# What is expected held against what is there: maps by the keys that are named, lists item by item, conditions over `it`.
#
# The expectation comes as nodes, so that every mismatch knows where in the test file it was expected.


_MOST = 300


class _NoValue:
    """Nothing at all, which is not the same as null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _NoValue()


class Mismatch(msgspec.Struct, frozen=True):
    """Something that is not as expected."""

    #: where it was expected: offsets into the test file
    at: tuple[int, int]
    message: str
    expected: Any = None
    got: Any = None


def mismatches(node: Node, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Where a value is not what a node expects; `name` is how messages call the value."""
    if isinstance(node, Scalar) and is_template(node.value):
        yield from _by_template(node, got, name, scopes)
    elif got is ABSENT:
        yield Mismatch(span(node), f"`{name}` is not there", plain_value(node))
    elif isinstance(node, MapNode):
        yield from _map(node, got, name, scopes)
    elif isinstance(node, ListNode):
        yield from _list(node, got, name, scopes)
    elif not same(node.value, got):
        yield Mismatch(span(node), f"`{name}` is {render_value(got)}, not {render_value(node.value)}", node.value, got)


def _map(node: MapNode, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    if not isinstance(got, Mapping):
        yield Mismatch(span(node), f"`{name}` is {render_value(got)}, not a map", plain_value(node), got)
        return
    for entry in node.entries:
        yield from mismatches(entry.value, got.get(entry.name, ABSENT), f"{name}.{entry.name}", scopes)


def _list(node: ListNode, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    if not isinstance(got, list | tuple):
        yield Mismatch(span(node), f"`{name}` is {render_value(got)}, not a list", plain_value(node), got)
        return
    if len(got) != len(node.items):
        message = f"`{name}` has {_items(len(got))}, not {len(node.items)}: {render_value(got)}"
        yield Mismatch(span(node), message, plain_value(node), list(got))
        return
    for index, (item, value) in enumerate(zip(node.items, got, strict=True)):
        yield from mismatches(item, value, f"{name}[{index}]", scopes)


def _by_template(node: Scalar, got: Any, name: str, scopes: Mapping[str, Any]) -> Iterator[Mismatch]:
    """A condition over `it`, or a value to be equal to."""
    made = template(node.value)
    seen = dict(scopes) if got is ABSENT else {**scopes, "it": got}
    try:
        if made.is_expression and any(read.path[0] == "it" for read in made.facts.reads):
            if not guard(node.text).evaluate(seen):
                yield Mismatch(
                    span(node), f"`{name}` is {render_value(got)}: {node.text} does not hold", node.text, got
                )
            return
        expected = made.evaluate(seen)
    except TemplateError as error:
        yield Mismatch(span(node), f"`{name}` is {render_value(got)}, and cannot be judged: {error}", node.text, got)
        return
    if not same(expected, got):
        yield Mismatch(span(node), f"`{name}` is {render_value(got)}, not {render_value(expected)}", expected, got)


def same(expected: Any, got: Any) -> bool:
    """Whether two values are equal as JSON: `true` is not 1, and 1.0 is."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return expected.keys() == got.keys() and all(same(expected[key], got[key]) for key in expected)
    return bool(expected == got)


def render_value(value: Any) -> str:
    """A value in a message."""
    if value is ABSENT:
        return "not there"
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _items(number: int) -> str:
    return "no item" if number == 0 else "1 item" if number == 1 else f"{number} items"


_NEVER = "never ran"


def find_mismatches(expect: MapNode | None, name_at: tuple[int, int], done: CaseOutcome) -> list[Mismatch]:
    """What is not as expected, in the order of the file."""
    found = list(_check_status(expect, name_at, done))
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


def _check_status(expect: MapNode | None, name_at: tuple[int, int], done: CaseOutcome) -> Iterator[Mismatch]:
    """How the run ended."""
    said = expect.get("status") if expect is not None else None
    error = expect.entry("error") if expect is not None else None
    wanted = said.text if isinstance(said, Scalar) else _default_status(error)
    got = done.state.status
    if got == wanted or wanted is None:
        return
    at = span(said) if said is not None else span(error.key) if error is not None else name_at
    why = ""
    if done.state.error is not None and wanted == "completed":
        why = f": {done.state.error.get('kind')}: {done.state.error.get('message')}"
    yield Mismatch(at, f"the run {got}, and should have {wanted}{why}", wanted, got)


def _default_status(error: MapEntry | None) -> str | None:
    """A case that says nothing of it expects the run to complete; one that expects an error, to fail; a condition decides."""
    if error is None or plain_value(error.value) is None:
        return "completed"
    return "failed" if isinstance(error.value, MapNode) else None


# --- values ----------------------------------------------------------------------------------------------------------

_Scopes = Mapping[str, Any]
_Check = Callable[[Node, CaseOutcome, _Scopes], Iterator[Mismatch]]


def _check_output(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.output, "output", scopes)


def _check_ctx(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.state.ctx, "ctx", scopes)


def _check_seconds(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.seconds, "seconds", scopes)


# --- where the tokens went ---------------------------------------------------------------------------------------------


def _check_route(node: Node, done: CaseOutcome, _scopes: _Scopes) -> Iterator[Mismatch]:
    went = [event.entity_id for event in done.events if event.name == "step.scheduled"]
    rest = list(went)
    told = " → ".join(went) or "nowhere"
    for item in node.items if isinstance(node, ListNode) else ():
        group = [str(name) for name in plain_value(item)] if isinstance(item, ListNode) else [str(plain_value(item))]
        came, rest = rest[: len(group)], rest[len(group) :]
        if sorted(came) != sorted(group):
            wanted = group[0] if len(group) == 1 else f"{' and '.join(group)}, in any order"
            instead = " and ".join(came) or "nothing more"
            yield Mismatch(span(item), f"expected {wanted}, and there came {instead}: {told}", plain_value(node), went)
            return
    if rest:
        yield Mismatch(span(node), f"the route goes on with {' → '.join(rest)}: {told}", plain_value(node), went)


def _check_arcs(node: Node, done: CaseOutcome, _scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        taken = _arc_targets(done.events, entry.name)
        said = plain_value(entry.value)
        wanted = said if isinstance(said, list) else [said]
        if taken != wanted:
            went = ", ".join(taken) or "nowhere"
            message = f"the tokens of `{entry.name}` went {'to ' * bool(taken)}{went}, not to {', '.join(wanted) or 'nothing'}"
            yield Mismatch(span(entry.value), message, wanted, taken)


def _arc_targets(events: tuple[Event, ...], step: str) -> list[str]:
    judged = [event.payload for event in events if event.name == "next.evaluated" and event.entity_id == step]
    return [arc["to"].strip("()") for payload in judged for arc in payload["arcs"] if arc["taken"]]


def _check_steps(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        info = done.state.steps.get(entry.name)
        runs = info.runs if info is not None else 0
        status = info.status if info is not None and (runs or info.status != "scheduled") else _NEVER
        got = {"status": status, "runs": runs, "error": info.error if info is not None else None}
        whole = isinstance(entry.value, MapNode)
        yield from mismatches(entry.value, got if whole else status, f"steps.{entry.name}", scopes)


# --- calls and events --------------------------------------------------------------------------------------------------


def calls_of(made: tuple[ObservedCall, ...], name: str) -> list[dict[str, Any]]:
    """What a task was called with, by a name as mocks use them."""
    owner, _, rest = name.rpartition(":")
    return [
        one.view
        for one in made
        if one.playbook == owner and rest in (f"{one.step}.{one.task}", one.task, one.task.rpartition(".")[2])
    ]


def _check_calls(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    for entry in node.entries if isinstance(node, MapNode) else ():
        made = calls_of(done.calls, entry.name)
        if isinstance(entry.value, ListNode):
            yield from mismatches(entry.value, made, f"calls.{entry.name}", scopes)
            continue
        for one in mismatches(entry.value, len(made), f"calls.{entry.name}", scopes):
            times = "never" if not made else "once" if len(made) == 1 else f"{len(made)} times"
            yield Mismatch(one.at, f"`{entry.name}` was called {times}, not as expected: {render_value(one.expected)}",
                           one.expected, one.got)  # fmt: skip


def _check_events(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    rest = iter(_as_maps(done.events))
    before = "the start"
    for item in node.items if isinstance(node, ListNode) else ():
        if not any(_fits(item, event, scopes) for event in rest):
            near = _nearest(item, done.events, scopes)
            yield Mismatch(span(item), f"no such event after {before}{near}", plain_value(item))
            return
        before = render_value(plain_value(item))


def _check_no_events(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
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
    name = plain_value(node.get("name")) if isinstance(node, MapNode) else None
    best: list[Mismatch] | None = None
    for event in _as_maps(events):
        if event["name"] == name:
            wrong = list(mismatches(node, event, "event", scopes))
            best = wrong if best is None or len(wrong) < len(best) else best
    if not best:
        return "" if best is not None or name is None else f"; there is no `{name}` at all"
    return f"; of the nearest {best[0].message}"


def _check_stalled(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, done.state.stalled, "stalled", scopes)


def _check_unmatched(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    yield from mismatches(node, list(done.state.unmatched), "unmatched", scopes)


def _check_error(node: Node, done: CaseOutcome, scopes: _Scopes) -> Iterator[Mismatch]:
    if done.state.error is None and isinstance(node, MapNode):
        yield Mismatch(span(node), "there is no error", plain_value(node), None)
        return
    yield from mismatches(node, done.state.error, "error", scopes)


_CHECKS: dict[str, _Check] = {
    "output": _check_output,
    "ctx": _check_ctx,
    "error": _check_error,
    "route": _check_route,
    "arcs": _check_arcs,
    "steps": _check_steps,
    "calls": _check_calls,
    "events": _check_events,
    "no_events": _check_no_events,
    "stalled": _check_stalled,
    "unmatched": _check_unmatched,
    "seconds": _check_seconds,
}
