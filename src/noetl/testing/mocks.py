"""Mock: what a task yields instead of running. Picked by who asks, never by how often it was asked.

An attempt that is run again after a death asks under the name it had, and is told what it was told before: the world
outside does not change because a process has died.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError, UsageError
from noetl.expr import Guard, render
from noetl.model.diagnostics import Span
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.ports import Call
from noetl.testing.file_grammar import HELPERS

# Cassette: what real tools answered once, kept beside the test file and played from then on.


VERSION = 1
#: what stands where a secret stood; whatever is asked there now fits it
MASK = "[redacted]"


class Recording(msgspec.Struct, frozen=True):
    """One call and its answer."""

    #: the playbook's path and the visit of the task: `examples/sync:start-1/0/fetch`
    run: str
    #: for people: `start.fetch`
    task: str
    asked: dict[str, Any]
    output: Output


class _File(msgspec.Struct):
    version: int = VERSION
    cases: dict[str, list[Recording]] = {}


class Cassette:
    """The recordings of one case."""

    def __init__(self, recordings: list[Recording]) -> None:
        self.recordings = recordings

    def record(self, run: str, task: str, asked: dict[str, Any], output: Output) -> None:
        """Record a call, without secrets; the same one again takes the place of the earlier."""
        self.recordings = [one for one in self.recordings if (one.run, one.asked) != (run, asked)]
        self.recordings.append(Recording(run, task, asked, output))

    def find(self, run: str, asked: dict[str, Any]) -> Output | str | None:
        """What was answered; None: it was never asked; a text: something else was asked, and what."""
        same = [one for one in self.recordings if one.run == run and one.asked["attempt"] == asked["attempt"]]
        for one in same:
            if _fits(one.asked, asked):
                return dict(one.output)
        return _difference(same[0].asked, asked) if same else None


def _difference(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    for key in sorted(recorded.keys() | asked.keys()):
        if not _fits(recorded.get(key), asked.get(key)):
            return f"`{key}` was {_abbreviate(recorded.get(key))} and is {_abbreviate(asked.get(key))}"
    return "nothing that could be told"


def _fits(recorded: Any, asked: Any) -> bool:
    """Whether what is asked is what was recorded, but for secrets, of which only the place is known."""
    if isinstance(recorded, str) and isinstance(asked, str) and MASK in recorded:
        pattern = ".*".join(map(re.escape, recorded.split(MASK)))
        return re.fullmatch(pattern, asked, re.DOTALL) is not None
    if isinstance(recorded, dict) and isinstance(asked, dict):
        return recorded.keys() == asked.keys() and all(_fits(recorded[key], asked[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(asked, list):
        return len(recorded) == len(asked) and all(map(_fits, recorded, asked))
    return bool(recorded == asked)


def _abbreviate(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"


class CassetteFile:
    """The cassette file of a test file, with the recordings of all of its cases."""

    def __init__(self, test_file: Path) -> None:
        stem = test_file.name.rpartition(".test.")[0] or test_file.stem
        self.path = test_file.with_name(f"{stem}.cassette.json")
        self._file = self._read()

    def _read(self) -> _File:
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=_File)
        except FileNotFoundError:
            return _File()
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{self.path}: cannot be read as a cassette ({error}); record it again") from None
        if found.version != VERSION:
            raise UsageError(f"{self.path}: this cassette is of version {found.version}; record it again")
        return found

    def cassette(self, case: str, *, recording: bool) -> Cassette:
        """The recordings of a case; an empty cassette to record on."""
        return Cassette([] if recording else list(self._file.cases.get(case, ())))

    def put(self, case: str, cassette: Cassette) -> None:
        """Keep what was recorded for a case."""
        self._file.cases.pop(case, None)
        if cassette.recordings:
            self._file.cases[case] = cassette.recordings

    def text(self, cases: list[str]) -> str:
        """The file as it is to be written: the recordings of cases that exist; empty when there are none."""
        self._file.cases = {name: self._file.cases[name] for name in cases if name in self._file.cases}
        if not self._file.cases:
            return ""
        return msgspec.json.format(msgspec.json.encode(self._file), indent=2).decode() + "\n"


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


#: the execution that a mocked child playbook would have had
_CHILD = "mocked"


def output_of(mock: Mock, call: Call, kind: str, scopes: Mapping[str, Any]) -> Output:
    """The output that a mock stands for."""
    said = {key: render(value, scopes) for key, value in mock.fixed.items() if key != "delay"}
    helpers = {key: said[key] for key in HELPERS if key in said}
    status = None
    if kind == "http" and ("http" in said or "error" not in said):
        helpers["http"] = _http(said.get("http") or {})
        status = helpers["http"]["status"]
    if kind == "playbook":
        helpers["meta"] = {"execution_id": _CHILD}
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
