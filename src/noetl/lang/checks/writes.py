"""Writes: that `set` targets exist and are safe, and that references stay references."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.expr import REF_FIELDS, Template
from noetl.lang.building.template_sites import Site
from noetl.lang.checks.subject import Subject, all_tasks, loops, task_assignments
from noetl.model.playbook import Assignment, Step, Task

_SCOPES = ("ctx", "step", "iter")
#: keys that stand beside a `set`, and end up under it when they are indented too far
_NEIGHBOURS = ("next", "tool", "loop", "spec", "output", "input", "desc", "kind", "when", "then", "do", "name", "auth")
#: an expression that is nothing but a path
_PATH = re.compile(r"\s*\w+\s*(?:\.\s*\w+\s*|\[\s*(?:'[^']*'|\"[^\"]*\")\s*\]\s*)+")


def check(subject: Subject) -> None:
    """Report writes to what cannot be written."""
    iterators = {loop.iterator for step in subject.playbook.steps for loop in loops(step.loop)}
    for group in _groups(subject):
        _overlaps(subject, group)
    for step in subject.playbook.steps:
        in_loop = step.loop is not None
        for assignment in _server_side(step):
            _target(subject, assignment, iterators, iter_allowed=False, in_loop=in_loop)
        for task in step.all_tasks:
            _task_writes(subject, step, task, iterators)
    for tasks in subject.playbook.workbook.values():
        for task in tasks:
            for assignment in task_assignments(task):
                _in_workbook(subject, assignment)
    for site in subject.sites.all:
        _dereference(subject, site, iterators)


def _task_writes(subject: Subject, step: Step, task: Task, iterators: set[str]) -> None:
    in_loop, in_body = step.loop is not None, task in step.tasks
    for assignment in task_assignments(task):
        if task is step.compensation:
            _in_compensation(subject, assignment)
            continue
        _target(subject, assignment, iterators, iter_allowed=in_loop and in_body, in_loop=in_loop)
        if in_body:
            _of_the_engine(subject, assignment, step)
            _in_parallel(subject, assignment, step)


def _groups(subject: Subject) -> Iterable[tuple[Assignment, ...]]:
    """Every `set` of the playbook."""
    for step in subject.playbook.steps:
        yield step.set
        yield from (arc.set for arc in step.router.arcs)
    for _step, task in all_tasks(subject.playbook):
        yield task.set
        yield from (rule.then.set for rule in task.policy.rules) if task.policy is not None else ()


def _overlaps(subject: Subject, group: tuple[Assignment, ...]) -> None:
    """Two targets of one `set` are written at once: of one inside of the other nobody could say which remains."""
    if len(group) < 2:
        return
    whole = {(one.scope, *one.path): one for one in reversed(group)}
    for one in group:
        path = (one.scope, *one.path)
        around = next((path[:end] for end in range(2, len(path)) if path[:end] in whole), None)
        same = whole[path] is not one
        if around is not None or same:
            name, other = ".".join(path), ".".join(around or path)
            subject.problems.error(
                "set-target",
                f"`{name}` is written twice"
                if same
                else f"`{name}` lies within `{other}`, which the same `set` writes",
                one.at,
                fix="keep one of the two" if same else f"write one value under `{other}`, or move one to another `set`",
            )


def _of_the_engine(subject: Subject, assignment: Assignment, step: Step) -> None:
    """The engine writes `iter.index`, `iter.parent` and the item; a write would be gone with the next iteration."""
    if assignment.scope != "iter" or step.loop is None or not assignment.path:
        return
    inner = [loop.iterator for loop in loops(step.loop)][-1]
    if assignment.path[0] in ("index", "parent", inner):
        name = ".".join(("iter", *assignment.path))
        subject.problems.error(
            "set-target",
            f"`{name}` cannot be written: the engine writes `iter.{assignment.path[0]}`",
            assignment.at,
            fix=f"choose another name, such as `iter.my_{assignment.path[-1]}`",
        )


def _server_side(step: Step) -> Iterable[Assignment]:
    yield from step.set
    for arc in step.router.arcs:
        yield from arc.set


def _target(
    subject: Subject, assignment: Assignment, iterators: set[str], *, iter_allowed: bool, in_loop: bool
) -> None:
    name = ".".join((assignment.scope, *assignment.path))
    if assignment.scope not in _SCOPES:
        subject.problems.error(
            "set-target",
            f"`{name}` cannot be written",
            assignment.at,
            fix=_instead(subject, assignment),
        )
    elif not assignment.path or not all(assignment.path):
        subject.problems.error("set-target", f"`{name}` names no value", assignment.at, fix=f"write `{name}.<key>`")
    elif assignment.scope == "iter" and not iter_allowed:
        where = "it runs once per step run, outside of the iterations" if in_loop else "this step has no loop"
        subject.problems.error(
            "iter-outside-loop",
            f"`{name}` cannot be written here: {where}",
            assignment.at,
            fix=f"write `ctx.{'.'.join(assignment.path)}`",
        )
    else:
        _suffix(subject, assignment, name, iterators)


def _instead(subject: Subject, assignment: Assignment) -> str:
    scope, at = assignment.scope, assignment.at
    stray = scope if scope in _NEIGHBOURS else subject.hints.nearest(scope, _NEIGHBOURS)
    dotted = subject.problems.source.line_text(at.line).startswith(f"{scope}.", at.column - 1)
    if stray is not None and not dotted and subject.hints.nearest(scope, _SCOPES) is None:
        # A line indented too far: to write `ctx.next` would hide the mistake.
        said = "" if stray == scope else f"did you mean `{stray}`? "
        return f"{said}`{stray}` stands beside `set`, not under it: indent it less"
    name = assignment.path[-1] if assignment.path else scope
    return f"write `ctx.{name}`; targets are `ctx.*`, `step.*` and, in a loop, `iter.*`"


def _suffix(subject: Subject, assignment: Assignment, name: str, iterators: set[str]) -> None:
    """A name that ends in `_ref` holds a reference, and no other name does."""
    value = assignment.value
    wants = name.endswith("_ref")
    if not wants and _is_reference(value.tree, iterators):
        subject.problems.error(
            "ref-suffix",
            f"`{name}` would hold a reference; such a name ends in `_ref`",
            assignment.at,
            fix=f"write `{name}_ref`, or assign `output.data`",
        )
    elif wants and (value.constant or _is_text(value.tree)):
        subject.problems.error(
            "ref-suffix",
            f"`{name}` must receive a reference",
            assignment.at,
            fix='assign "{{ output.ref }}", or choose a name that does not end in `_ref`',
        )


def _is_reference(tree: object, iterators: set[str]) -> bool:
    """Whether a value is nothing but a path to a reference."""
    expression = tree.expression if isinstance(tree, Template) else None
    if expression is None or "ref" not in expression.source or not _PATH.fullmatch(expression.source):
        return False
    path = expression.facts.reads[0].path if expression.facts.reads else ()
    return bool(path) and _reference_in(path, iterators) == len(path) - 1


def _is_text(tree: object) -> bool:
    """Whether something stands around the template, which makes the value text."""
    return isinstance(tree, Template) and not tree.is_expression and not tree.problems


def _in_parallel(subject: Subject, assignment: Assignment, step: Step) -> None:
    if assignment.scope != "ctx" or step.loop is None:
        return
    name = ".".join((assignment.scope, *assignment.path))
    # Each loop of a nest puts its own iterations in order: a reducer of the inner one does not help the outer.
    if any(loop.mode == "parallel" and name not in loop.reduce for loop in loops(step.loop)):
        subject.problems.error(
            "parallel-ctx-write",
            f"parallel iterations would overwrite each other's `{name}`",
            assignment.at,
            fix=f"name a reducer: `loop.spec.policy.reduce: {{{name}: append}}`, or write `iter.*`",
        )


def _in_compensation(subject: Subject, assignment: Assignment) -> None:
    subject.problems.error(
        "set-target",
        "a compensation writes nothing: when it runs, no step follows that could read it",
        assignment.at,
        fix="remove `set`; the compensation's output is in the log",
    )


def _in_workbook(subject: Subject, assignment: Assignment) -> None:
    if assignment.scope != "step":
        name = ".".join((assignment.scope, *assignment.path))
        subject.problems.error(
            "set-target",
            f"`{name}` cannot be written from the workbook",
            assignment.at,
            fix="return it as the task's output and `set` it where the workbook is called; `step.*` is its own",
        )


def _dereference(subject: Subject, site: Site, iterators: set[str]) -> None:
    for read in site.template.reads:
        path = read.path
        at = _reference_in(path, iterators)
        if at is None or at + 1 >= len(path) or path[at + 1] in REF_FIELDS:
            continue
        subject.problems.error(
            "ref-deref",
            f"`{'.'.join(path[: at + 1])}` is a reference; `{path[at + 1]}` is not part of it",
            subject.where_path(site, read, at + 2),
            fix="bring the payload back with a `kind: resolve` task first",
        )


def _reference_in(path: tuple[str, ...], iterators: set[str]) -> int | None:
    """Which part of a path is a reference, as far as its name tells."""
    if path[:2] == ("output", "ref"):
        return 1
    if path[:3] == ("event", "output", "ref"):
        return 2
    if path[0] in _SCOPES:
        for index, part in enumerate(path[1:], 1):
            if part.endswith("_ref") and part not in iterators:
                return index
    return None
