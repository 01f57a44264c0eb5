"""verify_migration: the older and the migrated text on several variants of made-up answers, and what came of it per step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from noetl.errors import NoetlError
from noetl.lang import Loaded
from noetl.model.diagnostics import Severity
from noetl.server.core import Catalog
from noetl.testing.case_runner import CaseRunner
from noetl.testing.verification.code_runs import CodeRunner, CodeRuns
from noetl.testing.verification.comparison import RunDifference, compare_published, compare_runs
from noetl.testing.verification.made_up_answers import VARIANTS, AnswerVariant, MadeUpAnswers
from noetl.testing.verification.migrated_run import run_migrated
from noetl.testing.verification.older_document import NotUnderstood, OlderDocument, OlderStep, read_document
from noetl.testing.verification.older_run import OlderRun
from noetl.testing.verification.run_trace import RunTrace

#: how long the runs of one playbook may take; those of most take a second
_SECONDS = 30.0


class StepProof(msgspec.Struct, frozen=True):
    """What a verification found out about one step."""

    step: str
    #: in the older text
    line: int
    #: `same`, `different`, or `not compared`
    verdict: str
    #: why it was not compared, or what of it is only made up
    reason: str = ""
    #: the first difference, and the answers on which it shows
    difference: RunDifference | None = None
    variant: str = ""
    #: calls that were compared, over all variants
    calls: int = 0


class MigrationProof(msgspec.Struct, frozen=True):
    """What a verification found out about a file."""

    steps: tuple[StepProof, ...]
    #: why nothing could be compared
    problem: str = ""

    @property
    def is_same(self) -> bool:
        """Whether no difference was found."""
        return not self.problem and all(one.verdict != "different" for one in self.steps)


class MigrationVerifier:
    """Compares migrated texts with the older ones they come from."""

    def __init__(
        self, catalog: Catalog, home: Path, environment: dict[str, str], code: CodeRunner | None = None
    ) -> None:
        self.catalog = catalog
        self.home = home
        self.environment = environment
        self.code = code or CodeRuns(catalog, home, environment)

    def verify_migration(
        self, older: str, migrated: str, file: Path, variants: Iterable[AnswerVariant] = VARIANTS, seed: int = 0
    ) -> MigrationProof:
        """Run both texts; `file` is where they stand."""
        try:
            document = read_document(older)
        except NotUnderstood as error:
            return MigrationProof((), str(error))
        source, loaded = self.catalog.read(file, migrated.encode())
        if loaded.net is None:
            return MigrationProof((), f"the migrated text cannot be run: {_first_error(loaded)}")
        runner = CaseRunner(self.catalog, source, self.home, self.environment)
        findings = _Findings(document, self.code)
        ends = time.monotonic() + _SECONDS
        for variant in variants:
            answers = MadeUpAnswers(document.read, variant, seed)
            try:
                before, after = self._run_both(document, runner, answers, ends)
            except NoetlError as error:
                return MigrationProof((), f"the migrated text cannot be run: {error}")
            if time.monotonic() > ends:
                findings.late = f"running both texts takes more than {_SECONDS:g} s"
                break
            findings.add(variant, before, after)
        if findings.late and not findings.seen:
            return MigrationProof((), findings.late)
        return MigrationProof(tuple(findings.conclude()))

    def _run_both(
        self, document: OlderDocument, runner: CaseRunner, answers: MadeUpAnswers, ends: float
    ) -> tuple[RunTrace, RunTrace]:
        """Run both texts on the same answers; once more if code was found that is not run after all."""
        payload = answers.make_payload(document.workload)
        codes = [str(task.config.get("code")) for step in document.steps.values() for task in step.tasks]
        while True:
            refused = [self.code.find_refusal(code) for code in codes]
            before = OlderRun(document, answers, self.code, payload, ends).run()
            after = run_migrated(runner, answers, self.code, payload, ends)
            if refused == [self.code.find_refusal(code) for code in codes]:
                return before, after


class _Findings:
    """What the variants showed, by step."""

    def __init__(self, document: OlderDocument, code: CodeRunner) -> None:
        self.document = document
        self.code = code
        #: why not all variants were tried
        self.late = ""
        self.differences: dict[str, tuple[RunDifference, str]] = {}
        self.calls: dict[str, int] = {}
        #: by step, an error that all of its calls ended with; empty if one ended well
        self.errors: dict[str, str] = {}
        self.seen: set[str] = set()
        self.stopped: dict[str, None] = {}
        #: by name in `ctx`, the step that publishes it
        self.publishers = {
            **{name: name for name in document.steps},
            **{name: step.name for step in document.steps.values() for name in _published(step)},
        }

    def add(self, variant: AnswerVariant, before: RunTrace, after: RunTrace) -> None:
        """Add what one variant showed; after a difference nothing that follows from it is told again."""
        for key, call in before.calls.items():
            self.calls[key[0]] = self.calls.get(key[0], 0) + 1
            self.errors.setdefault(key[0], call.message)
            if not call.message:
                self.errors[key[0]] = ""
        self.seen.update(before.steps)
        found = compare_runs(before, after)
        if after.stopped and not before.stopped:
            found.setdefault("", RunDifference("", "the end of the run", before.status, after.stopped))
        if not found and not before.stopped and not after.stopped:
            found = {one.step: one for one in compare_published(before.ctx, after.ctx, self.publishers)}
        for step, difference in found.items():
            self.differences.setdefault(step, (difference, variant.name))
        if before.stopped:
            self.stopped.setdefault(before.stopped)

    def conclude(self) -> Iterator[StepProof]:
        """What is to be said of each step, in the order of the text."""
        for step in self.document.steps.values():
            yield self._conclude_step(step)
        if "" in self.differences:
            difference, variant = self.differences[""]
            yield StepProof("", 1, "different", "", difference, variant)

    def _conclude_step(self, step: OlderStep) -> StepProof:
        calls = self.calls.get(step.name, 0)
        if step.name in self.differences:
            difference, variant = self.differences[step.name]
            return StepProof(step.name, step.line, "different", "", difference, variant, calls)
        if step.name not in self.seen:
            why = step.unknown or (f"comes after {next(iter(self.stopped))}" if self.stopped else "")
            return StepProof(step.name, step.line, "not compared", why or "no made-up answer leads to it")
        codes = [str(task.config.get("code")) for task in step.tasks if task.kind == "python"]
        refusal = next((refusal for code in codes if (refusal := self.code.find_refusal(code))), "")
        said = f"its code was not run, since {refusal}; what it yields is made up" if refusal else self.late
        if not said and self.errors.get(step.name):
            said = f"all of its calls failed on made-up answers: {self.errors[step.name]}"
        return StepProof(step.name, step.line, "same", said, calls=calls)


def _first_error(loaded: Loaded) -> str:
    return next(one.message for one in loaded.diagnostics if one.severity is Severity.ERROR)


def _published(step: OlderStep) -> Iterator[str]:
    yield from step.results
    yield from (name for scope, name, _ in step.writes if scope == "ctx")
    for task in step.tasks:
        for writes in (task.writes, *(rule.writes for rule in task.rules)):
            yield from (name for scope, name, _ in writes if scope == "ctx")
