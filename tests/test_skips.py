"""A skip is an error in CI, unless a complete machine may skip the test as well."""

from __future__ import annotations

import pytest
from skips import fail_if_skipped


def skipped(reason: str) -> pytest.TestReport:
    where = ("test_it.py", 7, f"Skipped: {reason}")
    return pytest.TestReport("test_it.py::test_it", ("test_it.py", 6, "test_it"), {}, "skipped", where, "call")


@pytest.mark.parametrize(
    ("ci", "reason", "outcome"),
    [
        ("true", "no C compiler", "failed"),
        ("true", "could not import 'duckdb'", "failed"),
        ("true", "the source documents are not part of this repository", "skipped"),
        ("", "no C compiler", "skipped"),
    ],
)
def test_a_skip_is_judged_by_its_reason(monkeypatch: pytest.MonkeyPatch, ci: str, reason: str, outcome: str) -> None:
    monkeypatch.setenv("CI", ci)
    report = skipped(reason)
    fail_if_skipped(report)
    assert report.outcome == outcome
    assert reason in str(report.longrepr)


def test_an_expected_failure_is_no_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    report = skipped("a known fault")
    report.wasxfail = "a known fault"  # type: ignore[attr-defined]
    fail_if_skipped(report)
    assert report.outcome == "skipped"
