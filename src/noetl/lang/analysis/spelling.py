"""Names that are nearly known: `workload.nams` where there is `names`, `iter.nme`, `output.dta`.

A name that is like no other is left alone: a payload may hold more than the workload declares.
"""

from __future__ import annotations

from noetl.lang.checks.subject import Subject, loops, task_assignments
from noetl.model.net import Net
from noetl.model.playbook import Step

_OUTPUT = frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"})


def analyze(net: Net, subject: Subject) -> None:
    """Report names that differ from a known one by a slip of the finger."""
    workload = frozenset(subject.playbook.workload)
    in_iteration = {step.name: _iter_names(step) for step in net.steps.values() if step.loop is not None}
    for site in subject.sites.all:
        known = {"workload": workload, "output": _OUTPUT, "iter": in_iteration.get(site.place.step or "", frozenset())}
        for read in site.template.reads:
            names = known.get(read.path[0])
            # Of one or two letters every name is nearly another.
            if not names or len(read.path) < 2 or read.path[1] in names or len(read.path[1]) < 3:
                continue
            meant = subject.hints.nearest(read.path[1], names)
            if meant is not None:
                subject.problems.warning(
                    "unknown-name",
                    f"`{read.path[0]}` has no `{read.path[1]}`",
                    subject.where_path(site, read, 2),
                    fix=f"did you mean `{read.path[0]}.{meant}`?",
                )


def _iter_names(step: Step) -> frozenset[str]:
    names = {"index", "parent", *(loop.iterator for loop in loops(step.loop))}
    for task in step.tasks:
        names.update(one.path[0] for one in task_assignments(task) if one.scope == "iter" and one.path)
    return frozenset(names)
