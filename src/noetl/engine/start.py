"""A request to the first events: the merged workload, and the first token."""

from __future__ import annotations

from typing import Any

from noetl.engine import endings, routing
from noetl.engine.decision import DecisionBuilder
from noetl.model.output import failure
from noetl.model.requests import OpenExecution
from noetl.model.scope import merge_maps
from noetl.model.state import BEGINNING, Token


def open_execution(builder: DecisionBuilder, request: OpenExecution) -> None:
    """Record a request, and start the workflow unless something forbids it."""
    playbook = builder.net_index.net.playbook
    payload: dict[str, Any] = {
        "workload": merge_maps(playbook.workload, request.payload),
        "playbook": request.playbook,
        "name": playbook.name,
    }
    for key in ("entry_step", "return_step", "parent", "depth", "file", "rerun", "restrict", "calls", "asked"):
        if getattr(request, key):
            payload[key] = getattr(request, key)
    builder.emit("playbook.execution.requested", playbook.path, payload)
    problem = request.problem or _problem(builder, request)
    if problem is not None:
        endings.refuse(builder, problem)
        return
    builder.emit("playbook.request.evaluated", playbook.path, {}, parent=builder.last)
    start = request.entry_step or builder.net_index.net.start
    builder.emit("workflow.started", playbook.path, {"step": start}, parent=builder.last)
    routing.arrive(builder, start, Token(None, BEGINNING))


def _problem(builder: DecisionBuilder, request: OpenExecution) -> dict[str, Any] | None:
    if request.depth > builder.net_index.max_depth:
        limit = builder.net_index.max_depth
        return failure("limit", f"playbooks call each other more than {limit} deep (`limits.max_depth`)")
    for name in (request.entry_step, request.return_step):
        if name is not None and name not in builder.net_index.steps:
            return failure("playbook", f"playbook `{builder.state.path}` has no step `{name}`")
    schema = builder.net_index.net.playbook.metadata.get("schema")
    return None if schema is None else _workload_failure(builder, schema)


def _workload_failure(builder: DecisionBuilder, schema: Any) -> dict[str, Any] | None:
    from noetl.lang import workload_violations

    wrong = workload_violations(builder.state.workload, schema)
    if not wrong:
        return None
    return failure("payload-schema", "; ".join(f"{one.name}: {one.said}" for one in wrong[:10]))
