"""A request to the first events: the merged workload, and the first token."""

from __future__ import annotations

from typing import Any

from noetl.engine import ending, routing
from noetl.engine.turn import Turn
from noetl.model.output import failure
from noetl.model.requests import Open
from noetl.model.scope import merged
from noetl.model.state import BEGINNING, Token


def open_execution(turn: Turn, request: Open) -> None:
    """Record a request, and start the workflow unless something forbids it."""
    playbook = turn.outlook.net.playbook
    payload: dict[str, Any] = {
        "workload": merged(playbook.workload, request.payload),
        "playbook": request.playbook,
        "name": playbook.name,
    }
    for key in ("entry_step", "return_step", "parent", "depth", "file", "rerun", "restrict", "calls", "asked"):
        if getattr(request, key):
            payload[key] = getattr(request, key)
    turn.emit("playbook.execution.requested", playbook.path, payload)
    problem = request.problem or _problem(turn, request)
    if problem is not None:
        ending.refuse(turn, problem)
        return
    turn.emit("playbook.request.evaluated", playbook.path, {}, parent=turn.last)
    start = request.entry_step or turn.outlook.net.start
    turn.emit("workflow.started", playbook.path, {"step": start}, parent=turn.last)
    routing.arrive(turn, start, Token(None, BEGINNING))


def _problem(turn: Turn, request: Open) -> dict[str, Any] | None:
    if request.depth > turn.outlook.max_depth:
        limit = turn.outlook.max_depth
        return failure("limit", f"playbooks call each other more than {limit} deep (`limits.max_depth`)")
    for name in (request.entry_step, request.return_step):
        if name is not None and name not in turn.outlook.steps:
            return failure("playbook", f"playbook `{turn.state.path}` has no step `{name}`")
    schema = turn.outlook.net.playbook.metadata.get("schema")
    return None if schema is None else _misfit(turn, schema)


def _misfit(turn: Turn, schema: Any) -> dict[str, Any] | None:
    from noetl.lang.workload import misfits

    wrong = misfits(turn.state.workload, schema)
    if not wrong:
        return None
    return failure("payload-schema", "; ".join(f"{one.name}: {one.said}" for one in wrong[:10]))
