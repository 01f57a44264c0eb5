"""Cassette: what real tools answered once, kept beside the test file and played from then on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.output import Output

VERSION = 1
#: what is taken out of everything that is written; a keychain puts its own in place
Redact = Callable[[Any], Any]


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

    def __init__(self, recordings: list[Recording], redact: Redact) -> None:
        self.recordings = recordings
        self._redact = redact

    def keep(self, run: str, task: str, asked: dict[str, Any], output: Output) -> None:
        """Record a call; the same one again takes the place of the earlier."""
        asked, output = self._redact(asked), self._redact(output)
        self.recordings = [one for one in self.recordings if (one.run, one.asked) != (run, asked)]
        self.recordings.append(Recording(run, task, asked, output))

    def find(self, run: str, asked: dict[str, Any]) -> Output | str | None:
        """What was answered; None: it was never asked; a text: something else was asked, and what."""
        asked = self._redact(asked)
        same = [one for one in self.recordings if one.run == run and one.asked["attempt"] == asked["attempt"]]
        for one in same:
            if one.asked == asked:
                return dict(one.output)
        return _difference(same[0].asked, asked) if same else None


def _difference(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    for key in sorted(recorded.keys() | asked.keys()):
        if recorded.get(key) != asked.get(key):
            return f"`{key}` was {_shown(recorded.get(key))} and is {_shown(asked.get(key))}"
    return "nothing that could be told"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"


class Shelf:
    """The cassette file of a test file, with the recordings of all of its cases."""

    def __init__(self, test_file: Path, redact: Redact = lambda value: value) -> None:
        stem = test_file.name.rpartition(".test.")[0] or test_file.stem
        self.path = test_file.with_name(f"{stem}.cassette.json")
        self._redact = redact
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
        return Cassette([] if recording else list(self._file.cases.get(case, ())), self._redact)

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
