"""A request to the first events: the merged workload, and the first token."""

from __future__ import annotations

from typing import Any

from noetl.engine import endings, routing
from noetl.engine.decision import DecisionBuilder
from noetl.model.output import failure
from noetl.model.requests import OpenExecution
from noetl.model.scope import merge_maps
from noetl.model.state import BEGINNING, Token


def open_execution(turn: DecisionBuilder, request: OpenExecution) -> None:
    """Record a request, and start the workflow unless something forbids it."""
    playbook = turn.net_index.net.playbook
    payload: dict[str, Any] = {
        "workload": merge_maps(playbook.workload, request.payload),
        "playbook": request.playbook,
        "name": playbook.name,
    }
    for key in ("entry_step", "return_step", "parent", "depth", "file", "rerun", "restrict", "calls", "asked"):
        if getattr(request, key):
            payload[key] = getattr(request, key)
    turn.emit("playbook.execution.requested", playbook.path, payload)
    problem = request.problem or _problem(turn, request)
    if problem is not None:
        endings.refuse(turn, problem)
        return
    turn.emit("playbook.request.evaluated", playbook.path, {}, parent=turn.last)
    start = request.entry_step or turn.net_index.net.start
    turn.emit("workflow.started", playbook.path, {"step": start}, parent=turn.last)
    routing.arrive(turn, start, Token(None, BEGINNING))


def _problem(turn: DecisionBuilder, request: OpenExecution) -> dict[str, Any] | None:
    if request.depth > turn.net_index.max_depth:
        limit = turn.net_index.max_depth
        return failure("limit", f"playbooks call each other more than {limit} deep (`limits.max_depth`)")
    for name in (request.entry_step, request.return_step):
        if name is not None and name not in turn.net_index.steps:
            return failure("playbook", f"playbook `{turn.state.path}` has no step `{name}`")
    schema = turn.net_index.net.playbook.metadata.get("schema")
    return None if schema is None else _workload_failure(turn, schema)


def _workload_failure(turn: DecisionBuilder, schema: Any) -> dict[str, Any] | None:
    from noetl.lang import workload_violations

    wrong = workload_violations(turn.state.workload, schema)
    if not wrong:
        return None
    return failure("payload-schema", "; ".join(f"{one.name}: {one.said}" for one in wrong[:10]))
