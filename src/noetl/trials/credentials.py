"""Which credentials a case needs: those of the tasks that run for real, as far as they can be told before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from noetl.expr import Template, Value
from noetl.model.playbook import Credential, Task

#: the ends of a transfer, each with a credential of its own
ENDS = ("source", "targets")


def needed(keychain: tuple[Credential, ...], tasks: Iterable[Task]) -> tuple[Credential, ...]:
    """The entries that these tasks use; all of them where a name is known only when a task runs."""
    used = {name for task in tasks for name in _used(task)}
    return keychain if None in used else tuple(entry for entry in keychain if entry.name in used)


def _used(task: Task) -> Iterator[str | None]:
    """The names of the credentials of a task; None: one that nobody can tell yet."""
    for part in (task.auth, task.input, *task.config.values()):
        yield from _read(part)
    yield from _named(task.auth)
    for end in ENDS:
        yield from _of_ends(task.config.get(end))


def _read(part: Any) -> Iterator[str | None]:
    facts = getattr(part, "facts", None)
    for read in facts.reads if facts is not None else ():
        if read.path[0] == "keychain":
            yield read.path[1] if len(read.path) > 1 else None
    if isinstance(part, Mapping):
        for inner in part.values():
            yield from _read(inner)


def _of_ends(part: Any) -> Iterator[str | None]:
    tree = part.tree if isinstance(part, Value) else part
    for end in tree if isinstance(tree, list | tuple) else (tree,):
        if isinstance(end, Mapping):
            yield from _named(end.get("auth"))


def _named(auth: Any) -> Iterator[str | None]:
    if isinstance(auth, Value):
        auth = auth.tree
    if isinstance(auth, Template):
        # One that reads the keychain is the secret itself, and was counted with what is read.
        if not any(read.path[0] == "keychain" for read in auth.facts.reads):
            yield None
    elif isinstance(auth, str):
        yield auth
