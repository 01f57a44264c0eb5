"""Masking: a task that is not run needs no secrets; where its fields read some, their names stand instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from noetl.expr import Template, TemplateValue, template
from noetl.lang import KnownValues
from noetl.model.playbook import Credential, Task

# Which credentials a case needs: those of the tasks that run for real, as far as they can be told before.


#: the ends of a transfer, each with a credential of its own
ENDS = ("source", "targets")


def select_credentials(keychain: tuple[Credential, ...], tasks: Iterable[Task]) -> tuple[Credential, ...]:
    """The entries that these tasks use; all of them where a name is known only when a task runs."""
    used = {name for task in tasks for name in _credential_names(task)}
    return keychain if None in used else tuple(entry for entry in keychain if entry.name in used)


def _credential_names(task: Task) -> Iterator[str | None]:
    """The names of the credentials of a task; None: one that nobody can tell yet."""
    for part in (task.auth, task.input, *task.config.values()):
        yield from _read(part)
    yield from _auth_name(task.auth)
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
    tree = part.tree if isinstance(part, TemplateValue) else part
    for end in tree if isinstance(tree, list | tuple) else (tree,):
        if isinstance(end, Mapping):
            yield from _auth_name(end.get("auth"))


def _auth_name(auth: Any) -> Iterator[str | None]:
    if isinstance(auth, TemplateValue):
        auth = auth.tree
    if isinstance(auth, Template):
        # One that reads the keychain is the secret itself, and was counted with what is read.
        if not any(read.path[0] == "keychain" for read in auth.facts.reads):
            yield None
    elif isinstance(auth, str):
        yield auth


_NOWHERE = KnownValues({})


def mask_secrets(task: Task) -> Task:
    """The task without its credentials: `Bearer {{ keychain.api.token }}` is `Bearer ‹secret: keychain.api.token›`."""
    config = {name: _mask(_anonymous(part) if name in ENDS else part) for name, part in task.config.items()}
    return replace(task, config=config, input=_mask(task.input), auth=None)


def _anonymous(ends: Any) -> Any:
    """The source or the targets of a transfer, which have credentials of their own, without those."""
    if isinstance(ends, TemplateValue):
        return ends.with_tree(_anonymous(ends.tree))
    if isinstance(ends, list | tuple):
        return [_anonymous(end) for end in ends]
    return {key: part for key, part in ends.items() if key != "auth"} if isinstance(ends, Mapping) else ends


def _mask(part: Any) -> Any:
    if isinstance(part, TemplateValue):
        return part.with_tree(_mask(part.tree)) if any(map(_reads_secrets, part.templates)) else part
    if isinstance(part, Template):
        return _without_secrets(part)
    if isinstance(part, Mapping):
        return {key: _mask(inner) for key, inner in part.items()}
    return [_mask(inner) for inner in part] if isinstance(part, list | tuple) else part


def _reads_secrets(one: Template) -> bool:
    return any(read.path[0] == "keychain" for read in one.facts.reads)


def _without_secrets(one: Template) -> Any:
    if not _reads_secrets(one):
        return one
    if one.parts is None or one.is_expression:
        return _NOWHERE.mark(one.source, one.facts)
    texts = [part if isinstance(part, str) else _expression(part[0].source) for part in one.parts]
    return template("".join(texts))


def _expression(source: str) -> str:
    whole = template(f"{{{{ {source} }}}}")
    return _NOWHERE.mark(source, whole.facts) if _reads_secrets(whole) else whole.source
