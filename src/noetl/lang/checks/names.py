"""Names that must be unique, and names that must exist: steps, tasks, workbook entries, keychain entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from noetl.lang.checks.subject import Subject, all_tasks
from noetl.model.diagnostics import Edit, Where
from noetl.model.playbook import COMPENSATION, Admission, Step, Task

#: functions of templates that take the names of steps
HELPERS = frozenset({"done", "ok", "fail", "running", "loop_done", "all_done", "any_done"})


def check(subject: Subject) -> None:
    """Report names given twice and names nothing has."""
    _unique_steps(subject)
    known = subject.step_names
    sources: dict[str | None, set[str]] = {}
    for step in subject.all_steps:
        for arc in step.router.arcs:
            sources.setdefault(arc.step, set()).add(step.name)
    for step in subject.playbook.steps:
        _unique_tasks(subject, step.all_tasks, f"step `{step.name}`")
        _jumps(subject, step.tasks, f"step `{step.name}`")
        _hooks(subject, step)
        _targets(subject, step, known)
        _join(subject, step, sources.get(step.name, set()))
        _joins_of_others(subject, step)
    for name, tasks in subject.playbook.workbook.items():
        _unique_tasks(subject, tasks, f"workbook task `{name}`")
        _jumps(subject, tasks, f"workbook task `{name}`")
    _final_step(subject, known)
    _helpers(subject, known)
    _step_reads(subject, known)
    _workbook_calls(subject)
    _workbook_tasks(subject)
    _revisions(subject)


def _revisions(subject: Subject) -> None:
    """There is no catalog that keeps revisions: none can be asked for by its number."""
    for _step, task in all_tasks(subject.playbook):
        version, path = (task.config.get(key) for key in ("version", "path"))
        if task.kind != "playbook" or version is None or not version.constant or not getattr(path, "constant", True):
            continue
        subject.problems.error(
            "wrong-value",
            f"revision `{version.tree}` of the playbook is unknown: there is no catalog that keeps revisions",
            subject.inside(task.at, "version"),
            fix="remove `version`: the file as it is will be called",
        )


def _unknown_step(subject: Subject, name: str, at: Where, known: Collection[str]) -> None:
    fix, edits = _suggest(subject, name, at, known, "steps")
    subject.problems.error("unknown-step", f"there is no step `{name}`", at, fix=fix, edits=edits)


def _suggest(subject: Subject, name: str, at: Where, known: Collection[str], what: str) -> tuple[str, list[Edit]]:
    """What to write for an unknown name, and the edit that does it where there is no doubt."""
    meant = subject.hints.nearest(name, known)
    if meant is None:
        return f"{what}: {', '.join(list(known)[:12]) or 'none'}", []
    return f"did you mean `{meant}`?", subject.rename_edits(at, name, subject.hints.certain(name, known))


def _unique_steps(subject: Subject) -> None:
    seen: dict[str, Step] = {}
    for step in subject.playbook.steps:
        first = seen.setdefault(step.name, step)
        if first is not step:
            subject.problems.error(
                "duplicate-step",
                f"step `{step.name}` is already there on line {first.at.line}",
                step.at,
                fix="rename one",
            )


def _unique_tasks(subject: Subject, tasks: tuple[Task, ...], owner: str) -> None:
    seen: dict[str, Task] = {}
    for task in tasks:
        first = seen.setdefault(task.name, task)
        if first is not task:
            subject.problems.error(
                "duplicate-task",
                f"{owner} already has a task `{task.name}` on line {first.at.line}",
                task.at,
                fix="rename one of the two",
            )


def _jumps(subject: Subject, tasks: tuple[Task, ...], owner: str) -> None:
    names = {task.name for task in tasks}
    for task in tasks:
        for rule in task.policy.rules if task.policy is not None else ():
            if rule.then.do != "jump":
                continue
            if rule.then.to is None:
                at = subject.inside(rule.at, "do: jump")
                subject.problems.error("missing-key", "a jump needs `to`, the task to go to", at, fix="add `to`")
            elif rule.then.to not in names:
                at = rule.then.to_at or rule.at
                fix, edits = _suggest(subject, rule.then.to, at, sorted(names), "its tasks")
                message = f"{owner} has no task `{rule.then.to}` to jump to"
                subject.problems.error("unknown-task", message, at, fix=fix, edits=edits)


def _hooks(subject: Subject, step: Step) -> None:
    """A jump stays within its list, and a compensation has one name."""
    for word, tasks in (("before", step.before), ("after", step.after), ("finally", step.cleanup)):
        _jumps(subject, tasks, f"`{word}` of step `{step.name}`")
    task = step.compensation
    if task is None:
        return
    _jumps(subject, (task,), f"the compensation of step `{step.name}`")
    if task.name != COMPENSATION:
        message = f"the task of a compensation is always named `{COMPENSATION}`, not `{task.name}`"
        subject.problems.error("wrong-value", message, task.at, fix="remove `name`")


def _final_step(subject: Subject, known: dict[str, Step]) -> None:
    """The executor's `finally` names a step that only the end of the execution leads to."""
    around = subject.around.playbook if subject.around is not None else subject.playbook
    name = around.final_step
    if name is None:
        return
    for step in subject.playbook.steps:
        for arc in step.router.arcs:
            if arc.step == name:
                message = f"no arc may lead to `{name}`: it is the executor's `finally` step, and runs last"
                subject.problems.error("wrong-value", message, arc.at, fix="remove the arc")
    if subject.around is None:
        _check_final_step(subject, name, known)


def _check_final_step(subject: Subject, name: str, known: dict[str, Step]) -> None:
    at = subject.playbook.final_step_at
    step = known.get(name)
    if step is None:
        _unknown_step(subject, name, at, known)
        return
    problem = _final_step_problem(step, len(known))
    if problem is not None:
        message, fix = problem
        subject.problems.error("wrong-value", f"the executor's `finally` step {message}", at, fix=fix)


def _final_step_problem(step: Step, steps: int) -> tuple[str, str] | None:
    """Why a step cannot be the one that runs last, and what to do."""
    if step.name in ("start", "end"):
        return f"cannot be named `{step.name}`", "give it a name of its own"
    if step.router.arcs or step.router.synthesize is not None:
        return f"`{step.name}` has `next`, but nothing runs after it", "remove `next`"
    if step.admission != Admission():
        return f"`{step.name}` has `admit`, but it waits for nothing except the end", "remove `admit`"
    if step.compensation is not None:
        return f"`{step.name}` has `compensation`, which would never run", "remove `compensation`"
    if steps == 1:
        return f"`{step.name}` is the only step, and it is never the first", "add the steps to run before it"
    return None


def _targets(subject: Subject, step: Step, known: dict[str, Step]) -> None:
    for arc in step.router.arcs:
        if arc.step is not None and arc.step not in known:
            _unknown_step(subject, arc.step, arc.at, known)
        for name in arc.cancel:
            if name not in known:
                _unknown_step(subject, name, subject.inside(arc.cancel_at or arc.at, name), known)


def _join(subject: Subject, step: Step, sources: set[str]) -> None:
    """A join names just the steps that have an arc here."""
    join = step.admission.join
    if join is None:
        return
    for name in join.places:
        if name not in sources:
            subject.problems.error(
                "join-unknown",
                f"step `{name}` has no arc to `{step.name}`",
                join.at,
                fix="add the arc, or leave it out",
            )
    for name in sorted(sources - join.places.keys()):
        subject.problems.error(
            "join-unknown",
            f"step `{name}` leads to `{step.name}`, but the join leaves it out",
            join.at,
            fix=f"add `{name}` to `from`, or remove the arc",
        )
    if join.need is not None and join.need > len(join.places):
        subject.problems.error(
            "wrong-value",
            f"`need: {join.need}` can never hold: `from` names {len(join.places)}",
            join.at,
            fix=f"write `need: all`, or at most {len(join.places)}",
        )


def _joins_of_others(subject: Subject, step: Step) -> None:
    """A planned step may lead to a join that was there before only if that join waits for it, which none can."""
    for arc in step.router.arcs:
        target = subject.around.steps.get(arc.step or "") if subject.around is not None else None
        if target is not None and target.admission.join is not None:
            message = f"`{target.name}` is a join that does not wait for `{step.name}`"
            fix = f"lead to one of the steps that it waits for: {', '.join(target.admission.join.places)}"
            subject.problems.error("join-unknown", message, arc.at, fix=fix)


def _helpers(subject: Subject, known: dict[str, Step]) -> None:
    for site in subject.sites.all:
        for call in site.template.calls:
            if call.name not in HELPERS or call.args is None:
                continue
            for name in call.args:
                if name is not None and name not in known:
                    at = site.template.source.find(name, call.offset + len(call.name))
                    _unknown_step(subject, name, subject.where(site, at, len(name)), known)


def _step_reads(subject: Subject, known: dict[str, Step]) -> None:
    for site in subject.sites.all:
        for read in site.template.reads:
            if read.path[0] != "steps" or len(read.path) < 2:
                continue
            if read.path[1] not in known:
                _unknown_step(subject, read.path[1], subject.where_path(site, read, 2), known)
            elif len(read.path) > 2 and read.path[2] != "status":
                _no_output(subject, read.path[1], read.path[2], subject.where_path(site, read, 3))
            elif _reads_into_message(read.path):
                _error_is_text(subject, read.path, subject.where_path(site, read, 5))


def _reads_into_message(path: tuple[str, ...]) -> bool:
    """Whether a key of `steps.<name>.status.error` is read, which is text; `.split` and the like are its methods."""
    return len(path) > 4 and path[3] == "error" and not hasattr(str, path[4]) and not path[4].isdigit()


def _error_is_text(subject: Subject, path: tuple[str, ...], at: Where) -> None:
    right = f"steps.{path[1]}.status.failure.{path[4]}"
    subject.problems.error(
        "status-error-text",
        f"`steps.{path[1]}.status.error` is the message of the error, and has no `{path[4]}`",
        at,
        fix=f"write `{right}`",
        edits=subject.rename_edits(at, ".error.", ".failure."),
    )


def _no_output(subject: Subject, step: str, key: str, at: Where) -> None:
    """Of a step that has ended only its status is in sight: what is wanted of its output has to be kept."""
    subject.problems.error(
        "steps-status-only",
        f"`steps.{step}` has `status` and no `{key}`: what a step yields is not kept by itself",
        at,
        fix=f'keep it with `set: {{ctx.{step}: "{{{{ output.data }}}}"}}` on step `{step}`, and read `ctx.{step}`',
    )


def _workbook_calls(subject: Subject) -> None:
    for _step, task in all_tasks(subject.playbook):
        if task.kind != "workbook":
            continue
        name = task.config.get("task")
        if isinstance(name, str) and name not in subject.workbook:
            at = subject.inside(task.at, name)
            fix, edits = _suggest(subject, name, at, subject.workbook, "its tasks")
            subject.problems.error("unknown-task", f"the workbook has no task `{name}`", at, fix=fix, edits=edits)


def _workbook_tasks(subject: Subject) -> None:
    """What a call of the workbook cannot do: be put away, as it is one task, or come back to itself."""
    workbook = subject.playbook.workbook
    calls = {name: [task for task in tasks if task.kind == "workbook"] for name, tasks in workbook.items()}
    for name, tasks in workbook.items():
        for task in tasks:
            kind = subject.kinds.get(task.kind)
            if kind is not None and kind.suspends:
                message = (
                    f"`kind: {task.kind}` cannot stand in the workbook: a call of it is one task, which cannot wait"
                )
                fix = "put it into the step, or the whole task into a playbook of its own"
                subject.problems.error("wrong-value", message, task.at, fix=fix)
        for task in calls[name]:
            if name in _collect_calls(calls, task):
                message = f"workbook task `{name}` calls itself, and would never end"
                subject.problems.error(
                    "wrong-value", message, task.at, fix="use `jump`, `while` or a playbook of its own"
                )


def _collect_calls(calls: Mapping[str, Sequence[Task]], first: Task) -> set[str]:
    """The workbook tasks that a call leads to."""
    found: set[str] = set()
    waiting = [first]
    while waiting:
        name = waiting.pop().config.get("task")
        if isinstance(name, str) and name not in found:
            found.add(name)
            waiting.extend(calls.get(name, ()))
    return found
