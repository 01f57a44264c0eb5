"""Plans: a step that ended well may ask for new steps. They are judged before its end is recorded, and are part of it."""

from __future__ import annotations

from typing import Any

from noetl.engine.turn import Turn
from noetl.errors import TemplateError
from noetl.expr.assign import failure_of
from noetl.model.plans import Plan
from noetl.model.playbook import Step


def plan_of(turn: Turn, step: Step, sight: dict[str, Any]) -> Plan | None:
    """What a step that ended well plans; None: it does not, or nothing new may start any more."""
    wish = step.router.synthesize
    if wish is None or turn.state.failure is not None or turn.state.terminated is not None:
        return None
    try:
        found = wish.plan.evaluate(sight)
    except TemplateError as error:
        return Plan(turn.outlook.net, error=failure_of(error))
    return turn.outlook.planner.plan(turn.outlook.net, step.name, wish, found)


def record(turn: Turn, step: Step, run: str, plan: Plan) -> None:
    """Make the planned steps part of the execution; an empty plan leaves it to the arcs."""
    if plan.steps:
        payload = {"step": step.name, "steps": list(plan.steps)}
        event = turn.emit("workflow.synthesized", turn.state.path, payload, parent=turn.last, run=run)
        # What is told again is what was recorded, whatever a clock in the plan would say today.
        same = event.payload["steps"] == payload["steps"]
        turn.outlook = turn.outlook.with_plans(plan.net) if same else turn.outlook.of(turn.state)
