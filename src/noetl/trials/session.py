"""Session: test files run one after the other, and what became of each case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.lang import Loaded
from noetl.lang.workload import misfits
from noetl.model.diagnostics import Diagnostic, Severity
from noetl.model.scope import merged
from noetl.model.source import Source, Span
from noetl.ports import Source as PlaybookSource
from noetl.server.catalog import Catalog
from noetl.tools.registry import Kinds
from noetl.trials.cassette import Shelf
from noetl.trials.crash import Deaths, crash_everywhere
from noetl.trials.expect import unmet
from noetl.trials.names import check_names
from noetl.trials.perform import Performance, Performer
from noetl.trials.stage import Stage
from noetl.trials.suite import Case, Suite, load_suite


class Wishes(msgspec.Struct, frozen=True):
    """How a session goes."""

    chosen: Callable[[str], bool] = lambda _name: True
    crash: bool = False
    record: bool = False


class Failure(msgspec.Struct, frozen=True):
    """One thing that is wrong with a case."""

    at: Span | None
    message: str
    fix: str | None = None
    expected: Any = None
    got: Any = None


class Result(msgspec.Struct, frozen=True):
    """What became of a case."""

    case: Case
    #: `passed`, `failed`, `error` (it could not be judged) or `skipped`
    status: str
    failures: tuple[Failure, ...] = ()
    done: Performance | None = None
    deaths: Deaths | None = None
    #: of real time
    seconds: float = 0.0


class Ran(msgspec.Struct, frozen=True):
    """What became of a test file."""

    file: Path
    source: Source
    #: what keeps it from running; the playbook's own problems come with the playbook's source
    problems: tuple[tuple[Source, tuple[Diagnostic, ...]], ...] = ()
    results: tuple[Result, ...] = ()
    #: recordings to be written, and where
    cassette: tuple[Path, str] | None = None

    @property
    def invalid(self) -> bool:
        """Whether it could not be run at all."""
        return bool(self.problems)


class Session:
    """Runs test files; what was compiled for one serves the next."""

    def __init__(self, wishes: Wishes, home: Path, environment: dict[str, str]) -> None:
        self.wishes = wishes
        self.home = home
        self.environment = environment
        self.catalog = Catalog(Kinds())

    def run(
        self,
        file: Path,
        data: bytes,
        name: str,
        heard: Callable[[Ran, Result], None],
        *,
        until: Callable[[], bool] = lambda: False,
    ) -> Ran:
        """Run the cases of a file, `until` it is enough; `heard` is told of each as soon as it is known."""
        suite = load_suite(data, file, name)
        problems: list[tuple[Source, tuple[Diagnostic, ...]]] = []
        if suite.diagnostics:
            problems.append((suite.source, suite.diagnostics))
        loaded, source = self._playbook(suite, problems)
        if source is None or loaded is None or loaded.net is None or not suite.cases:
            return Ran(file, suite.source, tuple(problems))
        strange = check_names(suite, loaded.net, self.catalog.kinds)
        if strange:
            return Ran(file, suite.source, ((suite.source, strange),))
        shelf = Shelf(file)
        ran = Ran(file, suite.source)
        results = []
        performer = Performer(self.catalog, source, self.home, self.environment)
        for case in suite.cases:
            if until() or not self.wishes.chosen(f"{name}::{case.name}"):
                continue
            results.append(self._case(case, suite, loaded, performer, shelf))
            heard(ran, results[-1])
        text = shelf.text([case.name for case in suite.cases]) if self.wishes.record else ""
        return msgspec.structs.replace(
            ran, results=tuple(results), cassette=(shelf.path, text) if self.wishes.record else None
        )

    def _playbook(self, suite: Suite, problems: list[Any]) -> tuple[Loaded | None, PlaybookSource | None]:
        if suite.playbook is None:
            return None, None
        try:
            source, loaded = self.catalog.read(suite.playbook, legacy=suite.legacy)
        except OSError as error:
            said = suite.root.get("playbook") if suite.root is not None else None
            at = suite.source.span(said.start, said.end) if said is not None else None
            message = f"the playbook {suite.playbook} cannot be read ({error.strerror})"
            fix = "write its path under `playbook`, as seen from this file"
            problems.append((suite.source, (Diagnostic("unreadable-file", Severity.ERROR, message, at, fix),)))
            return None, None
        if loaded.net is None:
            problems.append((loaded.source, loaded.diagnostics))
        return loaded, source

    # --- one case ----------------------------------------------------------------------------------------------------

    def _case(self, case: Case, suite: Suite, loaded: Loaded, performer: Performer, shelf: Shelf) -> Result:
        if case.skip is not None:
            return Result(case, "skipped")
        began = time.monotonic()
        refused = tuple(_payload(case, loaded))
        if refused:
            return Result(case, "error", refused)
        try:
            result = self._judged(case, suite, performer, shelf)
        except NoetlError as error:
            result = Result(case, "error", (Failure(case.span, f"the run broke: {error}"),))
        return msgspec.structs.replace(result, seconds=time.monotonic() - began)

    def _judged(self, case: Case, suite: Suite, performer: Performer, shelf: Shelf) -> Result:
        cassette = shelf.cassette(case.name, recording=self.wishes.record)
        done = performer.perform(case, Stage(case, cassette, recording=self.wishes.record))
        if self.wishes.record:
            shelf.put(case.name, cassette)
        if done.trouble is not None:
            trouble = done.trouble
            return Result(case, "error", (Failure(trouble.at or case.span, trouble.message, trouble.fix),), done)
        name_at = (suite.source.offset(case.span.line, case.span.column),
                   suite.source.offset(case.span.end_line, case.span.end_column))  # fmt: skip
        wrong = unmet(case.expect, name_at, done)
        failures = [Failure(suite.source.span(*one.at), one.message, None, one.expected, one.got) for one in wrong]
        deaths = None
        if self.wishes.crash and not failures:
            played = shelf.cassette(case.name, recording=False)
            deaths = crash_everywhere(
                done, lambda death: performer.perform(case, Stage(case, played, recording=False), death)
            )
            failures += [
                Failure(case.span, f"{one.where} it ends otherwise: {one.message}") for one in deaths.differences
            ]
        return Result(case, "failed" if failures else "passed", tuple(failures), done, deaths)


def _payload(case: Case, loaded: Loaded) -> Iterator[Failure]:
    """What the playbook's schema says against the payload."""
    assert loaded.net is not None
    playbook = loaded.net.playbook
    schema = playbook.metadata.get("schema")
    if schema is not None:
        for one in misfits(merged(playbook.workload, case.payload), schema):
            yield Failure(case.payload_at or case.span, f"{one.name}: {one.said}", "give another `payload`")
