"""Fork: the log of an execution that begins as another one did, up to some event, and then goes its own way. Pure.

What is kept says what it said, under the new execution's id. A child that was running at that point gets a new id, so
that it is started anew; one that had ended stays the result it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.engine import ForkMark, NetIndex, apply, is_cause, replay_decision
from noetl.errors import NoetlError
from noetl.history.compatibility import LogMismatch, misfits
from noetl.model.events import Event, epoch_seconds, event_id
from noetl.model.net import Net, Planner
from noetl.model.scope import map_difference, merge_maps
from noetl.model.state import Execution


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
