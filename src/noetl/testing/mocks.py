"""Mock: what a task yields instead of running. Picked by who asks, never by how often it was asked.

An attempt that is run again after a death asks under the name it had, and is told what it was told before: the world
outside does not change because a process has died.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.expr import Guard, render
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.model.source import Span
from noetl.ports import Call
from noetl.testing.file_grammar import HELPERS

#: statuses of 400 and more that are worth another attempt
_LATER = frozenset({408, 425, 429})
#: the kind of an error for which the mock names none
_KINDS = {
    "http": "http-transport", "python": "python", "shell": "shell", "postgres": "sql", "duckdb": "sql",
    "playbook": "playbook", "wait": "timeout",
}  # fmt: skip


class CallCounts(msgspec.Struct, frozen=True):
    """Who asks: which call of the task it is, counted in each way that a list of mocks may be gone through."""

    #: over the whole run, from 0
    calls: int
    #: within the visit, from 0
    attempts: int
    #: within the pipeline, from 0
    visits: int
    #: the indices of the iteration, from the outside in
    iterations: tuple[int, ...]


class NoMockOutput(NoetlError):
    """The mock has nothing to say to this call."""

    def __init__(self, message: str, at: Span) -> None:
        super().__init__(message)
        self.at = at


class Mock(msgspec.Struct, frozen=True):
    """What a task yields; exactly one of the ways to say it."""

    at: Span
    #: compiled values by the keys of the grammar: `data`, `error`, `http`, `pg`, `py`, `delay`
    fixed: Mapping[str, Any] = {}
    #: `calls`, `attempts`, `visits` or `iterations`
    counted: str | None = None
    parts: tuple[Mock, ...] = ()
    choose: tuple[tuple[Guard | None, Mock], ...] = ()


def pick(mock: Mock, asked: CallCounts, scopes: Mapping[str, Any]) -> Mock:
    """The mock that speaks to this call, with nothing left to choose."""
    if mock.counted is not None:
        return pick(*_part(mock, asked), scopes)
    for when, then in mock.choose:
        if when is None or when.evaluate(scopes):
            return pick(then, asked, scopes)
    if mock.choose:
        raise NoMockOutput("no branch of this `choose` matches the call, and there is no `else`", mock.at)
    return mock


def _part(mock: Mock, asked: CallCounts) -> tuple[Mock, CallCounts]:
    word = str(mock.counted)
    if word == "iterations":
        if not asked.iterations:
            raise NoMockOutput("`iterations` is for tasks inside of a loop, and this call is not", mock.at)
        index, asked = asked.iterations[0], msgspec.structs.replace(asked, iterations=asked.iterations[1:])
    else:
        index = getattr(asked, word)
    if index >= len(mock.parts):
        items = f"{len(mock.parts)} items" if len(mock.parts) > 1 else "1 item"
        raise NoMockOutput(f"its `{word}` has {items}, and this is {word.removesuffix('s')} {index + 1}", mock.at)
    return mock.parts[index], asked


def output_of(mock: Mock, call: Call, kind: str, scopes: Mapping[str, Any]) -> Output:
    """The output that a mock stands for."""
    said = {key: render(value, scopes) for key, value in mock.fixed.items() if key != "delay"}
    helpers = {key: said[key] for key in HELPERS if key in said}
    status = None
    if kind == "http" and ("http" in said or "error" not in said):
        helpers["http"] = _http(said.get("http") or {})
        status = helpers["http"]["status"]
    refused = isinstance(status, int) and status >= 400
    if said.get("error") is None and not refused:
        return ok(said.get("data"), **helpers)
    return failed(_failure(said, call, kind, status if refused else None), **helpers)


def _http(said: Mapping[str, Any]) -> dict[str, Any]:
    headers = {str(name).lower(): value for name, value in (said.get("headers") or {}).items()}
    return {"status": 200, **said, "headers": headers}


def _failure(said: Mapping[str, Any], call: Call, kind: str, status: int | None) -> Failure:
    """The error of a mock; what it does not say is as the tool would say it."""
    told = said.get("error")
    given = dict(told) if isinstance(told, Mapping) else {"message": str(told)} if told is not None else {}
    by_default = {"kind": _KINDS.get(kind, "fail"), "message": f"`{call.task}` fails, says its mock"}
    if status is not None:
        where = f"{call.config.get('method') or 'GET'} {call.config.get('url')}"
        by_default = {"kind": "http-status", "message": f"{where}: {status} {_phrase(status)}".rstrip()}
        given = {"status": status, "retryable": status >= 500 or status in _LATER, **given}
        if said.get("data") is not None:
            given.setdefault("body", said["data"])
    made = {**by_default, **given}
    retryable = bool(made.pop("retryable", made["kind"] in ("timeout", "http-transport")))
    return failure(str(made.pop("kind")), str(made.pop("message")), retryable=retryable, **made)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""


def delay_of(mock: Mock, scopes: Mapping[str, Any]) -> float:
    """How long the task takes, in seconds."""
    said = render(mock.fixed.get("delay", 0), scopes)
    try:
        return max(0.0, float(said))
    except (TypeError, ValueError):
        raise NoMockOutput(f"`delay` is {said!r}, and should be a number of seconds", mock.at) from None
