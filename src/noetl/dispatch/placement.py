"""Placement: where a pipeline is to run, how urgent it is, under which lease, and what its worker must understand.

All of it follows from the `spec` of its step and from its order.
"""

from __future__ import annotations

from typing import Any

from noetl.errors import TemplateError
from noetl.expr import render
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.playbook import Step
from noetl.model.state import parse_label
from noetl.model.wire import LONGEST_LEASE_S, SHORTEST_HEARTBEAT_S, SHORTEST_LEASE_S, Lease, keeps_lease

#: the pool of steps that name none
DEFAULT_POOL = "default"


def placement(net: Net, order: RunPipeline) -> tuple[str, int]:
    """The pool and the priority of an order; values that cannot be evaluated count as not given."""
    spec = net.steps[order.step].spec
    if "pool" not in spec and "priority" not in spec:
        return DEFAULT_POOL, 0
    priority = _value(net, order, "priority")
    return str(_value(net, order, "pool") or DEFAULT_POOL), priority if isinstance(priority, int) else 0


def group_of(net: Net, order: RunPipeline) -> tuple[str | int, ...] | None:
    """The group of pipelines that stay with one worker: those of the execution, or of a loop with `exec: local`."""
    if net.playbook.executor.get("profile") == "local":
        return ()
    loop, path = net.steps[order.step].loop, parse_label(order.iteration)
    for level in range(len(path)):
        if loop is None:
            return None
        if loop.exec == "local":
            return (order.step_run_id, *path[:level])
        loop = loop.inner
    return None


def _value(net: Net, order: RunPipeline, name: str) -> Any:
    layer = net.steps[order.step].spec.get(name)
    try:
        return render(layer.value, order.scopes) if layer is not None else None
    except TemplateError:
        return None


def lease_of(step: Step) -> Lease | None:
    """The lease of a step's pipelines; None: the cluster's.

    The values were checked when the playbook was loaded. An execution that an earlier version started was not checked.
    """
    if "lease.ttl_s" not in step.spec:
        return None
    ttl, heartbeat = step.spec["lease.ttl_s"].value, step.spec.get("lease.heartbeat_s")
    if not _is_within(ttl, SHORTEST_LEASE_S, LONGEST_LEASE_S):
        return None
    often = heartbeat.value if heartbeat is not None else ttl / 3
    if not _is_within(often, SHORTEST_HEARTBEAT_S, LONGEST_LEASE_S) or not keeps_lease(ttl, often):
        return None
    return Lease(float(ttl), float(often))


def _is_within(found: Any, least: float, most: float) -> bool:
    return not isinstance(found, bool) and isinstance(found, int | float) and least <= found <= most


def protocol_of(step: Step, order: RunPipeline) -> int:
    """The `PROTOCOL` that a worker must declare to be given an order.

    A worker that does not know a field of an order ignores it. It would run a step again instead of its compensation, leave
    out the tasks around a body, or send heartbeats too rarely for a lease.
    """
    declares = order.undoes or order.closing is not None or order.unfolds or "lease.ttl_s" in step.spec
    return 1 if declares or step.before or step.after or step.cleanup else 0
