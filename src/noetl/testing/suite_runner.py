"""SuiteRunner: runs the cases of test files one after the other, and collects their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.lang import (
    Loaded,
    workload_violations,
)
from noetl.model.diagnostics import Diagnostic, Severity, Source, Span
from noetl.model.scope import merge_maps
from noetl.ports import PlaybookSource
from noetl.server.core import Catalog
from noetl.testing.case_runner import CaseOutcome, CaseRunner
from noetl.testing.crash_check import CrashReport, crash_everywhere
from noetl.testing.expectations import find_mismatches
from noetl.testing.file_checks import check_names
from noetl.testing.mocked_tools import MockedTools
from noetl.testing.mocks import CassetteFile
from noetl.testing.test_file import Case, Suite, load_suite
from noetl.tools import ToolKinds

_UNSENT = "the signal `{}` was never sent: the run was over before anybody waited for it, or before its time"


class SuiteOptions(msgspec.Struct, frozen=True):
    """How a session goes."""

    chosen: Callable[[str], bool] = lambda _name: True
    crash: bool = False
    record: bool = False


class CaseFailure(msgspec.Struct, frozen=True):
    """One thing that is wrong with a case."""

    at: Span | None
    message: str
    fix: str | None = None
    expected: Any = None
    got: Any = None


class CaseResult(msgspec.Struct, frozen=True):
    """What became of a case."""

    case: Case
    #: `passed`, `failed`, `error` (it could not be judged) or `skipped`
    status: str
    failures: tuple[CaseFailure, ...] = ()
    done: CaseOutcome | None = None
    deaths: CrashReport | None = None
    #: of real time
    seconds: float = 0.0


class SuiteResult(msgspec.Struct, frozen=True):
    """What became of a test file."""

    file: Path
    source: Source
    #: what keeps it from running; the playbook's own problems come with the playbook's source
    problems: tuple[tuple[Source, tuple[Diagnostic, ...]], ...] = ()
    results: tuple[CaseResult, ...] = ()
    #: recordings to be written, and where
    cassette: tuple[Path, str] | None = None

    @property
    def invalid(self) -> bool:
        """Whether it could not be run at all."""
        return bool(self.problems)


class SuiteRunner:
    """Runs test files; what was compiled for one serves the next."""

    def __init__(self, wishes: SuiteOptions, home: Path, environment: dict[str, str]) -> None:
        self.wishes = wishes
        self.home = home
        self.environment = environment
        self.catalog = Catalog(ToolKinds())

    def run(
        self,
        file: Path,
        data: bytes,
        name: str,
        heard: Callable[[SuiteResult, CaseResult], None],
        *,
        until: Callable[[], bool] = lambda: False,
    ) -> SuiteResult:
        """Run the cases of a file, `until` it is enough; `heard` is told of each as soon as it is known."""
        suite, loaded, source, problems = self.prepare(file, data, name)
        if problems or loaded is None or source is None:
            return SuiteResult(file, suite.source, problems)
        cassette_file = CassetteFile(file)
        ran = SuiteResult(file, suite.source)
        results = []
        performer = CaseRunner(self.catalog, source, self.home, self.environment)
        for case in suite.cases:
            if until() or not self.wishes.chosen(f"{name}::{case.name}"):
                continue
            results.append(self._case(case, suite, loaded, performer, cassette_file))
            heard(ran, results[-1])
        text = cassette_file.text([case.name for case in suite.cases]) if self.wishes.record else ""
        return msgspec.structs.replace(
            ran, results=tuple(results), cassette=(cassette_file.path, text) if self.wishes.record else None
        )

    def prepare(
        self, file: Path, data: bytes, name: str
    ) -> tuple[Suite, Loaded | None, PlaybookSource | None, tuple[tuple[Source, tuple[Diagnostic, ...]], ...]]:
        """A test file with its playbook, and all that keeps it from running."""
        suite = load_suite(data, file, name)
        problems: list[tuple[Source, tuple[Diagnostic, ...]]] = []
        if suite.diagnostics:
            problems.append((suite.source, suite.diagnostics))
        loaded, source = self._playbook(suite, problems)
        if not problems and loaded is not None and loaded.net is not None:
            strange = check_names(suite, loaded.net, self.catalog.kinds)
            problems += [(suite.source, strange)] if strange else []
        return suite, loaded, source, tuple(problems)

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

    def _case(
        self, case: Case, suite: Suite, loaded: Loaded, performer: CaseRunner, cassette_file: CassetteFile
    ) -> CaseResult:
        if case.skip is not None:
            return CaseResult(case, "skipped")
        began = time.monotonic()
        refused = tuple(_payload(case, loaded))
        if refused:
            return CaseResult(case, "error", refused)
        try:
            result = self._judge_case(case, suite, performer, cassette_file)
        except NoetlError as error:
            result = CaseResult(case, "error", (CaseFailure(case.span, f"the run broke: {error}"),))
        return msgspec.structs.replace(result, seconds=time.monotonic() - began)

    def _judge_case(self, case: Case, suite: Suite, performer: CaseRunner, cassette_file: CassetteFile) -> CaseResult:
        cassette = cassette_file.cassette(case.name, recording=self.wishes.record)
        done = performer.run_case(case, MockedTools(case, cassette, recording=self.wishes.record))
        if self.wishes.record:
            cassette_file.put(case.name, cassette)
        if done.trouble is not None:
            trouble = done.trouble
            return CaseResult(
                case, "error", (CaseFailure(trouble.at or case.span, trouble.message, trouble.fix),), done
            )
        name_at = (suite.source.offset(case.span.line, case.span.column),
                   suite.source.offset(case.span.end_line, case.span.end_column))  # fmt: skip
        wrong = find_mismatches(case.expect, name_at, done)
        failures = [CaseFailure(suite.source.span(*one.at), one.message, None, one.expected, one.got) for one in wrong]
        failures += [CaseFailure(one.span, _UNSENT.format(one.name)) for one in done.unsent]
        deaths = None
        if self.wishes.crash and not failures:
            played = cassette_file.cassette(case.name, recording=False)
            deaths = crash_everywhere(
                done, lambda death: performer.run_case(case, MockedTools(case, played, recording=False), death)
            )
            failures += [
                CaseFailure(case.span, f"{one.where} it ends otherwise: {one.message}") for one in deaths.differences
            ]
        return CaseResult(case, "failed" if failures else "passed", tuple(failures), done, deaths)


def _payload(case: Case, loaded: Loaded) -> Iterator[CaseFailure]:
    """What the playbook's schema says against the payload."""
    assert loaded.net is not None
    playbook = loaded.net.playbook
    schema = playbook.metadata.get("schema")
    if schema is not None:
        for one in workload_violations(merge_maps(playbook.workload, case.payload), schema):
            yield CaseFailure(case.payload_at or case.span, f"{one.name}: {one.said}", "give another `payload`")


def check_file(data: bytes, file: Path, name: str) -> Loaded:
    """What is to be said about a test file without running it; its playbook's problems are told with the playbook."""
    suite, _, _, problems = SuiteRunner(SuiteOptions(), Path(), {}).prepare(file, data, name)
    return Loaded(
        None, tuple(one for source, found in problems if source is suite.source for one in found), suite.source
    )
