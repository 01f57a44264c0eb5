"""Tests of playbooks for programs: one JSON document, and JUnit XML as build servers read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from noetl.lang import report

if TYPE_CHECKING:
    from noetl.trials.session import Failure, Ran, Result


def document(ran: list[Ran], seconds: float) -> dict[str, Any]:
    """Everything, as data."""
    results = [result for one in ran for result in one.results]
    counts = {word: sum(one.status == word for one in results) for word in ("passed", "failed", "error", "skipped")}
    found = [report.Reported(source, diagnostics) for one in ran for source, diagnostics in one.problems]
    return {
        **counts,
        "duration_ms": int(seconds * 1000),
        "tests": [_result(one, result) for one in ran for result in one.results],
        **report.as_json(found),
    }


def _result(ran: Ran, result: Result) -> dict[str, Any]:
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
        from noetl.server.why import explain

        made["why"] = explain(done.net, done.state, done.events)
    return made


def _failure(one: Failure) -> dict[str, Any]:
    return {
        "line": one.at.line if one.at is not None else None,
        "column": one.at.column if one.at is not None else None,
        "message": one.message,
        "fix": one.fix,
        "expected": one.expected,
        "got": one.got,
    }


# --- JUnit -----------------------------------------------------------------------------------------------------------


def junit_xml(ran: list[Ran], seconds: float) -> str:
    """A `testsuites` document; a file that is invalid is a suite with one error."""
    suites = [_suite(one) for one in ran]
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites time="{seconds:.3f}">\n{"".join(suites)}</testsuites>\n'
    )


def _suite(ran: Ran) -> str:
    cases = [_case(ran, result) for result in ran.results]
    counts = {word: sum(one.status == word for one in ran.results) for word in ("failed", "error", "skipped")}
    if ran.invalid:
        text = "".join(report.as_text(source, found) for source, found in ran.problems)
        cases = [
            f'    <testcase name="the file itself">\n{_element("error", "the file is invalid", text)}    </testcase>\n'
        ]
        counts["error"] = 1
    took = sum(one.seconds for one in ran.results)
    numbers = (
        f'tests="{len(cases)}" failures="{counts["failed"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
    )
    return (
        f'  <testsuite name={_quoted(ran.source.name)} {numbers} time="{took:.3f}">\n{"".join(cases)}  </testsuite>\n'
    )


def _case(ran: Ran, result: Result) -> str:
    case = result.case
    head = (
        f"    <testcase name={_quoted(case.name)} classname={_quoted(ran.source.name)} file={_quoted(ran.source.name)}"
        f' line="{case.span.line}" time="{result.seconds:.3f}"'
    )
    if result.status == "passed":
        return f"{head}/>\n"
    if result.status == "skipped":
        return f"{head}>\n      <skipped message={_quoted(case.skip or '')}/>\n    </testcase>\n"
    word = "failure" if result.status == "failed" else "error"
    lines = [f"{ran.source.name}:{one.at.line if one.at else case.span.line}: {one.message}" for one in result.failures]
    return f"{head}>\n{_element(word, result.failures[0].message, chr(10).join(lines))}    </testcase>\n"


def _element(word: str, message: str, text: str) -> str:
    return f"      <{word} message={_quoted(message)}>{escape(_allowed(text))}</{word}>\n"


def _quoted(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in text)
