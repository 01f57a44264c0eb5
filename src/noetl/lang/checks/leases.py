"""Leases of steps: three heartbeats have to fit into each, whichever layers say how long it is and how often they come."""

from __future__ import annotations

from noetl.lang.checks.subject import Subject
from noetl.lang.reading.node import ListNode, MapNode, Node, map_of, text_of
from noetl.model.playbook import LayeredValue, Step
from noetl.model.wire import keeps_lease


def check(subject: Subject) -> None:
    """Report leases that one late heartbeat would end; the grammar has looked at each number by itself."""
    reported: set[int] = set()
    for step in subject.playbook.steps:
        ttl, heartbeat = step.spec.get("lease.ttl_s"), step.spec.get("lease.heartbeat_s")
        if ttl is None or heartbeat is None or not (_is_number(ttl) and _is_number(heartbeat)):
            continue
        if keeps_lease(ttl.value, heartbeat.value):
            continue
        # The inner of two layers is the mistake. Where the executor says both, all steps have the same one.
        inner = ("ttl_s", ttl) if heartbeat.origin != "step.spec" == ttl.origin else ("heartbeat_s", heartbeat)
        node = _find(subject.root, step, *inner)
        if id(node) in reported:
            continue
        if node is not None:
            reported.add(id(node))
        said = "" if heartbeat.origin == ttl.origin else f" of `{heartbeat.origin}`"
        subject.problems.error(
            "wrong-value",
            f"`heartbeat_s: {heartbeat.value:g}`{said} is more than a third of `ttl_s: {ttl.value:g}`",
            (node.start, node.end) if node is not None else step.at,
            fix=f"write `heartbeat_s: {_shown(ttl.value / 3)}` or less, or `ttl_s: {_shown(heartbeat.value * 3)}` or more",
        )


def _is_number(layer: LayeredValue) -> bool:
    return isinstance(layer.value, int | float) and not isinstance(layer.value, bool)


def _shown(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def _find(root: MapNode, step: Step, name: str, layer: LayeredValue) -> Node | None:
    """Where the layer that a value comes from says it; None: the document is a plan, and the executor is not in it."""
    holder: MapNode | None = map_of(root, "executor")
    if layer.origin == "step.spec":
        workflow = root.get("workflow")
        steps = workflow.items if isinstance(workflow, ListNode) else []
        holder = next((one for one in steps if isinstance(one, MapNode) and text_of(one, "step") == step.name), None)
    lease = map_of(map_of(holder, "spec"), "lease")
    return lease.get(name) if lease is not None else None
