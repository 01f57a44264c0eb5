"""What must hold between the keys of one map: `step` or `terminate`, `else` last, `until` in sequence only."""

from __future__ import annotations

from collections.abc import Callable

from noetl.lang.grammar.value_types import is_nothing
from noetl.lang.reading.node import ListNode, MapNode, Node, NodeBase, Scalar, map_of
from noetl.model.diagnostics import Diagnostics

#: takes the map, where problems go, and the keys that misspelt ones were meant to be
Invariant = Callable[[MapNode, Diagnostics, set[str]], None]


def span(node: NodeBase) -> tuple[int, int]:
    """Where a diagnostic about the node points."""
    return node.alias or (node.start, node.end)


def _step(node: MapNode, problems: Diagnostics, meant: set[str]) -> None:
    name, tool = node.get("step"), node.entry("tool")
    if "tool" not in meant:
        _loop_keys_of_step(node, problems)
    if tool is not None and is_nothing(tool.value):
        if "tool" not in meant:
            problems.error("missing-key", "`tool` says nothing", span(tool.key), fix="write a task, or remove `tool`")
        return
    if not isinstance(name, Scalar) or name.text == "end" or tool is not None or not is_nothing(node.get("next")):
        return
    if meant & {"tool", "next"}:
        return
    problems.error(
        "empty-step", f"step `{name.text}` does nothing and leads nowhere", span(name), fix="add `tool` or `next`"
    )


def _loop_keys_of_step(node: MapNode, problems: Diagnostics) -> None:
    """What is about the tasks of a loop has no effect where there is no loop, or no task."""
    loop = node.entry("loop")
    if loop is not None and not is_nothing(loop.value) and "tool" not in node:
        message = "`loop` has no effect here: the step has no `tool` to run for each item"
        problems.error("no-effect", message, span(loop.key), fix="add `tool`, or remove `loop`")
    policy = map_of(map_of(node, "spec"), "policy")
    failure = policy.entry("failure") if policy is not None else None
    if failure is not None and loop is None:
        message = "`failure` has no effect here: it says what a failed iteration means, and there is no `loop`"
        problems.error("no-effect", message, span(failure.key), fix="remove it, or give the step a `loop`")


def _arc(node: MapNode, problems: Diagnostics, meant: set[str]) -> None:
    step, terminate = node.entry("step"), node.entry("terminate")
    if step is not None and terminate is not None:
        problems.error(
            "wrong-value", "an arc leads to a `step` or has `terminate`, not both", span(terminate.key), fix="keep one"
        )
    elif step is None and terminate is None and not meant & {"step", "terminate"}:
        at = span(node.entries[0].key) if node.entries else span(node)
        problems.error("missing-key", "an arc needs `step` (where it leads)", at, fix="add `step` or `terminate`")


def _next(node: MapNode, problems: Diagnostics, meant: set[str]) -> None:
    spec = node.get("spec")
    if "arcs" not in node and "arcs" not in meant and not (isinstance(spec, MapNode) and "synthesize" in spec):
        problems.error("missing-key", "`next` needs `arcs` (the ways out)", span(node), fix="add `arcs`")
    no_match = spec.entry("on_no_match") if isinstance(spec, MapNode) else None
    arcs = node.get("arcs")
    if no_match is not None and "arcs" not in meant and not (isinstance(arcs, ListNode) and arcs.items):
        message = "`on_no_match` says what happens when no arc matches, and there are none"
        problems.error("wrong-value", message, span(no_match.key), fix="remove it, or add `arcs`")


def _loop(node: MapNode, problems: Diagnostics, _meant: set[str]) -> None:
    iterator = node.get("iterator")
    if isinstance(iterator, Scalar) and iterator.text in ("index", "parent"):
        message = f"`{iterator.text}` cannot be an iterator: the engine writes `iter.{iterator.text}`"
        problems.error("wrong-value", message, span(iterator), fix="name the item, such as `item`")
    spec = node.get("spec")
    if not isinstance(spec, MapNode):
        return
    policy = spec.get("policy")
    policy = policy if isinstance(policy, MapNode) else None
    mode = spec.get("mode") or (policy.get("mode") if policy is not None else None)
    parallel = isinstance(mode, Scalar) and mode.text == "parallel"
    for place in (spec, policy):
        limit = place.entry("max_in_flight") if place is not None else None
        if limit is not None and not parallel:
            message = "`max_in_flight` has no effect here: iterations of a sequential loop run one after the other"
            problems.error("no-effect", message, span(limit.key), fix="write `mode: parallel` beside it, or remove it")
    until = spec.entry("until")
    if parallel and until is not None:
        problems.error(
            "until-in-parallel",
            "`until` needs one iteration after the other; this loop is parallel",
            span(until.key),
            fix="use `complete_when`, or `mode: sequential`",
        )
    reduce = policy.entry("reduce") if policy is not None else None
    if reduce is None:
        return
    if not parallel:
        problems.error(
            "wrong-value",
            "`reduce` is for parallel loops; in a sequential loop write `ctx` with `set`",
            span(reduce.key),
            fix="remove it, or set `mode: parallel`",
        )
    for entry in reduce.value.entries if isinstance(reduce.value, MapNode) else []:
        if not entry.name.startswith("ctx."):
            message, fix = f"a reducer is for `ctx.*`, not `{entry.name}`", f"write `ctx.{entry.name.split('.')[-1]}`"
            problems.error("wrong-value", message, span(entry.key), fix=fix)


def check_rules(node: ListNode, problems: Diagnostics) -> None:
    """Each rule has `when` and `then`, or is the `else`, which comes last."""
    for position, item in enumerate(node.items, 1):
        if not isinstance(item, MapNode):
            continue
        otherwise = item.entry("else")
        if otherwise is not None:
            _check_else(otherwise.key, item, problems, last=position == len(node.items))
        elif "when" not in item:
            at = span(item.entries[0].key) if item.entries else span(item)
            problems.error("missing-key", "a rule needs `when` (or `else`)", at, fix="add `when`, or write `- else:`")
        elif "then" not in item:
            at = span(item.entries[0].key)
            problems.error("missing-key", "a rule needs `then` (what follows from it)", at, fix="add `then`")


def _check_else(key: Node, item: MapNode, problems: Diagnostics, *, last: bool) -> None:
    if not last:
        problems.error("else-not-last", "`else` closes the list; what stands below is never read", span(key),
                       fix="move it to the end")  # fmt: skip
    if "when" in item:
        problems.error("wrong-value", "a rule has `when` or `else`, not both", span(key), fix="make it two rules")


#: by the name the grammar gives the shape
INVARIANTS: dict[str, Invariant] = {"a step": _step, "an arc": _arc, "`next`": _next, "a loop": _loop}
