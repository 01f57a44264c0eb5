"""Packages: that what a playbook uses or requires is installed where it is checked."""

from __future__ import annotations

from noetl.lang.checks.subject import Subject, all_tasks, transfer_ends
from noetl.lang.grammar.document_shape import RESERVED_KINDS
from noetl.lang.reading.node import ListNode, Scalar, map_of
from noetl.model.playbook import Task


def check(subject: Subject) -> None:
    """Report tools that are not installed: an error if the playbook requires them, else a warning, as a worker may have them."""
    for _step, task in all_tasks(subject.playbook):
        _used(subject, task)
    requires = map_of(map_of(subject.root, "executor"), "requires")
    tools = requires.get("tools") if requires is not None else None
    for item in tools.items if isinstance(tools, ListNode) else ():
        if isinstance(item, Scalar) and isinstance(item.value, str):
            _required(subject, item, item.value)


def _used(subject: Subject, task: Task) -> None:
    kind = subject.kinds.get(task.kind)
    if kind is None:
        return
    missing = [(f"`kind: {task.kind}`", kind.install)] if kind.install else []
    if kind.end_installs:
        missing += [(f"{name} ({end})", kind.end_installs.get(end, "")) for name, end in transfer_ends(task)]
    for what, install in missing:
        if install:
            subject.problems.warning(
                "missing-package",
                f"{what} of task `{task.name}` cannot run in this installation",
                subject.inside(task.at, f"kind: {task.kind}"),
                fix=f"run `{install}` here, or run the playbook where that is installed",
            )


def _required(subject: Subject, item: Scalar, name: str) -> None:
    kind = subject.kinds.get(name)
    if kind is not None and not kind.install:
        return
    meant = subject.hints.nearest(name, list(subject.kinds)) if kind is None else None
    if kind is not None:
        fix = f"run `{kind.install}`"
    elif name in RESERVED_KINDS:
        fix = RESERVED_KINDS[name]
    else:
        fix = f"did you mean `{meant}`? " if meant else ""
        fix += (
            f"Install the package of the plugin `{name}` (entry point group `noetl.tools`) in the environment of noetl"
        )
    at = item.alias or (item.start, item.end)
    subject.problems.error("missing-package", f"the tool kind `{name}` is required and not installed", at, fix=fix)
