"""An index of a net: answers that the engine needs again and again, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from noetl.expr import find_result_reads, pipeline_values, selects, task_values
from noetl.model.net import Net, Planner
from noetl.model.playbook import Condition, Step
from noetl.model.state import Execution


class NetIndex:
    """A net, and answers about it."""

    def __init__(self, net: Net, planner: Planner, planned: int = 0) -> None:
        self.net = net
        self.planner = planner
        #: how many plans of the execution are in it
        self.planned = planned
        self.steps = net.steps
        self._ancestors: dict[str, int] = {}
        self._asks_for_quiet: dict[str, bool] = {}
        self._plain_gates: dict[str, tuple[bool, bool] | None] = {}
        self._reads_steps: dict[str, bool] = {}
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
        return NetIndex(net, self.planner, self.planned + count)

    @cached_property
    def bits(self) -> dict[str, int]:
        """A bit for each step: sets of steps are numbers, which are small and quick to compare, however many there are."""
        return {name: 1 << number for number, name in enumerate(self.steps)}

    def set_of(self, names: Iterable[str]) -> int:
        """A set of steps."""
        found = 0
        for name in names:
            found |= self.bits[name]
        return found

    @cached_property
    def _planners(self) -> int:
        """The steps that may make a plan, which may lead anywhere, and all that lead to them."""
        return self._find_ancestors([one.name for one in self.steps.values() if one.router.synthesize is not None])

    def ancestors(self, step: str) -> int:
        """The steps from which a token can still come here."""
        known = self._ancestors.get(step)
        if known is None:
            sources = [incoming.source for incoming in self.net.incoming.get(step, ())]
            known = self._ancestors[step] = self._find_ancestors(sources) | self._planners
        return known

    def _find_ancestors(self, steps: Iterable[str]) -> int:
        """These steps and all that lead to them."""
        found = 0
        waiting = list(steps)
        while waiting:
            step = waiting.pop()
            if found & self.bits[step]:
                continue
            found |= self.bits[step]
            known = self._ancestors.get(step)
            if known is not None:
                found |= known
            else:
                waiting += [incoming.source for incoming in self.net.incoming.get(step, ())]
        return found

    def plain_gate(self, step: Step) -> tuple[bool, bool] | None:
        """Of a gate that asks for nothing but `quiet()`, as most do: whether it admits tokens while others may come, and then."""
        if step.name not in self._plain_gates:
            self._plain_gates[step.name] = _answers(step)
        return self._plain_gates[step.name]

    def asks_for_quiet(self, step: Step) -> bool:
        """Whether a step's rules ask for `quiet()`."""
        known = self._asks_for_quiet.get(step.name)
        if known is None:
            guards = [rule.when for rule in step.admission.rules or () if rule.when is not None]
            known = any(call.name == "quiet" for when in guards for call in when.calls)
            self._asks_for_quiet[step.name] = known
        return known

    def wants_reference(self, step: Step) -> bool:
        """Whether the result of a step is stored whatever its size."""
        known = self._wants_reference.get(step.name)
        if known is None:
            results = self.net.playbook.policy.get("results") or {}
            known = bool(results.get("reference_first")) or selects(step.spec)
            known = known or find_result_reads(step, self.net.playbook).ref_server
            self._wants_reference[step.name] = known
        return known

    def reads_steps(self, step: Step) -> bool:
        """Whether a template of its pipeline reads the state of steps."""
        known = self._reads_steps.get(step.name)
        if known is None:
            values = list(pipeline_values(step))
            values += task_values(step.compensation) if step.compensation is not None else ()
            # The worker evaluates the `input` of a loop over a reference, and what a loop inside of one goes over.
            values.append(step.input if step.loop is not None else None)
            inner = step.loop.inner if step.loop is not None else None
            while inner is not None:
                values.append(inner.items)
                inner = inner.inner
            known = self._reads_steps[step.name] = any(map(_reads_steps, values))
        return known


def _answers(step: Step) -> tuple[bool, bool] | None:
    rules = step.admission.rules
    if rules is None or any(rule.when is not None and not asks_only_quiet(rule.when) for rule in rules):
        return None
    noisy = next((rule.allow for rule in rules if rule.when is None), False)
    return noisy, rules[0].allow if rules else False


def asks_only_quiet(when: Condition) -> bool:
    """Whether a guard is `{{ quiet() }}`."""
    return "".join(when.source.split()) == "{{quiet()}}"


def _reads_steps(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_reads_steps(part) for part in value.values())
    facts = getattr(value, "facts", None)
    return facts is not None and any(read.path[0] == "steps" for read in facts.reads)
