"""Plans to nets: steps that a run asks for, judged as a playbook is, with the names of the execution in scope.

A plan is data. It is written down as YAML text and goes through the same passes as a file, so that whatever is wrong
with it has a place that can be shown. What a planned step may not do is ask for more than it was allowed itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from noetl.errors import NoetlError
from noetl.lang.analysis import analyze
from noetl.lang.building.playbook import build, compile_net
from noetl.lang.checks import check
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.grammar.shape_check import check_document
from noetl.lang.legacy import lower, scan
from noetl.lang.printing.plain_yaml import dump
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, entry, make, map_of, plain_value, text_of
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostic, Diagnostics, Severity, Source, TooManyErrors
from noetl.model.kinds import ToolKind
from noetl.model.net import Net, PlanResult
from noetl.model.output import Failure, failure
from noetl.model.playbook import Playbook, Synthesis

Kinds = Mapping[str, ToolKind]
#: of the problems of a plan, how many its error tells, and how many its message has room for
_TOLD, _IN_MESSAGE = 50, 3


def build_plan(net: Net, step: str, wish: Synthesis, found: Any, kinds: Kinds) -> PlanResult:
    """Judge what a step asks for; an empty list asks for nothing."""
    problem = _shape_problem(found, wish)
    if problem is not None:
        return PlanResult(net, error=failure("plan-invalid", problem))
    if not found:
        return PlanResult(net)
    allowed = _plan_kinds(net.playbook, wish, kinds)
    try:
        made = _judge(net, found, kinds, wish.max_steps, allowed)
    except RecursionError:
        return PlanResult(net, error=failure("plan-invalid", "the plan is nested too deeply"))
    return made if made.error is not None else replace(made, net=_with_way_in(made.net, step, made.steps))


def extend_net(net: Net, plans: Sequence[dict[str, Any]], kinds: Kinds) -> Net:
    """The net with plans that were recorded."""
    made = _judge(net, [step for one in plans for step in one["steps"]], kinds, None, None)
    if made.error is not None:
        raise NoetlError(f"the steps that were planned can no longer be read: {made.error['message']}")
    whole = made.net
    for one in plans:
        whole = _with_way_in(whole, one["step"], one["steps"])
    return whole


def _with_way_in(net: Net, step: str, steps: Sequence[dict[str, Any]]) -> Net:
    return replace(net, plans=(*net.plans, (step, steps[0]["step"])))


def _shape_problem(found: Any, wish: Synthesis) -> str | None:
    """Why something is no plan at all."""
    if not isinstance(found, list):
        hint = "; text has to go through `| from_json`" if isinstance(found, str) else ""
        return f"`synthesize.from` must yield a list of steps, not {_sort(found)}{hint}"
    if len(found) > wish.max_steps:
        return f"the plan has {len(found)} steps; `max_steps` allows {wish.max_steps}"
    for position, step in enumerate(found, 1):
        if not isinstance(step, dict):
            return f"item {position} of the plan must be a step (a map), not {_sort(step)}"
    return None


def _sort(value: Any) -> str:
    if value is None:
        return "nothing (null)"
    names = {dict: "a map", str: "text", bool: "a boolean", list: "a list"}
    return names.get(type(value), "a number")


def _plan_kinds(playbook: Playbook, wish: Synthesis, kinds: Kinds) -> frozenset[str]:
    """The kinds that a plan may use; by default those of the playbook itself."""
    if wish.allow_kinds is None:
        return frozenset(task.kind for _, task in all_tasks(playbook) if not task.silent)
    return frozenset(_canonical(name, kinds) for name in wish.allow_kinds)


def _canonical(name: str, kinds: Kinds) -> str:
    try:
        return kinds[name].name
    except KeyError:
        return name


# --- the passes ------------------------------------------------------------------------------------------------------


def _judge(
    net: Net, found: list[Any], kinds: Kinds, max_steps: int | None, allowed: frozenset[str] | None
) -> PlanResult:
    """The plan through all passes; without bounds it is one that was judged before."""
    text = dump(found)
    problems = Diagnostics(Source(text, "plan"), stops=True)
    steps = read_yaml(text, problems)
    try:
        made = _passes(net, steps, kinds, problems, max_steps, allowed) if isinstance(steps, ListNode) else None
    except TooManyErrors:
        made = None
    wrong = [one for one in problems.collect() if one.severity is Severity.ERROR]
    if wrong or made is None or not isinstance(steps, ListNode):
        return PlanResult(net, error=_error(wrong, steps, problems.source))
    return PlanResult(made, tuple(plain_value(step) for step in steps.items))


def _passes(
    net: Net,
    steps: ListNode,
    kinds: Kinds,
    problems: Diagnostics,
    max_steps: int | None,
    allowed: frozenset[str] | None,
) -> Net:
    around = net.playbook
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": around.name},
        "executor": around.executor,
        "workflow": steps,
    }
    root = make({key: value for key, value in document.items() if value}, near=steps)
    assert isinstance(root, MapNode)
    if scan(root, kinds):
        lower(root, kinds, problems)
    check_document(root, kinds, problems)
    if allowed is not None and max_steps is not None:
        _limit_plans(steps, kinds, problems, max_steps, allowed)
    playbook, sites = build(root, kinds, problems.source)
    playbook = replace(playbook, keychain=around.keychain, workload=around.workload)
    subject = Subject(root, playbook, sites, kinds, problems, around=net)
    _names(subject, net)
    check(subject)
    if allowed is not None:
        _kinds(subject, allowed)
    if playbook.steps:
        analyze(compile_net(playbook), subject)
    whole = compile_net(replace(around, steps=(*net.steps.values(), *playbook.steps)))
    # The playbook stays what its author wrote, and begins where it began, whatever the planned steps are called.
    return replace(whole, playbook=around, start=net.start, plans=net.plans)


def _names(subject: Subject, net: Net) -> None:
    for step in subject.playbook.steps:
        if step.name in net.steps:
            message = f"the execution has a step `{step.name}` already"
            subject.problems.error("duplicate-step", message, step.at, fix="give the planned step a name of its own")


def _kinds(subject: Subject, allowed: frozenset[str]) -> None:
    for _, task in all_tasks(subject.playbook):
        if not task.silent and task.kind and task.kind not in allowed:
            message = f"the plan may not use `kind: {task.kind}`"
            fix = f"allowed: {', '.join(sorted(allowed)) or 'none'} (`synthesize.allow_kinds`)"
            subject.problems.error("wrong-value", message, task.at, fix=fix)


def _limit_plans(steps: ListNode, kinds: Kinds, problems: Diagnostics, max_steps: int, allowed: frozenset[str]) -> None:
    """Plans of planned steps: they are allowed what this plan is allowed, and what they say themselves may be less."""
    for step in steps.items:
        spec = map_of(map_of(step, "next") if isinstance(step, MapNode) else None, "spec")
        wish = map_of(spec, "synthesize")
        if wish is None:
            continue
        _limit_steps(wish, problems, max_steps)
        wanted = wish.get("allow_kinds")
        if not isinstance(wanted, ListNode):
            wish.put(entry("allow_kinds", make(sorted(allowed), near=wish)))
            continue
        for item in wanted.items:
            if isinstance(item, Scalar) and _canonical(item.text, kinds) not in allowed:
                message = f"the plan may not allow `kind: {item.text}`, which it may not use itself"
                problems.error("wrong-value", message, (item.start, item.end), fix="leave it out")


def _limit_steps(wish: MapNode, problems: Diagnostics, max_steps: int) -> None:
    given = wish.get("max_steps")
    if given is None:
        wish.put(entry("max_steps", make(min(20, max_steps), near=wish)))
    elif isinstance(given, Scalar) and isinstance(given.value, int) and given.value > max_steps:
        message = f"a planned step may plan {max_steps} steps at most, as the step that planned it"
        problems.error("wrong-value", message, (given.start, given.end), fix=f"write {max_steps} or less")


# --- what is wrong ---------------------------------------------------------------------------------------------------


def _error(wrong: list[Diagnostic], steps: Node | None, source: Source) -> Failure:
    told = list(_problem_data(wrong[:_TOLD], steps, source))
    parts = [f"{_at(one)}{one['message']}" + (f" ({one['fix']})" if "fix" in one else "") for one in told]
    more = f"; and {len(wrong) - _IN_MESSAGE} more" if len(wrong) > _IN_MESSAGE else ""
    said = "; ".join(parts[:_IN_MESSAGE]) or "it is no list of steps"
    return failure("plan-invalid", f"the plan is not valid: {said}{more}", diagnostics=told)


def _at(one: dict[str, Any]) -> str:
    return f"in step `{one['step']}`: " if "step" in one else ""


def _problem_data(wrong: list[Diagnostic], steps: Node | None, source: Source) -> Iterator[dict[str, Any]]:
    """Diagnostics as data; each with the planned step and the line it is about."""
    items = steps.items if isinstance(steps, ListNode) else []
    for one in wrong:
        told: dict[str, Any] = {"code": one.code, "message": one.message}
        if one.fix:
            told["fix"] = one.fix
        if one.span is not None:
            offset = source.offset(one.span.line, one.span.column)
            name = next((text_of(s, "step") for s in items if isinstance(s, MapNode) and s.start <= offset < s.end), "")
            told |= {"step": name} if name else {}
            told |= {"line": one.span.line, "column": one.span.column, "text": source.line_text(one.span.line).strip()}
        yield told
