"""RunTrace: what a run read and published, in one form for the older and the migrated text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.testing.verification.made_up_answers import SQL

#: step, task, iteration, and the number of the call among those with the same three
CallKey = tuple[str, str, str, int]


class TracedCall(msgspec.Struct, frozen=True):
    """One call of a tool: what it was given, and what it yielded."""

    kind: str
    #: by key, what was rendered for it
    read: Mapping[str, Any]
    status: str
    data: Any = None
    message: str = ""


class RunTrace(msgspec.Struct):
    """All that two runs are compared by."""

    calls: dict[CallKey, TracedCall] = {}
    #: by step, how each of its runs ended: `done` or `failed`
    steps: dict[str, list[str]] = {}
    ctx: dict[str, Any] = {}
    #: `completed` or `failed`
    status: str = "completed"
    #: why it ended early, if it did: what comes after cannot be compared
    stopped: str = ""


#: what http tasks may say in older and in present words
_HTTP = {"endpoint": "url", "payload": "json", "data": "json", "body": "json"}
_STATEMENT = ("query", "command", "commands", "sql")
_COMMAND = ("cmd", "cmds")


def view_call(kind: str, config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a task is given, by names that both texts have."""
    if kind in SQL:
        return {"statement": _loosen(next((config[key] for key in _STATEMENT if key in config), ""))}
    if kind == "shell":
        return {"command": _loosen(next((config[key] for key in _COMMAND if key in config), ""))}
    if kind == "http":
        read = {
            _HTTP.get(key, key): config[key] for key in config if key in ("url", "params", "headers", "json", *_HTTP)
        }
        method = str(config.get("method") or "GET").upper()
        return {"method": method, **{key: part for key, part in read.items() if part is not None}}
    if kind == "playbook":
        return {"path": config.get("path"), "input": dict(given)}
    return {"input": dict(given)} if kind == "python" else {}


#: characters that the filter `tojson` escapes, so that HTML can hold its text
_ESCAPED = {"\\u0027": "'", "\\u003c": "<", "\\u003e": ">", "\\u0026": "&"}


def _loosen(text: Any) -> str:
    """A statement without quotes and white space: older engines spliced values into it, the present one binds them."""
    whole = ";".join(map(str, text)) if isinstance(text, list) else str(text)
    for escaped, char in _ESCAPED.items():
        whole = whole.replace(escaped, char)
    return "".join(char for char in whole if char not in " \t\r\n;'\"\\")
