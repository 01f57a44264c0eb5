"""Where a pipeline is to run, and how urgent it is: the `pool` and `priority` of its step's spec."""

from __future__ import annotations

from typing import Any

from noetl.dispatch.entry import DEFAULT_POOL
from noetl.errors import TemplateError
from noetl.expr import render
from noetl.model.net import Net
from noetl.model.orders import RunPipeline


def placement(net: Net, order: RunPipeline) -> tuple[str, int]:
    """The pool and the priority of an order; values that cannot be evaluated count as not given."""
    spec = net.steps[order.step].spec
    if "pool" not in spec and "priority" not in spec:
        return DEFAULT_POOL, 0
    priority = _value(net, order, "priority")
    return str(_value(net, order, "pool") or DEFAULT_POOL), priority if isinstance(priority, int) else 0


def _value(net: Net, order: RunPipeline, name: str) -> Any:
    layer = net.steps[order.step].spec.get(name)
    try:
        return render(layer.value, order.scopes) if layer is not None else None
    except TemplateError:
        return None
