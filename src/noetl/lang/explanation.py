"""The net as plain data that says everything: what `noetl explain` prints and hands out as JSON.

Templates stand as their author wrote them, every value of an effective spec has its origin, and tasks that sugar
has made carry the labels of the `choose`, `while` or `until` they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.expr import Guard, Template, TemplateValue
from noetl.lang.analysis.errors import covers_errors
from noetl.model.net import Net
from noetl.model.playbook import Admission, Arc, Assignment, Directive, LayeredValue, Loop, Policy, Router, Step, Task

#: how `lang.load` makes a net of a text, in order
PASSES: Mapping[str, str] = {
    "read": "YAML text to nodes that know their place",
    "lower": "older constructs to canonical ones",
    "shape": "every value held against the grammar",
    "build": "nodes to the typed playbook: sugar expanded, templates compiled, specs layered",
    "check": "names, templates, secrets and writes",
    "compile": "the playbook to its net: steps by name, arcs from both ends",
    "analyze": "questions to the net: what no token can do, what nothing reads or writes",
}
_DIRECTIVE_OF = {
    "retry": ("attempts", "backoff", "delay", "max_delay", "jitter"),
    "jump": ("to",),
    "fail": ("message",),
}


def explain_playbook(net: Net) -> dict[str, Any]:
    """Everything about a net."""
    playbook = net.playbook
    order = reachable(net)
    return {
        "name": playbook.name,
        "path": playbook.path,
        **_drop_empty(**{key: playbook.metadata.get(key) for key in ("version", "description", "labels", "tags")}),
        **_drop_empty(**{key: playbook.executor.get(key) for key in ("profile", "requires")}),
        "start": net.start,
        "order": order,
        **_drop_empty(**{"finally": playbook.final_step, "stalled": "fail" if playbook.fails_when_stalled else None}),
        "unreachable": [name for name in net.steps if name not in {*order, playbook.final_step}],
        "keychain": [{"name": one.name, "kind": one.kind} for one in playbook.keychain],
        "steps": [explain_step(net, step) for step in net.steps.values()],
        "workbook": {name: _tasks(tasks) for name, tasks in playbook.workbook.items()},
        "passes": dict(PASSES),
    }


def reachable(net: Net) -> list[str]:
    """The steps a token can get to, the nearest first."""
    order, known = [net.start], {net.start}
    for name in order:  # grows while it is read
        for arc in net.steps[name].router.arcs:
            if arc.step is not None and arc.step in net.steps and arc.step not in known:
                known.add(arc.step)
                order.append(arc.step)
    return order


def explain_step(net: Net, step: Step) -> dict[str, Any]:
    """Everything about one step. Keys whose value would say nothing are left out."""
    return {
        "name": step.name,
        "line": step.at.line,
        **_drop_empty(
            desc=step.desc, start=step.name == net.start or None, last=step.name == net.playbook.final_step or None
        ),
        "from": [
            {"step": one.source, "line": one.arc.at.line, **_drop_empty(when=to_source(one.arc.when))}
            for one in net.incoming[step.name]
        ],
        **_drop_empty(
            input=to_source(step.input),
            admission=_admission(step.admission),
            timeout_s=to_source(step.timeout),
            deadline_s=to_source(step.deadline),
            failure_mode=step.failure_mode if step.loop is not None else None,
            loop=_loop(step.loop),
            spec=_spec(step.spec),
        ),
        **_drop_empty(before=_tasks(step.before)),
        "tasks": _tasks(step.tasks),
        **_drop_empty(
            after=_tasks(step.after),
            **{"finally": _tasks(step.cleanup)},
            compensation=_tasks((step.compensation,) if step.compensation is not None else ()),
        ),
        **_drop_empty(output=to_source(step.output), set=_set(step.set)),
        "next": _router(step.router),
    }


def to_source(value: Any) -> Any:
    """A compiled value as its author wrote it."""
    if isinstance(value, Template | Guard):
        return value.source
    if isinstance(value, TemplateValue):
        return to_source(value.tree)
    if isinstance(value, Mapping):
        return {key: to_source(part) for key, part in value.items()}
    return [to_source(part) for part in value] if isinstance(value, list | tuple) else value


# --- parts of a step -------------------------------------------------------------------------------------------


def _drop_empty(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value not in ({}, [])}


def _spec(spec: Mapping[str, LayeredValue]) -> dict[str, Any]:
    return {key: {"value": to_source(one.value), "origin": one.origin} for key, one in spec.items()}


def _set(assignments: Iterable[Assignment]) -> dict[str, Any]:
    return {".".join((one.scope, *one.path)): to_source(one.value) for one in assignments}


def _admission(admission: Admission) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if admission.rules is not None:
        made["rules"] = [
            {**({"when": to_source(rule.when)} if rule.when is not None else {"else": True}), "allow": rule.allow}
            for rule in admission.rules
        ]
    if admission.fire != "each":
        made["fire"] = admission.fire
    if admission.join is not None:
        join = admission.join
        made["join"] = {"from": to_source(join.places), "need": join.need or "all", "rest": join.rest}
    return made


def _loop(loop: Loop | None) -> dict[str, Any]:
    if loop is None:
        return {}
    parallel = loop.mode == "parallel"
    return {
        "in": to_source(loop.items),
        "iterator": loop.iterator,
        "mode": loop.mode,
        **_drop_empty(
            max_in_flight=to_source(loop.max_in_flight) if parallel else None,
            exec=loop.exec,
            until=to_source(loop.until),
            complete_when=to_source(loop.complete_when),
            complete_rest=loop.complete_rest if loop.complete_when is not None else None,
            reduce=dict(loop.reduce),
            loop=_loop(loop.inner),
        ),
    }


def _router(router: Router) -> dict[str, Any]:
    made: dict[str, Any] = {"mode": router.mode, "arcs": [_arc(arc) for arc in router.arcs]}
    if router.on_no_match is not None:
        made["on_no_match"] = router.on_no_match
    if router.synthesize is not None:
        wish = router.synthesize
        made["synthesize"] = {
            "from": to_source(wish.plan),
            "max_steps": wish.max_steps,
            **_drop_empty(allow_kinds=to_source(wish.allow_kinds)),
        }
    return made


def _arc(arc: Arc) -> dict[str, Any]:
    to = {"step": arc.step} if arc.step is not None else {"terminate": arc.terminate}
    return {
        **to,
        "line": arc.at.line,
        **_drop_empty(when=to_source(arc.when), set=_set(arc.set), cancel=list(arc.cancel), args=to_source(arc.args)),
    }


# --- tasks -----------------------------------------------------------------------------------------------------


def _tasks(tasks: tuple[Task, ...]) -> list[dict[str, Any]]:
    labels = sugar_labels(tasks)
    return [
        {
            "name": task.name,
            "kind": task.kind,
            "line": task.at.line,
            **_drop_empty(
                made_by=labels[index],
                desc=task.desc,
                config=to_source(task.config),
                input=to_source(task.input),
                auth=to_source(task.auth),
                output=to_source(task.output),
                set=_set(task.set),
                policy=_policy(task.policy),
                spec=_spec(task.spec),
            ),
        }
        for index, task in enumerate(tasks)
    ]


def _policy(policy: Policy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    rules = [
        {**({"when": to_source(rule.when)} if rule.when is not None else {"else": True}), "then": _directive(rule.then)}
        for rule in policy.rules
    ]
    covered = {"covers_errors": True} if covers_errors(policy.rules) else {}
    return {"rules": rules, "on_unmatched": policy.on_unmatched, **covered}


def _directive(then: Directive) -> dict[str, Any]:
    details = {name: to_source(getattr(then, name)) for name in _DIRECTIVE_OF.get(then.do, ())}
    details["jitter"] = details.get("jitter") or None
    return {"do": then.do, **_drop_empty(**details, set=_set(then.set))}


def sugar_labels(tasks: tuple[Task, ...]) -> list[list[str]]:
    """For each task the sugar it was made by, from the outside in, as `choose choose_1`.

    The expansion leaves its traces in the names: a silent task without rules called `<label>_end` closes it.
    """
    position = {task.name: index for index, task in enumerate(tasks)}
    groups: list[tuple[int, int, str]] = []
    for last, task in enumerate(tasks):
        if task.silent and task.policy is None and task.name.endswith("_end"):
            label = task.name.removesuffix("_end")
            first, word = _find_expansion(tasks, position, label, last)
            groups.append((first, last, f"{word} {label}"))
    groups.sort(key=lambda group: group[0] - group[1])
    return [[name for first, last, name in groups if first <= index <= last] for index in range(len(tasks))]


def _find_expansion(tasks: tuple[Task, ...], position: Mapping[str, int], label: str, last: int) -> tuple[int, str]:
    """Where an expansion begins, and which word it was."""
    if label in position:
        return position[label], "while" if f"{label}_next" in position else "choose"
    check = tasks[position[f"{label}_check"]] if f"{label}_check" in position else None
    back = check.policy.rules[-1].then.to if check is not None and check.policy is not None else None
    return position.get(back or "", last), "until"
