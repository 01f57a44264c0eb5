"""The credentials that a task uses: those that its `auth`, and parts of its configuration, name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from noetl.model.output import Failure, Output, failure
from noetl.model.playbook import Playbook, Step, Task
from noetl.ports import Call, Keychain, NoCredential

_UNAUTHORIZED = 401


async def authorize(call: Call, task: Task, keychain: Keychain) -> Call:
    """The call with its credentials. NoCredential: one of them is missing."""
    named = {name: await keychain.credential(name) for name in sorted(set(_names(call.config)))}
    auth = await _auth(call, task, keychain)
    if not named and not auth:
        return call
    return replace(call, auth=auth, auths=named, auth_name=_name(call, task))


async def with_new_token(call: Call, task: Task, output: Output, keychain: Keychain) -> Call | None:
    """The call with another token, when the one it had was refused; None: there is nothing to be gained by it."""
    if call.auth is None or output.get("http", {}).get("status") != _UNAUTHORIZED:
        return None
    name = _evaluate_auth(call, task)
    auth = await keychain.renew_credential(name, call.auth) if isinstance(name, str) else None
    return replace(call, auth=auth) if auth is not None else None


def failure_of(error: NoCredential) -> Failure:
    """A missing credential as data."""
    return failure("credential", str(error), retryable=error.retryable)


def keychain_reads(step: Step, playbook: Playbook) -> frozenset[str]:
    """The keychain entries that templates of a step's tasks read, those of the workbook included if it calls any."""
    tasks = list(step.tasks)
    if any(task.kind == "workbook" for task in tasks):
        tasks += [task for pipeline in playbook.workbook.values() for task in pipeline]
    return frozenset(name for task in tasks for name in _reads(task))


async def _auth(call: Call, task: Task, keychain: Keychain) -> dict[str, Any] | None:
    named = _evaluate_auth(call, task)
    if isinstance(named, Mapping):
        return {"kind": "generic", **named}
    if _is_secret_itself(task):
        return {"kind": "bearer", "token": str(named)}
    if named in (None, ""):
        return None
    return await keychain.credential(str(named))


def _is_secret_itself(task: Task) -> bool:
    """`auth: "{{ keychain.api.token }}"`"""
    return task.auth is not None and any(read.path[0] == "keychain" for read in _reads_of(task.auth))


def _name(call: Call, task: Task) -> str | None:
    """The name of the credential, for messages; None: it has none that may be told."""
    named = None if _is_secret_itself(task) else _evaluate_auth(call, task)
    return named if isinstance(named, str) and named else None


def _evaluate_auth(call: Call, task: Task) -> Any:
    return task.auth.evaluate(call.scopes) if task.auth is not None else None


def _names(config: Mapping[str, Any]) -> Iterator[str]:
    """Every `auth` of the ends of a transfer."""
    targets = config.get("targets")
    for end in [config.get("source"), *(targets if isinstance(targets, list) else [])]:
        if isinstance(end, Mapping) and isinstance(end.get("auth"), str):
            yield end["auth"]


def _reads(task: Task) -> Iterator[str]:
    values = [*task.config.values(), task.auth]
    values += list(task.input.values()) if isinstance(task.input, Mapping) else [task.input]
    for value in values:
        yield from (read.path[1] for read in _reads_of(value) if read.path[0] == "keychain" and len(read.path) > 1)


def _reads_of(value: Any) -> tuple[Any, ...]:
    facts = getattr(value, "facts", None)
    return facts.reads if facts is not None else ()
