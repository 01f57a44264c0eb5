"""Secrets: where the keychain may be read, that what is read is declared, and credentials written in plain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.expr.scopes import Boundary
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.node import ListNode, MapNode, Node, Scalar, plain, walk
from noetl.lang.sorts import is_template
from noetl.model.diagnostics import Where

_MAY_READ = frozenset({Boundary.TASK_CONFIG, Boundary.TASK_INPUT, Boundary.KEYCHAIN})
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|auth[_-]?token|access[_-]?token"
    r"|refresh[_-]?token|bearer[_-]?token)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:^|\s)(?:Bearer|Basic|Token)\s+[A-Za-z0-9._~+/=-]{12,}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}|\bxox[baprs]-[A-Za-z0-9-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|://[^/\s:@{]+:[^/\s:@{]{3,}@"
)
#: how far into a text a credential is looked for: a text of megabytes would take seconds
_FAR = 10_000
#: what people write to say that the real value comes from elsewhere
_PLACEHOLDER = re.compile(
    r"^$|^[*x.]+$|^<.*>$|^\$\{?\w+\}?$|change[-_ ]?me|example|placeholder|your[-_ ]|^none$", re.IGNORECASE
)


def check(subject: Subject) -> None:
    """Report secrets that could leave the place they are meant for."""
    declared = {credential.name for credential in subject.playbook.keychain}
    for site in subject.sites.all:
        for read in site.template.reads:
            if read.path[0] != "keychain":
                continue
            if site.is_when or site.place.boundary not in _MAY_READ:
                subject.problems.error(
                    "secret-escape",
                    "a secret may not leave the task that uses it",
                    subject.where_path(site, read, 2),
                    fix="read `keychain` in a task's `auth`, `input` or own keys only",
                )
            elif len(read.path) > 1 and read.path[1] not in declared:
                _undeclared(subject, read.path[1], declared, subject.where_path(site, read, 2))
    for _step, task in all_tasks(subject.playbook):
        name = task.auth.tree if task.auth is not None and task.auth.constant else None
        if isinstance(name, str) and name not in declared:
            _undeclared(subject, name, declared, task.auth_at)
    if any(task.kind == "transfer" for _step, task in all_tasks(subject.playbook)):
        _in_transfers(subject, declared)
    _in_plain(subject, subject.root, "")


def _in_transfers(subject: Subject, declared: set[str]) -> None:
    """A transfer's source and targets name their own credentials."""
    for block in ("workflow", "workbook"):
        root = subject.root.get(block)
        for node in walk(root) if root is not None else ():
            if isinstance(node, MapNode) and plain(node.get("kind")) == "transfer":
                for end in _ends(node):
                    auth = end.get("auth")
                    name = plain(auth)
                    if auth is not None and isinstance(name, str) and not is_template(name) and name not in declared:
                        _undeclared(subject, name, declared, auth.alias or (auth.start, auth.end))


def _ends(transfer: MapNode) -> Iterator[MapNode]:
    for node in (transfer, transfer.get("input")):
        if isinstance(node, MapNode):
            source, targets = node.get("source"), node.get("targets")
            ends = [source, *(targets.items if isinstance(targets, ListNode) else [])]
            yield from (end for end in ends if isinstance(end, MapNode))


def _undeclared(subject: Subject, name: str, declared: set[str], at: Where) -> None:
    meant = subject.hints.nearest(name, declared)
    subject.problems.warning(
        "unknown-credential",
        f"the keychain does not declare `{name}`",
        at,
        fix=f"did you mean `{meant}`?" if meant else f"add `- {{name: {name}, kind: …}}` to `keychain`",
        edits=subject.renaming(at, name, subject.hints.certain(name, declared)) if meant else (),
    )


def _in_plain(subject: Subject, node: Node, name: str) -> None:
    if isinstance(node, MapNode):
        for entry in node.entries:
            if not (node is subject.root and entry.name == "metadata"):
                _in_plain(subject, entry.value, entry.name)
    elif isinstance(node, ListNode):
        for item in node.items:
            _in_plain(subject, item, name)
    elif _looks_secret(node, name):
        subject.problems.warning(
            "secret-in-plain",
            f"`{name}` looks like a credential in plain text",
            node.alias or (node.start, node.end),
            fix="declare it under `keychain` and read it from there",
        )


def _looks_secret(node: Scalar, name: str) -> bool:
    value = node.value
    # `secret` holds the name of a secret, not the secret.
    if not isinstance(value, str) or name in ("code", "desc", "description", "secret"):
        return False
    if len(value) > 12 and not is_template(value) and _SECRET_VALUE.search(value, 0, _FAR):
        return True
    return (
        len(value) >= 6
        and " " not in value
        and not is_template(value)
        and bool(_SECRET_NAME.search(name))
        and not _PLACEHOLDER.search(value)
    )
