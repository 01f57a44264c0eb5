"""Writes: that `set` targets exist and are safe, and that references stay references."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.expr import Template
from noetl.expr.refs import REF_FIELDS
from noetl.lang.checks.subject import Subject, loops, task_assignments
from noetl.lang.sites import Site
from noetl.model.playbook import Assignment, Loop, Step

_SCOPES = ("ctx", "step", "iter")
#: a template that is nothing but a path to a reference
_REFERENCE = re.compile(r"\s*\{\{-?\s*(?:output\.ref|(?:ctx|step|iter)(?:\.\w+)*\.\w+_ref)\s*-?\}\}\s*")


def check(subject: Subject) -> None:
    """Report writes to what cannot be written."""
    for step in subject.playbook.steps:
        in_loop = step.loop is not None
        for assignment in _server_side(step):
            _target(subject, assignment, iter_allowed=False, in_loop=in_loop)
        for task in step.tasks:
            for assignment in task_assignments(task):
                _target(subject, assignment, iter_allowed=in_loop, in_loop=in_loop)
                _in_parallel(subject, assignment, step)
    for tasks in subject.playbook.workbook.values():
        for task in tasks:
            for assignment in task_assignments(task):
                _in_workbook(subject, assignment)
    iterators = {loop.iterator for step in subject.playbook.steps for loop in loops(step.loop)}
    for site in subject.sites.all:
        _dereference(subject, site, iterators)


def _server_side(step: Step) -> Iterable[Assignment]:
    yield from step.set
    for arc in step.router.arcs:
        yield from arc.set


def _target(subject: Subject, assignment: Assignment, *, iter_allowed: bool, in_loop: bool) -> None:
    name = ".".join((assignment.scope, *assignment.path))
    if assignment.scope not in _SCOPES:
        subject.problems.error(
            "set-target",
            f"`{name}` cannot be written",
            assignment.at,
            fix=f"write `ctx.{assignment.path[-1] if assignment.path else assignment.scope}`; "
            "targets are `ctx.*`, `step.*` and, in a loop, `iter.*`",
        )
    elif not assignment.path or not all(assignment.path):
        subject.problems.error("set-target", f"`{name}` names no value", assignment.at, fix=f"write `{name}.<key>`")
    elif assignment.scope == "iter" and not iter_allowed:
        where = "the step's own `set` runs once, after all iterations" if in_loop else "this step has no loop"
        subject.problems.error(
            "iter-outside-loop",
            f"`{name}` cannot be written here: {where}",
            assignment.at,
            fix=f"write `ctx.{'.'.join(assignment.path)}`",
        )
    else:
        _suffix(subject, assignment, name)


def _suffix(subject: Subject, assignment: Assignment, name: str) -> None:
    """A name that ends in `_ref` holds a reference, and no other name does."""
    value = assignment.value
    wants = name.endswith("_ref")
    gives = isinstance(value.tree, Template) and _REFERENCE.fullmatch(value.tree.source) is not None
    if gives and not wants:
        subject.problems.error(
            "ref-suffix",
            f"`{name}` would hold a reference; such a name ends in `_ref`",
            assignment.at,
            fix=f"write `{name}_ref`, or assign `output.data`",
        )
    elif wants and value.constant:
        subject.problems.error(
            "ref-suffix",
            f"`{name}` must receive a reference",
            assignment.at,
            fix='assign "{{ output.ref }}", or choose a name that does not end in `_ref`',
        )


def _in_parallel(subject: Subject, assignment: Assignment, step: Step) -> None:
    around = list(loops(step.loop))
    if assignment.scope != "ctx" or not any(loop.mode == "parallel" for loop in around):
        return
    name = ".".join((assignment.scope, *assignment.path))
    if not any(_reduces(loop, name) for loop in around):
        subject.problems.error(
            "parallel-ctx-write",
            f"parallel iterations would overwrite each other's `{name}`",
            assignment.at,
            fix=f"name a reducer: `loop.spec.policy.reduce: {{{name}: append}}`, or write `iter.*`",
        )


def _reduces(loop: Loop, name: str) -> bool:
    return name in loop.reduce


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
            subject.where(site, read.offset, len(path[0])),
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
