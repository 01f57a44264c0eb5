"""The first rule that matches an output, as a directive with its numbers."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.errors import TemplateError
from noetl.expr.assign import render
from noetl.model.playbook import Directive, Task

_CONTINUE, _FAIL = Directive(do="continue"), Directive(do="fail")


class Chosen(msgspec.Struct, frozen=True):
    """A directive and where it came from."""

    directive: Directive
    #: the number of the rule, from 0; None: no rule matched
    rule: int | None


def choose(task: Task, scopes: dict[str, Any], *, good: bool) -> Chosen:
    """What a task's policy says to the output in the scopes."""
    if task.policy is None:
        return Chosen(_CONTINUE if good else _FAIL, None)
    for number, rule in enumerate(task.policy.rules):
        if rule.when is None or rule.when.evaluate(scopes):
            return Chosen(rule.then, number)
    return Chosen(_FAIL if not good and task.policy.on_unmatched == "fail" else _CONTINUE, None)


def number(value: Any, scopes: dict[str, Any], what: str) -> float:
    """A number of a directive, which may be a template."""
    found = render(value, scopes)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TemplateError(f"`{what}` must be a number, not {found!r}")
    return float(found)
