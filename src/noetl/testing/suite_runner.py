"""SuiteRunner: runs the cases of test files one after the other, and collects their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.lang import (
    ListNode,
    Loaded,
    MapEntry,
    MapNode,
    Node,
    Scalar,
    all_tasks,
    list_of,
    map_of,
    span,
    workload_violations,
)
from noetl.model.diagnostics import Diagnostic, Diagnostics, Severity, Source, Span
from noetl.model.nearest import nearest
from noetl.model.net import Net
from noetl.model.scope import merge_maps
from noetl.ports import PlaybookSource
from noetl.server.core import Catalog
from noetl.testing.case_runner import CaseOutcome, CaseRunner
from noetl.testing.crash_check import CrashReport, crash_everywhere
from noetl.testing.expectations import find_mismatches
from noetl.testing.mocked_tools import MockedTools
from noetl.testing.mocks import CassetteFile
from noetl.testing.test_file import Case, Suite, load_suite
from noetl.tools import ToolKinds

# Names in a test file that must exist in its playbook: steps, tasks, kinds.


def check_names(suite: Suite, net: Net, kinds: Iterable[str]) -> tuple[Diagnostic, ...]:
    """What a test file names and its playbook does not have."""
    assert suite.root is not None
    check = _Check(net, kinds, Diagnostics(suite.source))
    cases = [case for case in _items(suite.root, "tests") if isinstance(case, MapNode)]
    for node in (suite.root, *cases):
        check.contradictions(node)
    if any(step.router.synthesize is not None for step in net.steps.values()):
        return check.problems.collect()  # steps and tasks may come up that nobody has written down
    check.settings(suite.root)
    for case in cases:
        check.case(case)
    return check.problems.collect()


class _Check:
    def __init__(self, net: Net, kinds: Iterable[str], problems: Diagnostics) -> None:
        self.problems = problems
        self.steps = dict.fromkeys(net.steps)
        self.kinds = list(kinds)
        self.tasks: dict[str, None] = {}
        #: what tasks may be called → which they are, by their most exact names
        self.called: dict[str, set[str]] = {}
        #: calls of the workbook → what they call
        self.workbook_calls: dict[str, str] = {}
        for step, task in all_tasks(net.playbook):
            self.tasks[task.name] = None
            exact = f"{step.name}.{task.name}" if step is not None else task.name
            for name in (exact, task.name):
                self.called.setdefault(name, set()).add(exact)
            if step is not None:
                self.tasks[f"{step.name}.{task.name}"] = None
            if step is not None and task.kind == "workbook":
                self.workbook_calls |= dict.fromkeys((task.name, f"{step.name}.{task.name}"), str(task.config["task"]))

    def settings(self, node: MapNode) -> None:
        for entry in _entries(node, "mocks"):
            self.task(entry.key, entry.name)
        for item in _items(node, "real"):
            if isinstance(item, Scalar):
                self.task(item, item.text, self.kinds)

    def contradictions(self, node: MapNode) -> None:
        """Tasks that have a mock and run for real, both by the same word; a kind is said of those without a mock."""
        mocked = {frozenset(self.called.get(entry.name, {entry.name})): entry.name for entry in _entries(node, "mocks")}
        for item in _items(node, "real"):
            if not isinstance(item, Scalar) or item.text in self.kinds:
                continue
            name = mocked.get(frozenset(self.called.get(item.text, {item.text})))
            if name is not None:
                also = f", there called `{name}`" if name != item.text else ""
                message = f"`{item.text}` is to run for real, and has a mock{also}: it can only do one"
                fix = "remove it from `real`, or its mock from `mocks`"
                self.problems.error("wrong-value", message, span(item), fix=fix)

    def case(self, node: MapNode) -> None:
        self.settings(node)
        for item in _items(node, "signals"):
            after = item.get("after") if isinstance(item, MapNode) else None
            if isinstance(after, Scalar):
                self.step(after, after.text)
        expect = map_of(node, "expect")
        if expect is not None:
            self.expectations(expect)

    def expectations(self, expect: MapNode) -> None:
        for entry in _entries(expect, "calls"):
            self.task(entry.key, entry.name)
            called = self.workbook_calls.get(entry.name)
            if called is not None:
                message = f"`{entry.name}` calls the workbook, and is not told of itself"
                fix = f"write the name of the workbook's task: `{called}`"
                self.problems.error("wrong-value", message, span(entry.key), fix=fix)
        for key in ("steps", "arcs"):
            for entry in _entries(expect, key):
                self.step(entry.key, entry.name)
        for key in ("route", "stalled"):
            for item in _items(expect, key):
                for one in item.items if isinstance(item, ListNode) else (item,):
                    if isinstance(one, Scalar):
                        self.step(one, one.text)

    def task(self, at: Scalar, name: str, more: Iterable[str] = ()) -> None:
        # Of a playbook that is called nobody knows the names before it is.
        if name in self.tasks or name in more or ":" in name:
            return
        # A task of a workbook may be named behind its call, as the log does.
        if name.partition(".")[0] in self.steps and name.rpartition(".")[2] in self.tasks:
            return
        self.unknown("unknown-task", "task", at, name, [*self.tasks, *more])

    def step(self, at: Scalar, name: str) -> None:
        if name not in self.steps:
            self.unknown("unknown-step", "step", at, name, list(self.steps))

    def unknown(self, code: str, what: str, at: Scalar, name: str, known: list[str]) -> None:
        meant = nearest(name, known)
        fix = f"did you mean `{meant}`?" if meant else f"it has: {', '.join(known[:20])}"
        self.problems.error(code, f"the playbook has no {what} `{name}`", span(at), fix=fix)


def _entries(node: MapNode, key: str) -> Iterator[MapEntry]:
    found = map_of(node, key)
    yield from found.entries if found is not None else ()


def _items(node: MapNode, key: str) -> Iterator[Node]:
    found = list_of(node, key)
    yield from found.items if found is not None else ()


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
