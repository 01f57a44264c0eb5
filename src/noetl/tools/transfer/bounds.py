"""What a transfer must not reach: known before it begins, by the kinds of its ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.model.output import Failure, failure
from noetl.tools.confine.bounds import bounds_of
from noetl.tools.transfer import REMOTE
from noetl.tools.transfer.plan import Plan


def unreachable(spec: Mapping[str, Any], plan: Plan) -> Failure | None:
    """Why a transfer with this spec is not begun: an end of it lies where it must not go. None: there is no such end.

    Requests are made by the engine, which knows the hosts that it may call. Everything else connects from a process
    whose kernel does not tell hosts apart.
    """
    if bounds_of(spec).network:
        return None
    key = _key(spec)
    by_host = "allow_hosts" in spec and key == "`allow_hosts`"
    ends = {"the source": plan.source, **{f"target {at}": one for at, one in enumerate(plan.targets, 1)}}
    for name, end in ends.items():
        if end["kind"] in REMOTE and not (by_host and end["kind"] == "http"):
            said = f"{key} cannot be kept: {name} of the transfer ({end['kind']}) needs a network; the task was not run"
            return failure("isolation", said)
    return None


def _key(spec: Mapping[str, Any]) -> str:
    """What forbids the network."""
    if spec.get("network") == "off":
        return "`network: off`"
    if spec.get("isolation") == "strict" and spec.get("network") != "on":
        return "`isolation: strict` without `network: on`"
    return "`allow_hosts`"
