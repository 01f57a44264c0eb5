"""Steps that tokens came to and that never ran: what came, and what they waited for until the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.model.net import Net
    from noetl.model.state import Execution
    from noetl.ports import EventLog


def stall_lines(log: EventLog, state: Execution, net: Net | None) -> Iterator[str]:
    """A line for each step at which tokens were left."""
    # That tokens are dropped is the last that is recorded before an execution is said to be over.
    ends = log.read(state.execution_id, after=max(0, state.seq - len(state.stalled) - 2))
    held = {one.entity_id: one.payload.get("held") for one in ends if one.payload.get("why") == "stalled"}
    for name in state.stalled:
        waited = _waited(state, net, name, held.get(name) or [])
        how = "did not run again" if state.steps[name].runs else "never ran"
        yield f"{name} {how}: {waited}; `noetl why {state.execution_id} {name}` says more"


def _waited(state: Execution, net: Net | None, name: str, came: list[str | None]) -> str:
    from noetl.server.why import standing

    sources = dict.fromkeys(source or "the start" for source in came)
    token = f"a token came from {', '.join(sources)}" if sources else "a token came"
    step = net.steps.get(name) if net is not None else None
    join = step.admission.join if step is not None else None
    missing = [one for one in join.places if one not in sources] if join is not None else []
    if missing:
        return f"{token}, none from {', '.join(f'{one} ({standing(state, one)})' for one in missing)}"
    return f"{token}, and was never let in"
