"""Masking: a task that is not run needs no secrets; where its fields read some, their names stand instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl.expr import Template, Value, template
from noetl.lang.foresight import Sight
from noetl.model.playbook import Task
from noetl.trials.credentials import ENDS

_NOWHERE = Sight({})


def masked(task: Task) -> Task:
    """The task without its credentials: `Bearer {{ keychain.api.token }}` is `Bearer ‹secret: keychain.api.token›`."""
    config = {name: _masked(_anonymous(part) if name in ENDS else part) for name, part in task.config.items()}
    return replace(task, config=config, input=_masked(task.input), auth=None)


def _anonymous(ends: Any) -> Any:
    """The source or the targets of a transfer, which have credentials of their own, without those."""
    if isinstance(ends, Value):
        return ends.with_tree(_anonymous(ends.tree))
    if isinstance(ends, list | tuple):
        return [_anonymous(end) for end in ends]
    return {key: part for key, part in ends.items() if key != "auth"} if isinstance(ends, Mapping) else ends


def _masked(part: Any) -> Any:
    if isinstance(part, Value):
        return part.with_tree(_masked(part.tree)) if any(map(_reads_secrets, part.templates)) else part
    if isinstance(part, Template):
        return _without_secrets(part)
    if isinstance(part, Mapping):
        return {key: _masked(inner) for key, inner in part.items()}
    return [_masked(inner) for inner in part] if isinstance(part, list | tuple) else part


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
