"""Outlook: what the engine wants to know of a net again and again, worked out once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.model.net import Net
from noetl.model.playbook import Step


class Outlook:
    """A net, and answers about it."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.steps = net.steps
        self._leading: dict[str, frozenset[str]] = {}
        self._reads_steps: dict[str, bool] = {}
        limits = net.playbook.executor.get("spec", {}).get("policy", {}).get("limits", {}) or {}
        self.max_steps: int = limits.get("max_steps", 100_000)
        self.max_depth: int = limits.get("max_depth", 32)

    def leading_to(self, step: str) -> frozenset[str]:
        """The steps from which a token can still come here."""
        known = self._leading.get(step)
        if known is None:
            found: set[str] = set()
            waiting = [step]
            while waiting:
                for incoming in self.net.incoming.get(waiting.pop(), ()):
                    if incoming.source not in found:
                        found.add(incoming.source)
                        waiting.append(incoming.source)
            known = self._leading[step] = frozenset(found)
        return known

    def reads_steps(self, step: Step) -> bool:
        """Whether a template of its pipeline reads the state of steps."""
        known = self._reads_steps.get(step.name)
        if known is None:
            known = self._reads_steps[step.name] = any(_reads_steps(value) for value in _pipeline_values(step))
        return known


def _pipeline_values(step: Step) -> Iterator[Any]:
    """Everything that a worker evaluates."""
    yield step.output
    loop = step.loop
    while loop is not None:
        yield loop.until
        loop = loop.inner
    for task in step.tasks:
        yield task.config
        yield task.input
        yield task.output
        yield from (one.value for one in task.set)
        yield from (layered.value for layered in task.spec.values())
        for rule in task.policy.rules if task.policy is not None else ():
            yield rule.when
            then = rule.then
            yield from (then.attempts, then.delay, then.max_delay, then.message)
            yield from (one.value for one in then.set)


def _reads_steps(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_reads_steps(part) for part in value.values())
    facts = getattr(value, "facts", None)
    return facts is not None and any(read.path[0] == "steps" for read in facts.reads)
