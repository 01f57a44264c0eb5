"""Bounds that bind nothing: limits of a process on a task that has none."""

from __future__ import annotations

from noetl.lang.checks.subject import Subject, all_tasks

#: what binds the process of a tool, and nothing else
_OF_A_PROCESS = ("limits.memory_mb", "limits.cpu_s", "limits.processes")


def check(subject: Subject) -> None:
    """Report what a task says of a process that it does not have; what it inherits is meant for others."""
    for _step, task in all_tasks(subject.playbook):
        kind = subject.kinds.get(task.kind)
        if kind is None or kind.has_process:
            continue
        own = [key for key in _OF_A_PROCESS if key in task.spec and task.spec[key].origin == "task.spec"]
        isolation = task.spec.get("isolation")
        if isolation is not None and isolation.value == "strict" and isolation.origin == "task.spec":
            own.append("isolation")
        for key in own:
            subject.problems.warning(
                "no-effect",
                f"`kind: {task.kind}` runs in no process of its own: `{key}` binds nothing",
                subject.inside(task.at, key.rpartition(".")[2]),
                fix="remove it, or put it where python and shell tasks inherit it",
            )
