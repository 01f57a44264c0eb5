"""Data that goes nowhere or comes from nowhere: `ctx` and `iter` never written, inputs never read, names nearly known, raw splices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from noetl.expr import EvaluationPoint, PathRead
from noetl.lang.building.template_sites import Site
from noetl.lang.checks.subject import UNLIKE, Subject, all_tasks, loops, task_assignments
from noetl.lang.reading.node import ListNode, MapNode, Scalar
from noetl.model.kinds import InputRole
from noetl.model.nearest import nearest
from noetl.model.net import Net
from noetl.model.playbook import Assignment, Step, Task

_SPLICES = {
    "sql": ("sql-unbound", "`| sql` splices text into the statement; whoever controls it controls the database"),
    "raw": ("shell-unquoted", "`| raw` splices text into the command; whoever controls it controls the shell"),
}


def analyze(net: Net, subject: Subject) -> None:
    """Report reads without writes and writes without reads."""
    if all(step.router.synthesize is None for step in net.steps.values()):
        _report_never_set(net, subject)
    _report_never_in_iteration(net, subject)
    _report_unused_inputs(net, subject)
    for site in subject.sites.all:
        for name in _SPLICES.keys() & site.template.filters:
            if site.place.boundary is EvaluationPoint.TASK_CONFIG:
                code, message = _SPLICES[name]
                fix = "bind a value by leaving the filter out, or make sure that nobody else can set it"
                subject.problems.warning(code, message, (site.node.place, site.node.end), fix=fix)


def _all_assignments(net: Net) -> Iterator[Assignment]:
    for step in net.steps.values():
        yield from step.set
        for arc in step.router.arcs:
            yield from arc.set
        for task in step.all_tasks:
            yield from task_assignments(task)


def _report_never_set(net: Net, subject: Subject) -> None:
    written = {one.path[0] for one in _all_assignments(net) if one.scope == "ctx" and one.path}
    for site in subject.sites.all:
        for read in site.template.reads:
            if read.path[0] != "ctx" or len(read.path) < 2 or read.path[1] in written:
                continue
            _report_unwritten(subject, site, read, 1, written)


def _report_never_in_iteration(net: Net, subject: Subject) -> None:
    """Report what is read of `iter` and nobody puts there: neither a loop of the step nor a `set` of its tasks."""
    looping = {
        step.name: (_iteration_names(step), [loop.iterator for loop in loops(step.loop)])
        for step in net.steps.values()
        if step.loop is not None and all(loop.iterator for loop in loops(step.loop))
    }
    for site in subject.sites.all if looping else ():
        found = looping.get(site.place.step or "") if site.place.in_loop else None
        for read in site.template.reads if found is not None else ():
            # Each `parent` is the iteration around this one.
            at = next((index for index, part in enumerate(read.path[1:], 1) if part != "parent"), None)
            if read.path[0] != "iter" or at is None or found is None:
                continue
            written, iterators = found
            if read.path[at] not in written:
                _report_unwritten(subject, site, read, at, written)
            elif site.place.task is not None and len(iterators) > 1:
                _report_outer_iterator(subject, site, read, at, iterators)


def _report_outer_iterator(subject: Subject, site: Site, read: PathRead, at: int, iterators: list[str]) -> None:
    """Report the iterator of a loop around that is read as if it were the inner loop's own."""
    name, level = read.path[at], len(iterators) - at
    if name not in iterators or (level >= 0 and name == iterators[level]):
        return
    right = ".".join(("iter", *("parent",) * (len(iterators) - 1 - iterators.index(name)), name))
    subject.problems.warning(
        "never-set",
        f"`{'.'.join(read.path[: at + 1])}` is not there: `{name}` is the iterator of another of the step's loops",
        subject.where_path(site, read, at + 1),
        fix=f"write `{right}`",
    )


def _iteration_names(step: Step) -> set[str]:
    names = {"index", *(loop.iterator for loop in loops(step.loop))}
    for task in step.tasks:
        names.update(one.path[0] for one in task_assignments(task) if one.scope == "iter" and one.path)
    return names


def _report_unwritten(subject: Subject, site: Site, read: PathRead, at: int, written: set[str]) -> None:
    """Report a name of `ctx` or `iter`, the part of a path at an index, that is not among those written."""
    name, scope, where = read.path[at], ".".join(read.path[:at]), subject.where_path(site, read, at + 1)
    meant = subject.hints.nearest(name, written)
    subject.problems.warning(
        "never-set",
        f"nothing writes `{scope}.{name}`",
        where,
        fix=f"did you mean `{scope}.{meant}`?" if meant else "write it with `set`",
        edits=subject.rename_edits(where, name, subject.hints.certain(name, written)) if meant else (),
    )


# --- inputs ----------------------------------------------------------------------------------------------------


def _report_unused_inputs(net: Net, subject: Subject) -> None:
    read_in = _inputs_read(subject)
    blocks = _step_inputs(subject)
    for step in net.steps.values():
        if isinstance(step.input, Mapping):
            read = read_in.get((step.name, None), set())
            read = read.union(*(read_in.get((step.name, task.name), set()) for task in step.all_tasks))
            unread = [name for name in step.input if not _is_used(name, read, step.all_tasks, subject)]
            _report(unread, f"step `{step.name}`", blocks.get(step.name), subject)
    for owner, task in all_tasks(net.playbook):
        if isinstance(task.input, Mapping):
            read = read_in.get((owner.name if owner else None, task.name), set())
            unread = [name for name in task.input if not _is_used(name, read, (task,), subject)]
            _task_inputs(unread, task, owner, subject)


#: stands for every name: a template reads `input` as a whole
_ALL = "*"


def _inputs_read(subject: Subject) -> dict[tuple[str | None, str | None], set[str]]:
    """Which inputs the templates of each step and task read."""
    found: dict[tuple[str | None, str | None], set[str]] = {}
    for site in subject.sites.all:
        for read in site.template.reads:
            if read.path[0] == "input":
                name = read.path[1] if len(read.path) > 1 else _ALL
                found.setdefault((site.place.step, site.place.task), set()).add(name)
    return found


def _is_used(name: str, read: set[str], tasks: tuple[Task, ...], subject: Subject) -> bool:
    return name in read or _ALL in read or _is_argument(name, tasks, subject)


def _is_argument(name: str, tasks: tuple[Task, ...], subject: Subject) -> bool:
    """Whether a tool takes the input as an argument of its call."""
    return any(_takes(name, task, subject) for task in tasks)


def _takes(name: str, task: Task, subject: Subject) -> bool:
    kind = subject.kinds.get(task.kind)
    if kind is None:
        return True
    if kind.input is InputRole.CONFIGURES:
        return name in kind.keys
    if task.kind == "noop":
        return False
    code = task.config.get("code")
    if task.kind == "python" and isinstance(code, str):
        return bool(re.search(rf"\b{re.escape(name)}\b|\*\*\w|\binput_data\b|\blocals\(|\bglobals\(", code))
    return True


def _report(names: list[str], owner: str, block: MapNode | None, subject: Subject) -> None:
    for name in names:
        entry = block.entry(name) if block is not None else None
        if entry is not None:
            message = f"nothing in {owner} reads `input.{name}`"
            subject.problems.warning("unused-input", message, (entry.key.place, entry.key.end), fix="remove it")


def _task_inputs(names: list[str], task: Task, owner: Step | None, subject: Subject) -> None:
    kind = subject.kinds.get(task.kind)
    for name in names:
        if kind is not None and kind.input is InputRole.CONFIGURES:
            known = [one for one, key in kind.keys.items() if not key.reserved]
            meant = nearest(name, known)
            subject.problems.error(
                "unknown-key",
                f"`kind: {task.kind}` has no key `{name}`, and nothing reads `input.{name}`",
                task.input_at.get(name, task.at),
                fix=f"did you mean `{meant}`?" if meant else f"it takes: {', '.join(known)}",
            )
        else:
            where = f"task `{task.name}`" + (f" of step `{owner.name}`" if owner else "")
            subject.problems.warning(
                "unused-input",
                f"nothing in {where} reads `input.{name}`",
                task.input_at.get(name, task.at),
                fix="remove it",
            )


def _step_inputs(subject: Subject) -> dict[str, MapNode]:
    """The `input` blocks of the steps, by name."""
    workflow = subject.root.get("workflow")
    found: dict[str, MapNode] = {}
    for item in workflow.items if isinstance(workflow, ListNode) else []:
        name = item.get("step") if isinstance(item, MapNode) else None
        block = item.get("input") if isinstance(item, MapNode) else None
        if isinstance(name, Scalar) and isinstance(block, MapNode):
            found.setdefault(name.text, block)
    return found


# Names that are nearly known: `workload.nams` where there is `names`, `output.dta`.
#
# A name that is like no other is left alone: a payload may hold more than the workload declares.


_OUTPUT = frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"})
#: parts of an output under the names that other engines give them, and where they are
_OUTPUT_ELSEWHERE = {
    **dict.fromkeys(("response", "body", "result", "results", "json", "content", "value", "payload", "text"), "data"),
    **dict.fromkeys(("rows", "records", "items", "output"), "data"),
    **dict.fromkeys(("status_code", "code", "http_status"), "http.status"),
    "headers": "http.headers",
    **dict.fromkeys(("row_count", "rowcount"), "data | length"),
    **dict.fromkeys(("stdout", "stderr", "exit_code"), "data.{}"),
    **dict.fromkeys(("message", "kind", "retryable"), "error.{}"),
    **dict.fromkeys(("attempt", "duration_ms", "started_at", "finished_at"), "meta.{}"),
    "exception": "py.exception",
    "sqlstate": "pg.sqlstate",
    **dict.fromkeys(("ok", "success"), "status == 'ok'"),
    **dict.fromkeys(("failed", "is_error"), "status == 'error'"),
    **dict.fromkeys(("total", "completed", "succeeded"), "loop.{}"),
}


def report_near_names(subject: Subject) -> None:
    """Report names that differ from a known one by a slip of the finger."""
    known = {"workload": frozenset(subject.playbook.workload), "output": _OUTPUT}
    for site in subject.sites.all:
        for read in site.template.reads:
            names = known.get(read.path[0])
            if not names or len(read.path) < 2 or read.path[1] in names or len(read.path[1]) < UNLIKE:
                continue
            name, meant = read.path[1], subject.hints.nearest(read.path[1], names)
            if read.path[0] == "output" and not _has_helpers(subject):
                _report_part_of_output(subject, site, read, meant)
            elif meant is not None:
                at = subject.where_path(site, read, 2)
                subject.problems.warning(
                    "unknown-name",
                    f"`{read.path[0]}` has no `{name}`",
                    at,
                    fix=f"did you mean `{read.path[0]}.{meant}`?",
                    edits=subject.rename_edits(at, name, subject.hints.certain(name, names)),
                )


def _has_helpers(subject: Subject) -> bool:
    """Whether a task may add parts of its own to its output: a plugin's kind says nothing of them."""
    kinds = (subject.kinds.get(task.kind) for _step, task in all_tasks(subject.playbook))
    return any(kind is None or kind.settings is None for kind in kinds)


def _report_part_of_output(subject: Subject, site: Site, read: PathRead, near: str | None) -> None:
    """Report a part that no output has; in a `when` it would silently be undefined."""
    name, at = read.path[1], subject.where_path(site, read, 2)
    elsewhere = _OUTPUT_ELSEWHERE.get(name)
    if elsewhere is not None:
        fix = f"write `output.{elsewhere.format(name)}`"
    else:
        fix = f"did you mean `output.{near}`?" if near else f"an output has: {', '.join(sorted(_OUTPUT))}"
    certain = subject.hints.certain(name, _OUTPUT) if elsewhere is None and near else None
    edits = subject.rename_edits(at, name, certain)
    subject.problems.warning("unknown-name", f"`output` has no `{name}`", at, fix=fix, edits=edits)
