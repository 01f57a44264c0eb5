"""Where tokens can go: unreachable steps, arcs that are never taken, joins that can never fire, cycles without an exit."""

from __future__ import annotations

from noetl.lang.analysis import joins
from noetl.lang.analysis.joins import NodeId
from noetl.model.diagnostics import Diagnostics
from noetl.model.graph import find_components, find_reachable
from noetl.model.net import Net
from noetl.model.playbook import Arc, Condition, Step


def graph_of(net: Net) -> dict[NodeId, list[NodeId]]:
    """Every step leads to its arcs, every arc to its step."""
    graph: dict[NodeId, list[NodeId]] = {}
    for step in net.steps.values():
        arcs: list[NodeId] = [(step.name, index) for index in range(len(step.router.arcs))]
        graph[step.name] = arcs
        for index, arc in enumerate(step.router.arcs):
            graph[step.name, index] = [arc.step] if arc.step is not None and arc.step in net.steps else []
    return graph


_LOOKS_AT_THE_END = frozenset({"event", "output", "steps"})


def analyze(net: Net, problems: Diagnostics) -> None:
    """Report what no token can do."""
    for step in net.steps.values():
        _report_shadowed(step, problems)
    if any(step.router.synthesize is not None for step in net.steps.values()):
        return  # steps that are made at run time may lead anywhere
    graph = graph_of(net)
    start: NodeId = net.start
    reached = find_reachable(graph.__getitem__, [start])
    for step in net.steps.values():
        if step.name not in reached and step.name != net.playbook.final_step:
            problems.warning(
                "unreachable-step", f"nothing leads to step `{step.name}`", step.at, fix="add an arc to it"
            )
    # A token goes round in a component; a step that leads to itself does so by way of its arc.
    components = find_components(graph, [node for node in graph if node in reached])
    circles = [component for component in components if len(component) > 1]
    position = {name: at for at, name in enumerate(net.steps)}
    for circle in circles:
        names = sorted((node for node in circle if isinstance(node, str)), key=position.__getitem__)
        _report_without_exit([net.steps[name] for name in names], problems)
    joins.report([step for step in net.steps.values() if step.name in reached], net, graph, circles, problems)


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
