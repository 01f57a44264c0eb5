"""Where tokens can go: unreachable steps, arcs that are never taken, joins that can never fire, cycles without an exit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from noetl.model.diagnostics import Diagnostics
from noetl.model.net import Net
from noetl.model.playbook import Arc, Condition, Step

# The net as a plain graph: what leads where, in which rounds it runs in circles, and what lies on every way.
#
# Nodes are steps (their names) and arcs (step name and position), so that "every way to b passes this arc of a" can be
# asked as well. All of it is linear in the size of the net, or nearly so: nets have thousands of steps.


NodeId: TypeAlias = str | tuple[str, int]
Graph: TypeAlias = Mapping[NodeId, Sequence[NodeId]]


def graph_of(net: Net) -> dict[NodeId, list[NodeId]]:
    """Every step leads to its arcs, every arc to its step."""
    graph: dict[NodeId, list[NodeId]] = {}
    for step in net.steps.values():
        arcs: list[NodeId] = [(step.name, index) for index in range(len(step.router.arcs))]
        graph[step.name] = arcs
        for index, arc in enumerate(step.router.arcs):
            graph[step.name, index] = [arc.step] if arc.step is not None and arc.step in net.steps else []
    return graph


def reachable(graph: Graph, start: NodeId) -> set[NodeId]:
    """All that can be reached from a node, itself included."""
    seen: set[NodeId] = {start}
    waiting = [start]
    while waiting:
        for after in graph[waiting.pop()]:
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


def find_cycles(graph: Graph, nodes: Iterable[NodeId]) -> list[list[NodeId]]:
    """The strongly connected parts in which a token can go round (Tarjan, without recursion)."""
    index: dict[NodeId, int] = {}
    low: dict[NodeId, int] = {}
    on_stack: set[NodeId] = set()
    stack: list[NodeId] = []
    found: list[list[NodeId]] = []
    for root in nodes:
        if root in index:
            continue
        work: list[tuple[NodeId, int]] = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            else:
                low[node] = min(low[node], low[graph[node][position - 1]])
            for after_position in range(position, len(graph[node])):
                after = graph[node][after_position]
                if after not in index:
                    work += [(node, after_position + 1), (after, 0)]
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                if low[node] == index[node]:
                    found.append(_pop_part(stack, on_stack, node))
    return [part for part in found if len(part) > 1]


def _pop_part(stack: list[NodeId], on_stack: set[NodeId], root: NodeId) -> list[NodeId]:
    part: list[NodeId] = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        part.append(node)
        if node == root:
            return part


def dominators(graph: Graph, start: NodeId) -> dict[NodeId, NodeId]:
    """Of each reachable node, the last node that every way to it passes (Cooper, Harvey and Kennedy)."""
    order = _postorder(graph, start)
    number = {node: at for at, node in enumerate(order)}
    before: dict[NodeId, list[NodeId]] = {node: [] for node in order}
    for node in order:
        for after in graph[node]:
            before[after].append(node)
    dominator: dict[NodeId, NodeId] = {start: start}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [one for one in before[node] if one in dominator]
            best = known[0]
            for other in known[1:]:
                best = _common(best, other, dominator, number)
            if dominator.get(node) != best:
                dominator[node] = best
                changed = True
    return dominator


def _common(one: NodeId, other: NodeId, dominator: Mapping[NodeId, NodeId], number: Mapping[NodeId, int]) -> NodeId:
    while one != other:
        while number[one] < number[other]:
            one = dominator[one]
        while number[other] < number[one]:
            other = dominator[other]
    return one


def _postorder(graph: Graph, start: NodeId) -> list[NodeId]:
    order: list[NodeId] = []
    seen = {start}
    work: list[tuple[NodeId, int]] = [(start, 0)]
    while work:
        node, position = work.pop()
        if position < len(graph[node]):
            work.append((node, position + 1))
            after = graph[node][position]
            if after not in seen:
                seen.add(after)
                work.append((after, 0))
        else:
            order.append(node)
    return order


#: words that make a condition more than a list of things that all must hold
_NOT_A_CONJUNCTION = re.compile(r"\b(?:or|not|if|else)\b|\?")
_WAITS_FOR = frozenset({"done", "ok", "fail", "loop_done", "all_done"})
_LOOKS_AT_THE_END = frozenset({"event", "output", "steps"})


def analyze(net: Net, problems: Diagnostics) -> None:
    """Report what no token can do."""
    for step in net.steps.values():
        _report_shadowed(step, problems)
    if any(step.router.synthesize is not None for step in net.steps.values()):
        return  # steps that are made at run time may lead anywhere
    graph = graph_of(net)
    reached = reachable(graph, net.start)
    for step in net.steps.values():
        if step.name not in reached and step.name != net.playbook.final_step:
            problems.warning(
                "unreachable-step", f"nothing leads to step `{step.name}`", step.at, fix="add an arc to it"
            )
    parts = find_cycles(graph, [node for node in graph if node in reached])
    for part in parts:
        _report_without_exit(net, part, problems)
    joins = [step for step in net.steps.values() if step.name in reached and _join_requirements(step)]
    if joins:
        _Joins(net, graph, parts).report(joins, problems)


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


def _report_without_exit(net: Net, part: list[NodeId], problems: Diagnostics) -> None:
    inside = {node for node in part if isinstance(node, str)}
    steps = [step for step in net.steps.values() if step.name in inside]
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


# --- joins -----------------------------------------------------------------------------------------------------


def _join_requirements(step: Step) -> list[set[str]]:
    """Sets of steps that all must have run for the step to be admitted, one set for each way in."""
    joined: list[set[str]] = []
    join = step.admission.join
    if join is not None and (join.need is None or join.need >= len(join.places)):
        joined.append(set(join.places))
    waits = list(joined)
    allowing = [rule for rule in step.admission.rules or () if rule.allow]
    for rule in allowing:
        if rule.when is None:
            return joined  # an `else` that allows: nothing need be awaited
        waits.append(_needs(rule.when))
    return [wait for wait in waits if wait] if all(waits) else []


def _needs(condition: Condition) -> set[str]:
    if _NOT_A_CONJUNCTION.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", condition.source)):
        return set()
    names: set[str] = set()
    for call in getattr(condition, "calls", ()):
        if call.name in _WAITS_FOR and call.args:
            names.update(name for name in call.args if name is not None)
    return names


class _Joins:
    """Finds joins that wait for steps of which only one can run."""

    def __init__(self, net: Net, graph: Graph, parts: list[list[NodeId]]) -> None:
        self.net = net
        self.dominator = dominators(graph, net.start)
        self.in_circle = {node for part in parts for node in part}
        self.splits = [s.name for s in net.steps.values() if s.router.mode == "inclusive" and len(s.router.arcs) > 1]

    def report(self, joins: list[Step], problems: Diagnostics) -> None:
        for step in joins:
            reasons = [self.why_never(wait, step) for wait in _join_requirements(step)]
            if reasons and all(reasons):
                problems.warning("dead-join", f"step `{step.name}` waits for ever: {reasons[0]}", step.at,
                                 fix="wait for one of them (`any_done([…])`, `need: 1`), or use `mode: inclusive`")  # fmt: skip

    def why_never(self, wait: set[str], step: Step) -> str | None:
        known = sorted(name for name in wait if name in self.dominator)
        for name in known:
            if name != step.name and step.name in self.above(name):
                return f"`{name}` runs only after it"
        for one, other in combinations(known, 2):
            if (chooser := self.chooser(one, other)) is not None:
                return f"`{chooser}` leads to `{one}` or to `{other}`, never to both"
        return None

    def above(self, node: NodeId) -> Iterator[NodeId]:
        """What every way to the node passes, from near to far."""
        while self.dominator[node] != node:
            node = self.dominator[node]
            yield node

    def chooser(self, one: str, other: str) -> str | None:
        """The step at which the ways to the two part for good."""
        arcs = {node[0]: node[1] for node in self.above(one) if isinstance(node, tuple)}
        for node in self.above(other):
            if isinstance(node, tuple) and arcs.get(node[0], node[1]) != node[1] and self.chooses_once(node[0]):
                return node[0]
        return None

    def chooses_once(self, name: str) -> bool:
        """Whether the step runs at most once and then takes one arc."""
        if self.net.steps[name].router.mode != "exclusive" or name in self.in_circle:
            return False
        # Behind a split every way of which the step is not forced through one arc, two tokens may arrive.
        above = set(self.above(name))
        return all(
            split not in above or any(isinstance(n, tuple) and n[0] == split for n in above) for split in self.splits
        )
