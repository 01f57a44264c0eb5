"""An index of a net: answers that the engine needs again and again, computed once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from noetl.engine.gates import GateIndex, GateWatch
from noetl.expr import find_result_reads, may_read_scopes, pipeline_values, selects, task_values
from noetl.model.net import Net, Planner
from noetl.model.playbook import Step
from noetl.model.state import Execution


class NetIndex:
    """A net, and answers about it."""

    def __init__(self, net: Net, planner: Planner, planned: int = 0) -> None:
        self.net = net
        self.planner = planner
        #: how many plans of the execution are in it
        self.planned = planned
        self.steps = net.steps
        #: of an execution whose gates have been asked: what they wait for
        self.gate_watch: GateWatch | None = None
        self._steps_read: dict[str, frozenset[str] | None] = {}
        self._wants_reference: dict[str, bool] = {}
        #: whether the end of an execution waits for more than its steps: runs may have to be undone, or a last step runs
        self.has_afterwork = net.playbook.final_step is not None or any(
            step.compensation is not None for step in net.steps.values()
        )
        limits = net.playbook.limits
        self.max_steps: int = limits.get("max_steps", 100_000)
        self.max_depth: int = limits.get("max_depth", 32)
        self.max_payload = net.playbook.max_payload
        #: v10: some template reads what tokens carry
        self.reads_args = net.playbook.reads_args

    def of(self, state: Execution) -> NetIndex:
        """The index of an execution: its playbook's, with the steps that were planned since."""
        news = state.synthesized[self.planned :]
        return self.with_plans(self.planner.extend_net(self.net, news), len(news)) if news else self

    def with_plans(self, net: Net, count: int = 1) -> NetIndex:
        """The same with so many plans more."""
        return type(self)(net, self.planner, self.planned + count)

    def watch_gates(self, state: Execution, arriving: dict[str, int], before: GateWatch | None) -> GateWatch:
        """What the gates of an execution wait for, as it stands; `before`: the same, before its net grew."""
        return GateWatch(self.gate_index, state, arriving, before)

    def with_gates(self, gates: GateWatch | None) -> NetIndex:
        """The index for one execution, with what its gates wait for."""
        if gates is self.gate_watch:
            return self
        made = copy.copy(self)
        made.gate_watch = gates
        return made

    @cached_property
    def gate_index(self) -> GateIndex:
        """What the gates of the net read."""
        return GateIndex(self.net)

    def wants_reference(self, step: Step) -> bool:
        """Whether the result of a step is stored whatever its size."""
        known = self._wants_reference.get(step.name)
        if known is None:
            results = self.net.playbook.policy.get("results") or {}
            known = bool(results.get("reference_first")) or selects(step.spec)
            known = known or find_result_reads(step, self.net.playbook).ref_server
            self._wants_reference[step.name] = known
        return known

    def steps_read(self, step: Step) -> frozenset[str] | None:
        """The steps whose status the templates of a step's pipeline read; None: they may read that of any."""
        if step.name not in self._steps_read:
            values = list(pipeline_values(step))
            values += task_values(step.compensation) if step.compensation is not None else ()
            # The worker evaluates the `input` of a loop over a reference, and what a loop inside of one goes over.
            values.append(step.input if step.loop is not None else None)
            inner = step.loop.inner if step.loop is not None else None
            while inner is not None:
                values.append(inner.items)
                inner = inner.inner
            found = {name for value in values for name in _steps_read(value)}
            tasks = (*step.pipeline, *((step.compensation,) if step.compensation is not None else ()))
            # A program that is given the scopes sees as much of the steps as the templates beside it.
            any_step = "" in found or (bool(found) and any(map(may_read_scopes, tasks)))
            self._steps_read[step.name] = None if any_step else frozenset(found)
        return self._steps_read[step.name]


def _steps_read(value: Any) -> Iterator[str]:
    """The steps whose status a value reads; empty: that of a step whose name is computed."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _steps_read(part)
        return
    facts = getattr(value, "facts", None)
    for read in facts.reads if facts is not None else ():
        if read.path[0] == "steps":
            yield read.path[1] if len(read.path) > 1 else ""
