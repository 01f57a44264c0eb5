"""Secrets: where the keychain may be read, that what is read is declared, and credentials written in plain."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from noetl.expr import EvaluationPoint
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.grammar.value_types import is_template
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, plain_value, walk_nodes
from noetl.model.diagnostics import Where
from noetl.model.playbook import Task

_MAY_READ = frozenset({EvaluationPoint.TASK_CONFIG, EvaluationPoint.TASK_INPUT, EvaluationPoint.KEYCHAIN})
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
#: keys of a keychain entry that hold the secret itself
_OF_AN_ENTRY = frozenset({"token", "password", "client_secret", "value", "secret_access_key"})
#: headers that say who asks: what stands behind the scheme is a secret, however short
_HEADERS = frozenset({"authorization", "proxy-authorization"})
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+\S{6,}", re.IGNORECASE)
#: what a credential of a kind has
_FIELDS = {
    "bearer": frozenset({"token"}),
    "basic": frozenset({"username", "password"}),
    "header": frozenset({"value", "header", "prefix"}),
}
_PROVIDERS = ("env", "file", "store", "vault")
#: how far into a text a credential is looked for: a text of megabytes would take seconds
_FAR = 10_000
#: what people write to say that the real value comes from elsewhere
_PLACEHOLDER = re.compile(
    r"^$|^[*x.]+$|^<.*>$|^\$\{?\w+\}?$|change[-_ ]?me|example|placeholder|your[-_ ]|^none$", re.IGNORECASE
)


def check(subject: Subject) -> None:
    """Report secrets that could leave the place they are meant for."""
    declared = {credential.name: credential.kind for credential in subject.playbook.keychain}
    _providers(subject)
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
                _report_undeclared(subject, read.path[1], declared, subject.where_path(site, read, 2))
            elif len(read.path) > 2:
                _field(subject, declared[read.path[1]], read.path[2], subject.where_path(site, read, 3))
    for _step, task in all_tasks(subject.playbook):
        _of_task(subject, task, declared)
    if any(task.kind == "transfer" for _step, task in all_tasks(subject.playbook)):
        _in_transfers(subject, declared)
    _in_plain(subject, subject.root, "")


def _field(subject: Subject, kind: str, name: str, at: Where) -> None:
    """A source may bring more than its kind asks for; what is nearly a known part is a slip."""
    known = _FIELDS.get(kind, frozenset())
    meant = subject.hints.nearest(name, known) if name not in known else None
    if meant is not None:
        subject.problems.warning(
            "unknown-credential",
            f"a `{kind}` has no `{name}`, but {', '.join(sorted(known))}",
            at,
            fix=f"did you mean `{meant}`?",
            edits=subject.rename_edits(at, name, subject.hints.certain(name, known)),
        )


def _providers(subject: Subject) -> None:
    """A provider may be a plugin's; one that is nearly a known one is a slip."""
    for credential in subject.playbook.keychain:
        provider = credential.settings.get("provider")
        name = provider.tree if provider is not None and provider.constant else None
        meant = subject.hints.nearest(name, _PROVIDERS) if isinstance(name, str) and name not in _PROVIDERS else None
        if meant is not None:
            subject.problems.warning(
                "unknown-credential",
                f"`{credential.name}` names the provider `{name}`, which is none of {', '.join(_PROVIDERS)}",
                subject.inside(credential.at, str(name)),
                fix=f"did you mean `{meant}`? Another name is that of a plugin",
            )


def _of_task(subject: Subject, task: Task, declared: Mapping[str, str]) -> None:
    name = task.auth.tree if task.auth is not None and task.auth.constant else None
    if isinstance(name, str):
        _check_auth(subject, name, declared, task.auth_at, task.kind)
    elif task.auth is None and _credential_kinds(subject, task.kind):
        subject.problems.error(
            "missing-key", f"`kind: {task.kind}` needs `auth` (the keychain entry to use)", task.at, fix="add `auth`"
        )


def _check_auth(subject: Subject, name: str, declared: Mapping[str, str], at: Where, kind: str) -> None:
    """An `auth` of a task, or of an end of a transfer, of some kind."""
    fitting = _credential_kinds(subject, kind)
    if name not in declared:
        _report_undeclared(subject, name, declared, at)
    elif fitting and declared[name] not in fitting:
        subject.problems.error(
            "wrong-value",
            f"`{name}` is a `{declared[name]}`, and `kind: {kind}` needs a `{kind}_credential`",
            at,
            fix=f"name a keychain entry of one of these kinds: {', '.join(sorted(fitting))}",
        )


def _credential_kinds(subject: Subject, kind: str) -> frozenset[str]:
    known = subject.kinds.get(kind)
    return known.opened_by if known is not None else frozenset()


def _in_transfers(subject: Subject, declared: Mapping[str, str]) -> None:
    """A transfer's source and targets name their own credentials."""
    for block in ("workflow", "workbook"):
        root = subject.root.get(block)
        for node in walk_nodes(root) if root is not None else ():
            if isinstance(node, MapNode) and plain_value(node.get("kind")) == "transfer":
                for end in _ends(node):
                    auth = end.get("auth")
                    name = plain_value(auth)
                    if auth is not None and isinstance(name, str) and not is_template(name):
                        at = auth.alias or (auth.start, auth.end)
                        _check_auth(subject, name, declared, at, str(plain_value(end.get("kind"))))


def _ends(transfer: MapNode) -> Iterator[MapNode]:
    for node in (transfer, transfer.get("input")):
        if isinstance(node, MapNode):
            source, targets = node.get("source"), node.get("targets")
            ends = [source, *(targets.items if isinstance(targets, ListNode) else [])]
            yield from (end for end in ends if isinstance(end, MapNode))


def _report_undeclared(subject: Subject, name: str, declared: Collection[str], at: Where) -> None:
    meant = subject.hints.nearest(name, declared)
    subject.problems.warning(
        "unknown-credential",
        f"the keychain does not declare `{name}`",
        at,
        fix=f"did you mean `{meant}`?" if meant else f"add `- {{name: {name}, kind: …}}` to `keychain`",
        edits=subject.rename_edits(at, name, subject.hints.certain(name, declared)) if meant else (),
    )


def _in_plain(subject: Subject, node: Node, name: str, *, keychain: bool = False) -> None:
    if isinstance(node, MapNode):
        for entry in node.entries:
            if not (node is subject.root and entry.name == "metadata"):
                inside = keychain or (node is subject.root and entry.name == "keychain")
                _in_plain(subject, entry.value, entry.name, keychain=inside)
    elif isinstance(node, ListNode):
        for item in node.items:
            _in_plain(subject, item, name, keychain=keychain)
    elif _looks_secret(node, name) or (keychain and name in _OF_AN_ENTRY and _is_written_out(node)):
        subject.problems.warning(
            "secret-in-plain",
            f"`{name}` looks like a credential in plain text",
            node.alias or (node.start, node.end),
            fix="take it from elsewhere: `from: {env: NAME}`, or the credential store (`noetl credential add`)"
            if keychain
            else "declare it under `keychain` and read it from there",
        )


def _looks_secret(node: Scalar, name: str) -> bool:
    value = node.value
    # `secret` holds the name of a secret, not the secret.
    if not isinstance(value, str) or name in ("code", "desc", "description", "secret"):
        return False
    if len(value) > 12 and not is_template(value) and _SECRET_VALUE.search(value, 0, _FAR):
        return True
    if name.lower() in _HEADERS and not is_template(value) and _SCHEME.fullmatch(value):
        return not _PLACEHOLDER.search(value.split()[-1])
    return bool(_SECRET_NAME.search(name)) and _is_written_out(node)


def _is_written_out(node: Scalar) -> bool:
    """Whether a value is one that somebody has written down, and no template or placeholder."""
    value = node.value
    return (
        isinstance(value, str)
        and len(value) >= 6
        and " " not in value
        and not is_template(value)
        and not _PLACEHOLDER.search(value)
    )
