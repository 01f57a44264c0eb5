"""Skipped tests: on a developer's machine a missing program skips a test, in CI (`CI=true`) it fails the test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

#: reasons to skip a test on a machine that has every program and service
ALLOWED = re.compile(
    r"not part of this repository|this kernel cannot confine|no seccomp here|nothing can be mounted here"
    r"|got empty parameter set"
)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skipped test into a failure, where everything that tests need must be installed."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not ALLOWED.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nWith CI=true, no test may be skipped for this reason."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    fail_if_skipped(report)
    return report
