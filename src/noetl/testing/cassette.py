"""Cassette: what real tools answered once, kept beside the test file and played from then on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.output import Output

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
