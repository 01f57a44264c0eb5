"""Tests of playbooks for programs: one JSON document, and JUnit XML as build servers read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from noetl.cli.output.printing import colorize, count, duration
from noetl.lang import FileReport, escape_controls, render_text, summarize_problems
from noetl.lang.printing import diagnostic_report

if TYPE_CHECKING:
    from noetl.model.diagnostics import Source
    from noetl.testing import CaseFailure, CaseResult, SuiteResult


# Tests of playbooks in words: what passed in a line, what did not with its place, and why the run went as it did.


#: what a status looks like: its sign, and the style it is painted in
_SIGNS = {"passed": ("✓", "done"), "failed": ("✗", "failed"), "error": ("✗", "failed"), "skipped": ("-", "skipped")}
#: differences that are told of one case
_MOST = 10


def case_text(ran: SuiteResult, result: CaseResult, *, colour: bool) -> str:
    """One case: a line, and if it did not pass what is wrong."""
    sign, style = _SIGNS[result.status]
    case = result.case
    line = f"{colorize(sign, style, colour=colour)} {ran.source.name}: {escape_controls(case.name)}"
    if result.status == "skipped":
        return f"{line} (skipped: {escape_controls(case.skip or '')})\n"
    notes = [duration(result.seconds)]
    if result.done is not None and result.done.seconds >= 1:
        notes.append(f"{duration(result.done.seconds)} skipped")
    if result.deaths is not None:
        notes.append(f"killed {count(result.deaths.points, 'time')}")
    lines = [f"{line} ({', '.join(notes)})"]
    for failure in result.failures[:_MOST]:
        lines += [f"    {part}" if part else "" for part in _failure_lines(ran.source, failure, colour=colour)]
    if len(result.failures) > _MOST:
        lines.append(f"    … and {len(result.failures) - _MOST} more; --json has all")
    if result.failures and result.done is not None:
        lines += ["", *(f"    {part}" for part in _why(result, colour=colour)), ""]
    return "\n".join(lines) + "\n"


def _failure_lines(source: Source, failure: CaseFailure, *, colour: bool) -> Iterator[str]:
    at = failure.at
    if at is None:
        yield escape_controls(failure.message)
        return
    yield f"{colorize(f'{source.name}:{at.line}:{at.column}:', 'bold', colour=colour)} {escape_controls(failure.message)}"
    text = source.line_text(at.line)
    end = at.end_column - 1 if at.end_line == at.line else len(text.rstrip())
    gutter = " " * len(str(at.line))
    if len(text) <= 110:
        yield f"{at.line} | {escape_controls(text)}"
        yield f"{gutter} | {' ' * (at.column - 1)}{colorize('^' * max(1, end - at.column + 1), 'failed', colour=colour)}"
    if failure.fix:
        yield f"{gutter} help: {escape_controls(failure.fix)}"


def _why(result: CaseResult, *, colour: bool) -> list[str]:
    """Why the run went as it did, step by step."""
    from noetl.cli.output.why_text import overview
    from noetl.history import explain_step

    done = result.done
    assert done is not None
    answers = explain_step(done.net, done.state, done.events)
    return overview(answers, done.state, colour=colour).rstrip().splitlines()[:-2]


def problems_text(ran: SuiteResult, *, colour: bool) -> str:
    """What keeps a file from running."""
    return "".join(
        f"{render_text(source, found, colour=colour)}\n{summarize_problems([FileReport(source, found)])}"
        for source, found in ran.problems
    )


def summary_line(results: list[CaseResult], ran: list[SuiteResult], seconds: float, *, colour: bool) -> str:
    """The last line."""
    counts = Counter(result.status for result in results)
    parts = [
        colorize(count(counts[word], "error") if word == "error" else f"{counts[word]} {word}", style, colour=colour)
        for word, (_, style) in _SIGNS.items()
        if counts[word]
    ]
    invalid = sum(one.invalid for one in ran)
    if invalid:
        parts.append(colorize(f"{count(invalid, 'file')} invalid", "failed", colour=colour))
    if not parts:
        return "no case was run: no file and name contain the words of -k\n"
    return f"{', '.join(parts)} in {duration(seconds)}\n"


def document(ran: list[SuiteResult], seconds: float) -> dict[str, Any]:
    """Everything, as data."""
    results = [result for one in ran for result in one.results]
    counts = {word: sum(one.status == word for one in results) for word in ("passed", "failed", "error", "skipped")}
    found = [diagnostic_report.FileReport(source, diagnostics) for one in ran for source, diagnostics in one.problems]
    return {
        **counts,
        "duration_ms": int(seconds * 1000),
        "tests": [_result(one, result) for one in ran for result in one.results],
        **diagnostic_report.as_json(found),
    }


def _result(ran: SuiteResult, result: CaseResult) -> dict[str, Any]:
    made: dict[str, Any] = {
        "file": ran.source.name,
        "name": result.case.name,
        "line": result.case.span.line,
        "status": result.status,
        "duration_ms": int(result.seconds * 1000),
        "failures": [_failure(one) for one in result.failures],
    }
    done = result.done
    if done is not None:
        made["run"] = {
            "status": done.state.status,
            "output": done.output,
            "ctx": done.state.ctx,
            "error": done.state.error,
            "steps": {name: {"status": one.status, "runs": one.runs} for name, one in done.state.steps.items()},
            "seconds": done.seconds,
            "events": len(done.events),
        }
    if result.deaths is not None:
        made["killed"] = result.deaths.points
    if result.failures and done is not None:
        from noetl.history import explain_step

        made["why"] = explain_step(done.net, done.state, done.events)
    return made


def _failure(one: CaseFailure) -> dict[str, Any]:
    return {
        "line": one.at.line if one.at is not None else None,
        "column": one.at.column if one.at is not None else None,
        "message": one.message,
        "fix": one.fix,
        "expected": one.expected,
        "got": one.got,
    }


# --- JUnit -----------------------------------------------------------------------------------------------------------


def junit_xml(ran: list[SuiteResult], seconds: float) -> str:
    """A `testsuites` document; a file that is invalid is a suite with one error."""
    suites = [_suite(one) for one in ran]
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites time="{seconds:.3f}">\n{"".join(suites)}</testsuites>\n'
    )


def _suite(ran: SuiteResult) -> str:
    cases = [_case(ran, result) for result in ran.results]
    counts = {word: sum(one.status == word for one in ran.results) for word in ("failed", "error", "skipped")}
    if ran.invalid:
        text = "".join(diagnostic_report.render_text(source, found) for source, found in ran.problems)
        cases = [
            f'    <testcase name="the file itself">\n{_element("error", "the file is invalid", text)}    </testcase>\n'
        ]
        counts["error"] = 1
    took = sum(one.seconds for one in ran.results)
    numbers = (
        f'tests="{len(cases)}" failures="{counts["failed"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
    )
    return f'  <testsuite name={_quote(ran.source.name)} {numbers} time="{took:.3f}">\n{"".join(cases)}  </testsuite>\n'


def _case(ran: SuiteResult, result: CaseResult) -> str:
    case = result.case
    head = (
        f"    <testcase name={_quote(case.name)} classname={_quote(ran.source.name)} file={_quote(ran.source.name)}"
        f' line="{case.span.line}" time="{result.seconds:.3f}"'
    )
    if result.status == "passed":
        return f"{head}/>\n"
    if result.status == "skipped":
        return f"{head}>\n      <skipped message={_quote(case.skip or '')}/>\n    </testcase>\n"
    word = "failure" if result.status == "failed" else "error"
    lines = [f"{ran.source.name}:{one.at.line if one.at else case.span.line}: {one.message}" for one in result.failures]
    return f"{head}>\n{_element(word, result.failures[0].message, chr(10).join(lines))}    </testcase>\n"


def _element(word: str, message: str, text: str) -> str:
    return f"      <{word} message={_quote(message)}>{escape(_strip_control(text))}</{word}>\n"


def _quote(text: str) -> str:
    return quoteattr(_strip_control(text))


def _strip_control(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in text)
