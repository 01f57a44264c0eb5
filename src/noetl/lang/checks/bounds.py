"""Bounds that bind nothing, and bounds that cannot be kept: both look as if something were bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.lang.checks.subject import Subject, all_tasks
from noetl.model.kinds import ToolKind
from noetl.model.playbook import Task

#: what binds the process of a tool, and nothing else
_OF_A_PROCESS = ("limits.memory_mb", "limits.cpu_s", "limits.processes")


def check(subject: Subject) -> None:
    """Report what a task says of a process that it does not have, and tasks that will not be run."""
    for _step, task in all_tasks(subject.playbook):
        kind = subject.kinds.get(task.kind)
        if kind is not None:
            _report_without_effect(subject, task, kind)
            _report_unenforced(subject, task, kind)


def _report_without_effect(subject: Subject, task: Task, kind: ToolKind) -> None:
    """What a task inherits is meant for others; what it says itself is meant for it."""
    own = [key for key in _OF_A_PROCESS if key in task.spec and task.spec[key].origin == "task.spec"]
    isolation = task.spec.get("isolation")
    if isolation is not None and isolation.value == "strict" and isolation.origin == "task.spec":
        own.append("isolation")
    for key in own:
        if not kind.has_process and key not in kind.binds:
            subject.problems.warning(
                "no-effect",
                f"`kind: {task.kind}` runs in no process of its own: `{key}` binds nothing",
                subject.inside(task.at, key.rpartition(".")[2]),
                fix="remove it, or put it where python and shell tasks inherit it",
            )


def _report_unenforced(subject: Subject, task: Task, kind: ToolKind) -> None:
    forbidden = _network_restriction(task)
    if forbidden is None:
        return
    key, origin = forbidden
    where = "" if origin == "task.spec" else f" of `{origin}`"
    if not kind.keeps_network:
        # Without a process that the network could be taken from, strict isolation says nothing of it.
        if key == "isolation: strict":
            return
        message = f"`kind: {task.kind}` cannot keep `{key}`{where}: the task is not going to be run"
        subject.problems.error("not-kept", message, task.at, fix="leave the restriction out, or use another kind")
        return
    for name, end in _ends(task):
        if end in kind.remote and not (key == "allow_hosts" and end == "http"):
            subject.problems.error(
                "not-kept",
                f"{name} ({end}) needs a network, and `{key}`{where} leaves none: the task is not going to be run",
                task.at,
                fix="say `network: on` beside it" if key == "isolation: strict" else "leave the restriction out",
            )
            return


def _network_restriction(task: Task) -> tuple[str, str] | None:
    """What keeps a task from the network, or from a part of it, and which layer says so."""
    network, hosts, isolation = (task.spec.get(key) for key in ("network", "allow_hosts", "isolation"))
    if network is not None and network.value == "off":
        return "network: off", network.origin
    if hosts is not None and "*" not in hosts.value:
        return "allow_hosts", hosts.origin
    if isolation is not None and isolation.value == "strict" and network is None:
        return "isolation: strict", isolation.origin
    return None


def _ends(task: Task) -> Iterator[tuple[str, str]]:
    """The source and the targets of a transfer, and their kinds; as much of them as stands there in plain words."""
    given = {**task.config, **(task.input if isinstance(task.input, Mapping) else {})}
    source, targets = (getattr(given.get(key), "tree", given.get(key)) for key in ("source", "targets"))
    listed = targets if isinstance(targets, list | tuple) else ()
    named: list[tuple[str, Any]] = [
        ("the source", source),
        *((f"target {at}", one) for at, one in enumerate(listed, 1)),
    ]
    yield from ((name, str(end.get("kind"))) for name, end in named if isinstance(end, Mapping))
