"""What holds for all tests: none leaves a process or an unsound store behind, and in CI none is skipped for want of a program."""

from __future__ import annotations

import atexit
import gc
import os
import re
from collections.abc import Iterator

import host_forkserver
import pytest
from forkserver import ForkServer
from hypothesis import HealthCheck, settings
from servers import bucket, database, nats, nats_server, postgres_server, s3_server
from soundness import unsound
from supervisor import supervise

__all__ = ["bucket", "database", "nats", "nats_server", "postgres_server", "s3_server"]

supervise()
# Commands freeze what they have loaded; a process that runs many of them would never let go of what DuckDB wants back.
atexit.register(gc.unfreeze)
host_forkserver.install()
# How fast a machine makes up examples, and goes through them, says nothing of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_xdist_auto_num_workers() -> int:
    """More processes than there are processors: tests often wait, for a lease to run out or for another process."""
    return PROCESSORS + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that at the end no process waits for another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


#: reasons to skip a test on a machine that has all programs and services; where CI is true, any other is an error
ALLOWED_SKIPS = re.compile(
    r"not part of this repository|this kernel cannot confine|no seccomp here|nothing can be mounted here"
    r"|got empty parameter set"
)


def _fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a skip for want of something an error, where everything has to be there."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not ALLOWED_SKIPS.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nWith CI=true a test may not be skipped for this reason."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    _fail_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _fail_skipped(report)
    return report


@pytest.fixture(autouse=True)
def stores_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the stores under a test's folder, unless the test damages them on purpose."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    # The store's own tests write events that no engine made.
    exempt = request.node.get_closest_marker("damages") is not None or "stores" in request.node.path.parts
    if folder is None or exempt:
        return
    for store in folder.rglob("noetl.db"):
        assert unsound(store) == []


@pytest.fixture(scope="session")
def forkserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Start real processes of the command line at little cost."""
    ForkServer.shared = ForkServer(tmp_path_factory.mktemp("forkserver"))
    yield ForkServer.shared
    ForkServer.shared.close()
