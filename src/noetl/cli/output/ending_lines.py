"""Runs that went nowhere: tokens that were left at a step, steps whose arcs did not match, steps that never ran."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from noetl.cli.output.printing import count

if TYPE_CHECKING:
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog

#: names in a line
_MOST = 8


def describe_dead_ends(stalled: Collection[str], unmatched: Collection[str]) -> str:
    """`stalled at a; no arc matched at b`; empty: neither happened."""
    parts = [("stalled at", stalled), ("no arc matched at", unmatched)]
    return "; ".join(f"{what} {_list_names(names)}" for what, names in parts if names)


def _list_names(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MOST])
    return shown if len(names) <= _MOST else f"{shown} and {len(names) - _MOST:,} more"


def dead_end_lines(log: EventLog, state: Execution, net: Net | None) -> Iterator[str]:
    """A line for each step at which tokens were left or whose arcs did not match."""
    yield from _stall_lines(log, state, net)
    yield from _unmatched_lines(state, net)


def never_ran_line(state: Execution, net: Net | None) -> str:
    """The steps that a run which went nowhere did not reach, in a line; empty: it reached its end, or failed."""
    odd = state.status == "completed" and (state.stalled or state.unmatched)
    never = find_unreached_steps(state, net) if odd else []
    return f"never ran: {_list_names(never)}" if never else ""


def find_unreached_steps(state: Execution, net: Net | None) -> list[str]:
    """The steps of a playbook that no token has come to, in its order."""
    return [name for name in net.steps if name not in state.steps] if net is not None else []


def _unmatched_lines(state: Execution, net: Net | None) -> Iterator[str]:
    for name, times in list(state.unmatched.items())[:_MOST]:
        step = net.steps.get(name) if net is not None else None
        arcs = "its arcs" if step is None else f"its {count(len(step.router.arcs), 'arc')}"
        how = f"none of {arcs} matched" if step is None or len(step.router.arcs) > 1 else "its only arc did not match"
        often = f" ({times} times)" if times > 1 else ""
        yield f"{name} ended well and {how}{often}; `noetl why {state.execution_id} {name}` says more"


def _stall_lines(log: EventLog, state: Execution, net: Net | None) -> Iterator[str]:
    """A line for each step at which tokens were left."""
    # That tokens are dropped is the last that is recorded before an execution is over, unless compensations or a last step follow.
    after = 0 if state.ending else max(0, state.seq - len(state.stalled) - 2)
    ends = log.read(state.execution_id, after=after) if state.stalled else ()
    held = {one.entity_id: one.payload.get("held") for one in ends if one.payload.get("why") == "stalled"}
    for name in state.stalled[:_MOST]:
        waited = _describe_wait(state, net, name, held.get(name) or [])
        how = "did not run again" if state.steps[name].runs else "never ran"
        yield f"{name} {how}: {waited}; `noetl why {state.execution_id} {name}` says more"


def _describe_wait(state: Execution, net: Net | None, name: str, came: list[str | None]) -> str:
    from noetl.history import describe_standing

    sources = dict.fromkeys(source or "the start" for source in came)
    token = f"a token came from {', '.join(sources)}" if sources else "a token came"
    step = net.steps.get(name) if net is not None else None
    join = step.admission.join if step is not None else None
    missing = [one for one in join.places if one not in sources] if join is not None else []
    if missing:
        return f"{token}, none from {', '.join(f'{one} ({describe_standing(state, one)})' for one in missing)}"
    return f"{token}, and was never let in"
