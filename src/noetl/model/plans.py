"""Plans: steps that a running execution asks for, and who judges them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from noetl.model.net import Net
from noetl.model.output import Failure
from noetl.model.playbook import Synthesis


class Plan(msgspec.Struct, frozen=True):
    """What became of a plan: the net with its steps, or the error that keeps all of it from running."""

    net: Net
    #: the steps in the canonical language, as they are recorded
    steps: tuple[dict[str, Any], ...] = ()
    error: Failure | None = None


class Planner(Protocol):
    """Who knows the language. Pure: the same plan for the same net is judged the same way."""

    def plan(self, net: Net, step: str, wish: Synthesis, found: Any) -> Plan:
        """Judge what a step asks for, as a playbook is judged, with the names of the net in scope."""

    def grown(self, net: Net, plans: Sequence[dict[str, Any]]) -> Net:
        """The net with plans that were judged before, as they were recorded. NoetlError: they can no longer be read."""
