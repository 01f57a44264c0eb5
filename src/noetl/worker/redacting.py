"""Facts on their way out: what a pipeline knows is real, what is recorded of it has no secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl.model.events import Fact
from noetl.model.redaction import Redactor
from noetl.pipeline.replay import OUTPUT

#: parts of payloads that hold nothing but the engine's own words and numbers
_OURS = frozenset({"do", "to", "rule", "delay", "until", "stop", "kind", "status", "retryable", "task", "execution_id"})
_MADE_HERE = frozenset({"ref", "meta"})
#: parts whose keys are the engine's, or are known from the playbook; below them everything is data
_FRAMES = frozenset({"output", "error", "http", "py", "pg", "set", "wait", "child", "cause"})


def redacted(fact: Fact, redactor: Redactor) -> Fact:
    """A fact without secrets; the end of a task says what of it was redacted."""
    payload, found = _frame(fact.payload, redactor)
    if not found:
        return fact
    if fact.name == "task.done":
        payload["redacted"] = _places(fact.payload, payload)
    return replace(fact, payload=payload)


def _places(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`output`, and the targets of `set`."""
    patch = before.get("set", {})
    places = [target for target, value in patch.items() if after["set"][target] != value]
    return places if before["output"] == after["output"] else [OUTPUT, *places]


def _frame(part: Mapping[str, Any], redactor: Redactor) -> tuple[dict[str, Any], bool]:
    """A map whose keys stay as they are."""
    made: dict[str, Any] = {}
    found = False
    for key, value in part.items():
        if key in _FRAMES and isinstance(value, Mapping):
            made[key], changed = _frame(value, redactor)
        elif key in _MADE_HERE or (key in _OURS and not isinstance(value, (Mapping, list))):
            made[key], changed = value, False
        else:
            made[key], changed = redactor.clean(value)
        found = found or changed
    return made, found
