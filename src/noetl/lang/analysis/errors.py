"""Unhandled errors: a task with rules of which none may match an error, so that the pipeline continues after it.

Whether a condition covers an error is found by asking it: each rule is evaluated over a handful of made-up errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.errors import TemplateError
from noetl.lang.checks.subject import all_tasks
from noetl.model.diagnostics import Diagnostics
from noetl.model.net import Net
from noetl.model.playbook import Rule, Task

#: not `else`, which would fail what went well too
_WAY_OUT = (
    "write `on_unmatched: fail` beside `rules`, or end them with "
    "`- {when: \"{{ output.status == 'error' }}\", then: {do: fail}}`"
)
_STATUSES = (None, 400, 404, 418, 429, 500, 503, 599)


def analyze(net: Net, problems: Diagnostics) -> None:
    """Report tasks whose rules let an error pass unseen."""
    #: what the same conditions said before: playbooks repeat their rules
    known: dict[tuple[str, ...], bool] = {}
    for _step, task in all_tasks(net.playbook):
        policy = task.policy
        if not _can_fail(task) or policy is None or policy.on_unmatched != "continue":
            continue
        conditions = tuple("" if rule.when is None else rule.when.source for rule in policy.rules)
        if conditions not in known:
            known[conditions] = covers_errors(policy.rules)
        if not known[conditions]:
            problems.warning(
                "unhandled-error",
                f"an error of task `{task.name}` that no rule matches is passed over",
                policy.rules[0].at if policy.rules else task.at,
                fix=_WAY_OUT,
            )


def covers_errors(rules: tuple[Rule, ...]) -> bool:
    """Whether one of the rules matches, whatever the error."""
    return all(_is_covered(rules, error) for error in _ERRORS)


def _can_fail(task: Task) -> bool:
    return task.kind != "noop"


def _probe(status: int | None, *, retryable: bool) -> dict[str, Any]:
    output: dict[str, Any] = {
        "status": "error",
        "data": None,
        "ref": None,
        "error": {"kind": "made-up", "message": "made up", "retryable": retryable},
        "meta": {"attempt": 1_000_000, "duration_ms": 1},
    }
    if status is not None:
        output["http"] = {"status": status, "headers": {}}
    return {"output": output, "_attempt": 1_000_000, "ctx": {}, "step": {}, "iter": {}, "input": {}, "workload": {}}


_ERRORS = tuple(_probe(status, retryable=retryable) for status in _STATUSES for retryable in (False, True))


def _is_covered(rules: tuple[Rule, ...], error: Mapping[str, Any]) -> bool:
    for rule in rules:
        if rule.when is None:
            return True
        try:
            if rule.when.evaluate(error):
                return True
        except TemplateError:
            return True  # an error in a condition fails the task, which is no slipping through
    return False
