"""Where tokens can go: unreachable steps, arcs that are never taken, joins that can never fire, cycles without an exit."""

from __future__ import annotations

from noetl.lang.analysis import joins
from noetl.model.diagnostics import Diagnostics
from noetl.model.graph import find_components, find_reachable
from noetl.model.net import Net
from noetl.model.playbook import Arc, Condition, Step

_LOOKS_AT_THE_END = frozenset({"event", "output", "steps"})


def analyze(net: Net, problems: Diagnostics) -> None:
    """Report what no token can do."""
    steps = list(net.steps.values())
    for step in steps:
        _report_shadowed(step, problems)
    if any(step.router.synthesize is not None for step in steps):
        return  # steps that are made at run time may lead anywhere
    number = {name: at for at, name in enumerate(net.steps)}
    graph = [[number[arc.step] for arc in step.router.arcs if arc.step in number] for step in steps]
    reached = find_reachable(graph, [number[net.start]])
    for at, step in enumerate(steps):
        if at not in reached and step.name != net.playbook.final_step:
            problems.warning(
                "unreachable-step", f"nothing leads to step `{step.name}`", step.at, fix="add an arc to it"
            )
    circles = [sorted(one) for one in find_components(graph) if len(one) > 1 or one[0] in graph[one[0]]]
    for circle in circles:
        if circle[0] in reached:
            _report_without_exit([steps[at] for at in circle], problems)
    in_circle = {steps[at].name for circle in circles for at in circle}
    joins.report([step for at, step in enumerate(steps) if at in reached], net, in_circle, problems)


# --- arcs ------------------------------------------------------------------------------------------------------


def is_always(condition: Condition | None) -> bool:
    """Whether an arc or rule applies whatever happens; an arc without `when` does so on success only."""
    return condition is None or condition.source.strip().lower() in ("true", "{{ true }}", "{{true}}")


def _report_shadowed(step: Step, problems: Diagnostics) -> None:
    """In an exclusive router, what stands behind an arc that always applies."""
    if step.router.mode != "exclusive":
        return
    before: Arc | None = None
    for arc in step.router.arcs:
        if before is not None and not (before.when is None and _looks_at_the_end(arc)):
            problems.warning(
                "arc-shadowed",
                f"the arc above (line {before.at.line}) is always taken before this one",
                arc.at,
                fix="give the arc above a `when`, put this one before it, or use `mode: inclusive`",
            )
        if before is None and is_always(arc.when):
            before = arc


def _looks_at_the_end(arc: Arc) -> bool:
    # An arc without `when` is not taken after a failure, so one behind it that looks at how the step ended may be.
    if arc.when is None:
        return False
    calls = getattr(arc.when, "calls", ())
    return bool(calls) or any(read.path[0] in _LOOKS_AT_THE_END for read in arc.when.reads)


# --- circles ---------------------------------------------------------------------------------------------------


def _report_without_exit(steps: list[Step], problems: Diagnostics) -> None:
    """Report the steps of a circle, in the order of the document, if no token can leave it."""
    inside = {step.name for step in steps}
    if any(_can_leave(step, inside) for step in steps):
        return
    names = " → ".join(f"`{step.name}`" for step in steps[:6])
    problems.warning(
        "cycle-without-exit",
        f"a token that gets here goes round for ever: {names}",
        steps[0].at,
        fix="give one of the arcs a `when`, or add an arc that leaves",
    )


def _can_leave(step: Step, inside: set[str]) -> bool:
    if step.admission.fire == "once" or step.admission.rules is not None:
        return True
    if any(arc.step is None or arc.step not in inside for arc in step.router.arcs):
        return True
    return not any(is_always(arc.when) for arc in step.router.arcs)
