"""Net: the playbook as a graph, the compiled form the engines run and the analysis asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from noetl.model.output import Failure
from noetl.model.playbook import Arc, Playbook, Step, Synthesis


class Incoming(msgspec.Struct, frozen=True):
    """An arc, seen from the step it leads to."""

    source: str
    arc: Arc


class Net(msgspec.Struct, frozen=True):
    """Steps by name, where each leads and who leads to it."""

    playbook: Playbook
    #: the first step to run
    start: str
    #: in the order of the document
    steps: Mapping[str, Step]
    incoming: Mapping[str, tuple[Incoming, ...]]
    #: of an execution: the steps that planned others, each with the first of its plan
    plans: tuple[tuple[str, str], ...] = ()


# Plans: steps that a running execution asks for, and who judges them.


class PlanResult(msgspec.Struct, frozen=True):
    """What became of a plan: the net with its steps, or the error that keeps all of it from running."""

    net: Net
    #: the steps in the canonical language, as they are recorded
    steps: tuple[dict[str, Any], ...] = ()
    error: Failure | None = None


class Planner(Protocol):
    """Who knows the language. Pure: the same plan for the same net is judged the same way."""

    def plan(self, net: Net, step: str, wish: Synthesis, found: Any) -> PlanResult:
        """Judge what a step asks for, as a playbook is judged, with the names of the net in scope."""

    def extend_net(self, net: Net, plans: Sequence[dict[str, Any]]) -> Net:
        """The net with plans that were judged before, as they were recorded. NoetlError: they can no longer be read."""
